"""Decoded objects that are shared."""

from typing import Any

from levelset.cache.memo import Memo
from levelset.client.kinds import view_of
from levelset.objects import GroupVersionKind
from tests.cache.shelf import VIEW, kept_site


def test_no_more_than_the_limit_is_remembered_and_the_least_recently_read_goes_first() -> None:
    memo = Memo(VIEW, 2)
    kept = {name: kept_site(name) for name in "abc"}
    a, b = memo.read("a", kept["a"]), memo.read("b", kept["b"])
    assert memo.read("a", kept["a"]) is a
    memo.read("c", kept["c"])
    assert (len(memo), [one.name for _, one in memo.entries()]) == (2, ["a", "c"])
    assert memo.read("b", kept["b"]) is not b


def test_a_walk_uses_what_is_remembered_and_adds_nothing() -> None:
    memo = Memo(VIEW, 2)
    kept = kept_site("a")
    shared = memo.read("a", kept)
    assert memo.read("a", kept, remember=False) is shared
    memo.read("b", kept_site("b"), remember=False)
    assert len(memo) == 1


def test_another_version_is_another_object() -> None:
    memo = Memo(VIEW, 2)
    first = memo.read("a", kept_site("a", 1))
    second = memo.read("a", kept_site("a", 2))
    assert (first.metadata.resource_version, second.metadata.resource_version) == ("1", "2")
    assert len(memo) == 1


def test_what_a_caller_may_change_is_never_shared() -> None:
    memo: Memo[Any] = Memo(view_of(GroupVersionKind("example.dev", "v1", "Site")), 2)
    kept = kept_site("a")
    assert memo.read("a", kept) is not memo.read("a", kept)
    assert len(memo) == 0


def test_of_those_that_were_read_once_only_the_last_few_are_remembered() -> None:
    memo = Memo(VIEW, 1000)
    kept = {f"s{number}": kept_site(f"s{number}") for number in range(300)}
    first = {name: memo.read(name, one) for name, one in kept.items()}
    assert len(memo) == 8
    assert memo.read("s299", kept["s299"]) is first["s299"]
    assert memo.read("s0", kept["s0"]) is not first["s0"]


def test_what_is_read_again_unchanged_stays() -> None:
    memo = Memo(VIEW, 1000)
    kept = {f"s{number}": kept_site(f"s{number}") for number in range(900)}
    for _ in range(2):
        second = {name: memo.read(name, one) for name, one in kept.items()}
    assert all(memo.read(name, one) is second[name] for name, one in kept.items())
    for number in range(300):
        memo.read(f"other{number}", kept_site(f"other{number}"))
    assert (len(memo), memo.read("s0", kept["s0"]) is second["s0"]) == (964, True)


def test_more_are_remembered_while_somebody_misses_those_that_were_dropped() -> None:
    memo = Memo(VIEW, 1000)
    kept = {f"s{number}": kept_site(f"s{number}") for number in range(100)}
    for name, one in kept.items():
        memo.read(name, one)
    again = [memo.read(f"s{number}", kept[f"s{number}"]) for number in range(3)]
    assert len(memo) == 8 + 3
    for number in range(100):
        memo.read(f"other{number}", kept_site(f"other{number}"))
    assert len(memo) == 64 + 3
    assert again == [memo.read(f"s{number}", kept[f"s{number}"]) for number in range(3)]


def test_when_nobody_misses_any_more_for_long_few_are_remembered_again() -> None:
    memo = Memo(VIEW, 50)
    dropped = kept_site("dropped")
    memo.read("dropped", dropped)
    for number in range(20):
        memo.read(f"s{number}", kept_site(f"s{number}"))
    memo.read("dropped", dropped)
    for number in range(20, 45):
        memo.read(f"s{number}", kept_site(f"s{number}"))
    assert len(memo) == 16 + 1
    for number in range(100):
        memo.read(f"s{number}", kept_site(f"s{number}"))
    assert len(memo) == 8 + 1


def test_a_new_version_takes_the_place_of_the_one_that_was_remembered() -> None:
    memo = Memo(VIEW, 1000)
    others = [memo.read(f"s{number}", kept_site(f"s{number}")) for number in range(3)]
    for version in range(1, 20):
        newest = memo.read("a", kept_site("a", version))
    assert [one for _, one in memo.entries()] == [*others, newest]


def test_what_is_read_seldom_goes_before_what_is_read_often() -> None:
    memo = Memo(VIEW, 3)
    kept = {name: kept_site(name) for name in "abcd"}
    twice = {name: (memo.read(name, kept[name]), memo.read(name, kept[name]))[1] for name in "abc"}
    assert memo.read("a", kept["a"]) is twice["a"]
    memo.read("d", kept["d"])
    assert (len(memo), [one.name for _, one in memo.entries()]) == (3, ["c", "a", "d"])
    assert memo.read("b", kept["b"], remember=False) is not twice["b"]
