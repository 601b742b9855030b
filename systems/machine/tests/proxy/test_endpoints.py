"""EndpointPicker: picks endpoints that were not tried, with optional session affinity."""

from random import Random

from levelset_machine.proxy.endpoints import EndpointPicker

A, B, C = ("127.0.0.1", 1), ("127.0.0.1", 2), ("127.0.0.1", 3)


def test_every_endpoint_is_picked_eventually() -> None:
    picker = EndpointPicker(Random(5).choice)
    assert {picker.pick([A, B, C], "me", now=0.0) for _ in range(50)} == {A, B, C}


def test_the_same_seed_picks_the_same() -> None:
    one, two = EndpointPicker(Random(5).choice), EndpointPicker(Random(5).choice)
    assert [one.pick([A, B, C], "", now=0.0) for _ in range(20)] == [
        two.pick([A, B, C], "", now=0.0) for _ in range(20)
    ]


def test_tried_endpoints_are_not_picked_again() -> None:
    picker = EndpointPicker(Random(5).choice)
    assert picker.pick([A, B], "me", now=0.0, tried={A}) == B
    assert picker.pick([A, B], "me", now=0.0, tried={A, B}) is None
    assert picker.pick([], "me", now=0.0) is None


def test_a_sticky_client_gets_its_last_endpoint_within_that_time() -> None:
    picker = EndpointPicker(lambda left: left[0], sticky=10.0)
    picker.note("me", B, now=0.0)
    assert picker.pick([A, B], "me", now=10.0) == B
    assert picker.pick([A, B], "other", now=10.0) == A
    assert picker.pick([A, B], "me", now=10.5) == A
    assert picker.pick([A, C], "me", now=1.0) == A
    assert picker.pick([A, B], "me", now=1.0, tried={B}) == A


def test_the_number_of_remembered_clients_is_bounded() -> None:
    picker = EndpointPicker(lambda left: left[0], sticky=10.0)
    for one in range(10_001):
        picker.note(str(one), B, now=0.0)
    assert picker.pick([A, B], "0", now=0.0) == A
    assert picker.pick([A, B], "1", now=0.0) == B
