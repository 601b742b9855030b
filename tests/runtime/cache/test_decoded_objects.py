"""Decoded objects that are shared."""

from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as some

from levelset.client.object_types import OnlyMetadata, View, view_of
from levelset.errors import BadObject
from levelset.objects import GroupVersionKind, Kept, Object, decode, keep, origin_of
from levelset.runtime.cache.decoded_objects import Memo
from tests.runtime.cache.shelf import VIEW, kept_site

METADATA: Final[View[Any]] = view_of(OnlyMetadata(GroupVersionKind("example.dev", "v1", "Site")))
NAMES: Final = "abcd"


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
    second = memo.read("a", newer := kept_site("a", 2))
    assert (first.metadata.resource_version, second.metadata.resource_version) == ("1", "2")
    assert memo.read("a", newer) is second


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
    assert (len(memo), memo.read("s0", kept["s0"]) is second["s0"]) == (900 + 32, True)


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


def test_what_was_forgotten_long_ago_is_as_if_it_had_never_been_read() -> None:
    memo = Memo(VIEW, 50)
    kept = {f"s{number}": kept_site(f"s{number}") for number in range(200)}
    for _ in range(3):
        for name, one in kept.items():
            memo.read(name, one)
        assert [one.name for _, one in memo.entries()] == [f"s{number}" for number in range(192, 200)]


def test_a_new_version_takes_the_place_of_one_that_was_read_often() -> None:
    memo = Memo(VIEW, 1000)
    for version in range(1, 20):
        kept = kept_site("a", version)
        made = {id(memo.read("default/a", kept)) for _ in range(3)}
        assert len(made) == 1
        for number in range(8):
            memo.read(f"default/s{number}", kept_site(f"s{number}", version))
        assert [one.metadata.resource_version for _, one in memo.entries() if one.name == "a"] == [str(version)]
    memo.read("default/a", kept_site("a", 20))
    assert [one.metadata.resource_version for _, one in memo.entries() if one.name == "a"] == ["20"]


def test_what_is_read_seldom_goes_before_what_is_read_often() -> None:
    memo = Memo(VIEW, 4)
    kept = {name: kept_site(name) for name in "abcdefg"}
    twice = {name: (memo.read(name, kept[name]), memo.read(name, kept[name]))[1] for name in "abc"}
    for name in "def":
        memo.read(name, kept[name])
    assert [one.name for _, one in memo.entries()] == ["a", "b", "c", "f"]
    assert memo.read("a", kept["a"]) is twice["a"]
    assert memo.read("f", kept["f"]) is memo.read("f", kept["f"])
    memo.read("g", kept["g"])
    assert (len(memo), [one.name for _, one in memo.entries()]) == (4, ["c", "f", "a", "g"])
    assert memo.read("b", kept["b"], remember=False) is not twice["b"]


def test_what_a_class_refuses_is_named_and_not_remembered() -> None:
    memo = Memo(VIEW, 2)
    kept = keep(b'{"metadata":{"name":"bad"},"spec":7}')
    for _ in range(2):
        with pytest.raises(BadObject, match=r"Site/default/bad: .* at spec") as caught:
            memo.read("default/bad", kept)
        assert caught.value.field == "spec"
    assert (len(memo), kept.made) == (0, None)


@pytest.mark.parametrize("raw", [b'{"metadata":{"name":"a"}}', b'{"metadata":{"name":"a","labels":null}}'])
def test_what_is_shared_knows_what_it_was_decoded_from(raw: bytes) -> None:
    memo: Memo[Any] = Memo(METADATA, 2)
    raw = b'{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1",' + raw[1:]
    for made in (memo.read("a", keep(raw)), memo.read("a", keep(raw), remember=False)):
        assert (origin_of(made), made) == (raw, decode(METADATA.class_, raw))


def test_readers_with_several_classes_share_each_its_own_object() -> None:
    kept = {name: site_of_any_class(name) for name in NAMES}
    memos: list[Memo[Any]] = [Memo(VIEW, 3), Memo(METADATA, 3)]
    for name, one in kept.items():
        first, second = (memo.read(name, one) for memo in memos)
        assert (type(first), type(second)) == (VIEW.class_, METADATA.class_)
        for _ in range(2):
            assert [memo.read(name, one) for memo in memos] == [first, second]
            assert memos[0].read(name, one, remember=False) is first
            assert memos[1].read(name, one, remember=False) is second
    assert [len(memo) for memo in memos] == [3, 3]


def test_two_tables_with_the_same_object_share_it_and_one_may_forget_it() -> None:
    kept, (one, other) = kept_site("a"), (Memo(VIEW, 1), Memo(VIEW, 1))
    made = one.read("a", kept)
    assert other.read("a", kept) is made
    assert (len(one), len(other)) == (1, 0)
    one.read("b", kept_site("b"))
    again = other.read("a", kept)
    assert again == made
    assert again is other.read("a", kept)


