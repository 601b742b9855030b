"""A proxy chooses among the endpoints that were not tried, and a sticky one remembers."""

from random import Random

from levelset_machine.proxy_choosing import Chooser

A, B, C = ("127.0.0.1", 1), ("127.0.0.1", 2), ("127.0.0.1", 3)


def test_every_endpoint_is_chosen_now_and_then() -> None:
    chooser = Chooser(Random(5).choice)
    assert {chooser.pick([A, B, C], "me", now=0.0) for _ in range(50)} == {A, B, C}


def test_the_same_seed_chooses_the_same() -> None:
    one, two = Chooser(Random(5).choice), Chooser(Random(5).choice)
    assert [one.pick([A, B, C], "", now=0.0) for _ in range(20)] == [
        two.pick([A, B, C], "", now=0.0) for _ in range(20)
    ]


def test_what_was_tried_is_not_chosen_and_after_all_of_them_there_is_none() -> None:
    chooser = Chooser(Random(5).choice)
    assert chooser.pick([A, B], "me", now=0.0, tried={A}) == B
    assert chooser.pick([A, B], "me", now=0.0, tried={A, B}) is None
    assert chooser.pick([], "me", now=0.0) is None


def test_a_sticky_one_leads_a_client_to_what_it_had_within_that_time() -> None:
    chooser = Chooser(lambda left: left[0], sticky=10.0)
    chooser.note("me", B, now=0.0)
    assert chooser.pick([A, B], "me", now=10.0) == B
    assert chooser.pick([A, B], "other", now=10.0) == A
    assert chooser.pick([A, B], "me", now=10.5) == A
    assert chooser.pick([A, C], "me", now=1.0) == A
    assert chooser.pick([A, B], "me", now=1.0, tried={B}) == A


def test_the_memory_of_a_sticky_one_is_bounded() -> None:
    chooser = Chooser(lambda left: left[0], sticky=10.0)
    for one in range(10_001):
        chooser.note(str(one), B, now=0.0)
    assert chooser.pick([A, B], "0", now=0.0) == A
    assert chooser.pick([A, B], "1", now=0.0) == B