def site_of_any_class(name: str, version: int = 1) -> Kept:
    """One that both classes of these tests can read: it does not say what it is."""
    text = '{"metadata":{"name":"%s","resourceVersion":"%s"},"spec":{"image":"x"}}'
    return keep((text % (name, version)).encode())


def versions_of(memo: Memo[Any], name: str) -> list[str]:
    return [one.metadata.resource_version for _, one in memo.entries() if one.name == name]


def read_often(memo: Memo[Any], name: str, kept: Kept) -> None:
    """Reads it until it is one of those that are read often, and no longer in line."""
    for _ in range(2):
        memo.read(name, kept)
    for number in range(8):
        memo.read(f"other{number}", site_of_any_class(f"other{number}"))
    assert versions_of(memo, name) == [kept.resource_version]


def test_a_version_goes_also_if_another_class_has_read_the_next_one_first() -> None:
    memo, other = Memo(VIEW, 1000), Memo(METADATA, 1000)
    read_often(memo, "a", site_of_any_class("a", 1))
    newer = site_of_any_class("a", 2)
    other.read("a", newer)
    memo.read("a", newer)
    assert versions_of(memo, "a") == ["2"]


def test_a_version_goes_also_if_the_next_one_cannot_be_read() -> None:
    memo = Memo(VIEW, 1000)
    read_often(memo, "a", site_of_any_class("a", 1))
    with pytest.raises(BadObject):
        memo.read("a", keep(b'{"metadata":{"name":"a","resourceVersion":"2"},"spec":7}'))
    assert versions_of(memo, "a") == []


def test_who_goes_forgets_what_others_still_keep() -> None:
    often, once = site_of_any_class("a"), site_of_any_class("b")
    memo = Memo(VIEW, 1000)
    read_often(memo, "a", often)
    memo.read("b", once)
    assert (decoded_of(often) and decoded_of(once)) != []
    del memo
    assert (decoded_of(often), decoded_of(once)) == ([], [])


def test_an_object_that_reads_itself_while_it_is_decoded_does_no_harm() -> None:
    reading: list[bool] = []

    class Reader(Object, api="example.dev/v1", kind="Site"):
        def __post_init__(self) -> None:
            if not reading:
                reading.append(True)
                for _ in range(2):
                    memo.read(self.metadata.name, kept[self.metadata.name])
                reading.clear()

    memo: Memo[Any] = Memo(view_of(Reader), 4)
    kept = {f"s{number}": site_of_any_class(f"s{number}") for number in range(30)}
    for name in [f"s{number * 7 % 30}" for number in range(300) for _ in range(2)]:
        assert memo.read(name, kept[name]).metadata.name == name
        assert len(memo) <= 4
        assert all(isinstance(made, Reader) for _, made in memo.entries())


class _Tables:
    """Two tables with the same objects, each read with two classes."""

    def __init__(self, limits: list[int]) -> None:
        self.memos: list[Memo[Any]] = [Memo((VIEW, METADATA)[place % 2], one) for place, one in enumerate(limits)]
        self.kept = {name: site_of_any_class(name) for name in NAMES}
        self.all = list(self.kept.values())

    def change(self, name: str) -> None:
        self.kept[name] = site_of_any_class(name, int(self.kept[name].resource_version) + 1)
        self.all.append(self.kept[name])

    def read(self, place: int, name: str, *, remember: bool) -> None:
        memo, kept = self.memos[place], self.kept[name]
        made = memo.read(name, kept, remember=remember)
        assert made == decode((VIEW, METADATA)[place % 2].class_, kept.raw)
        if remember and memo.limit:
            assert memo.read(name, kept) is made

    def check(self) -> None:
        assert all(len(memo) <= memo.limit for memo in self.memos)
        shared = [(id(kept), id(made)) for memo in self.memos for kept, made in memo.entries()]
        assert len(shared) == len(set(shared)) == sum(map(len, self.memos))
        assert sorted(shared) == sorted((id(kept), id(made)) for kept in self.all for made in decoded_of(kept))


def decoded_of(kept: Kept) -> list[Any]:
    """What is held on to at a kept object."""
    states = kept.made if isinstance(kept.made, tuple) else [kept.made]
    found = [getattr(one, "made", one) for one in states]
    return [one for one in found if isinstance(one, Object)]


@given(
    some.lists(some.integers(0, 6), min_size=4, max_size=4),
    some.lists(some.tuples(some.integers(-2, 3), some.sampled_from(NAMES), some.booleans()), max_size=60),
)
def test_whatever_is_read_by_whomever_is_right_within_the_limits_and_held_by_one(
    limits: list[int], steps: list[tuple[int, str, bool]]
) -> None:
    tables = _Tables(limits)
    for place, name, remember in steps:
        if place < 0:
            tables.change(name)
        else:
            tables.read(place, name, remember=remember)
        tables.check()
