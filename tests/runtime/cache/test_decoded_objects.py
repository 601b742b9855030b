"""Decoded objects that are shared."""

from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as some

from levelset.client.object_types import OnlyMetadata, View, view_of
from levelset.errors import BadObject
from levelset.objects import CachedObject, GroupVersionKind, Object, decode, decode_cached, origin_of
from levelset.runtime.cache.decoded_objects import DecodedObjects
from tests.runtime.cache.sites import VIEW, cached_site

METADATA: Final[View[Any]] = view_of(OnlyMetadata(GroupVersionKind("example.dev", "v1", "Site")))
NAMES: Final = "abcd"


def test_at_most_limit_objects_are_retained_and_the_least_recently_read_is_evicted_first() -> None:
    decoded = DecodedObjects(VIEW, 2)
    cached = {name: cached_site(name) for name in "abc"}
    a, b = decoded.read("a", cached["a"]), decoded.read("b", cached["b"])
    assert decoded.read("a", cached["a"]) is a
    decoded.read("c", cached["c"])
    assert (len(decoded), [one.name for _, one in decoded.entries()]) == (2, ["a", "c"])
    assert decoded.read("b", cached["b"]) is not b


def test_a_read_without_remember_uses_retained_objects_and_adds_none() -> None:
    decoded = DecodedObjects(VIEW, 2)
    cached = cached_site("a")
    shared = decoded.read("a", cached)
    assert decoded.read("a", cached, remember=False) is shared
    decoded.read("b", cached_site("b"), remember=False)
    assert len(decoded) == 1


def test_another_version_is_another_object() -> None:
    decoded = DecodedObjects(VIEW, 2)
    first = decoded.read("a", cached_site("a", 1))
    second = decoded.read("a", newer := cached_site("a", 2))
    assert (first.metadata.resource_version, second.metadata.resource_version) == ("1", "2")
    assert decoded.read("a", newer) is second


def test_mutable_results_are_never_shared() -> None:
    decoded: DecodedObjects[Any] = DecodedObjects(view_of(GroupVersionKind("example.dev", "v1", "Site")), 2)
    cached = cached_site("a")
    assert decoded.read("a", cached) is not decoded.read("a", cached)
    assert len(decoded) == 0


def test_of_objects_read_once_only_the_last_few_are_retained() -> None:
    decoded = DecodedObjects(VIEW, 1000)
    cached = {f"s{number}": cached_site(f"s{number}") for number in range(300)}
    first = {name: decoded.read(name, one) for name, one in cached.items()}
    assert len(decoded) == 8
    assert decoded.read("s299", cached["s299"]) is first["s299"]
    assert decoded.read("s0", cached["s0"]) is not first["s0"]


def test_an_unchanged_object_that_is_read_again_stays() -> None:
    decoded = DecodedObjects(VIEW, 1000)
    cached = {f"s{number}": cached_site(f"s{number}") for number in range(900)}
    for _ in range(2):
        second = {name: decoded.read(name, one) for name, one in cached.items()}
    assert all(decoded.read(name, one) is second[name] for name, one in cached.items())
    for number in range(300):
        decoded.read(f"other{number}", cached_site(f"other{number}"))
    assert (len(decoded), decoded.read("s0", cached["s0"]) is second["s0"]) == (900 + 32, True)


def test_more_objects_are_retained_while_evicted_ones_are_read_again() -> None:
    decoded = DecodedObjects(VIEW, 1000)
    cached = {f"s{number}": cached_site(f"s{number}") for number in range(100)}
    for name, one in cached.items():
        decoded.read(name, one)
    again = [decoded.read(f"s{number}", cached[f"s{number}"]) for number in range(3)]
    assert len(decoded) == 8 + 3
    for number in range(100):
        decoded.read(f"other{number}", cached_site(f"other{number}"))
    assert len(decoded) == 64 + 3
    assert again == [decoded.read(f"s{number}", cached[f"s{number}"]) for number in range(3)]


def test_fewer_objects_are_retained_again_when_evicted_ones_are_no_longer_read() -> None:
    decoded = DecodedObjects(VIEW, 50)
    dropped = cached_site("dropped")
    decoded.read("dropped", dropped)
    for number in range(20):
        decoded.read(f"s{number}", cached_site(f"s{number}"))
    decoded.read("dropped", dropped)
    for number in range(20, 45):
        decoded.read(f"s{number}", cached_site(f"s{number}"))
    assert len(decoded) == 16 + 1
    for number in range(100):
        decoded.read(f"s{number}", cached_site(f"s{number}"))
    assert len(decoded) == 8 + 1


def test_an_object_evicted_two_generations_ago_counts_as_never_read() -> None:
    decoded = DecodedObjects(VIEW, 50)
    cached = {f"s{number}": cached_site(f"s{number}") for number in range(200)}
    for _ in range(3):
        for name, one in cached.items():
            decoded.read(name, one)
        assert [one.name for _, one in decoded.entries()] == [f"s{number}" for number in range(192, 200)]


def test_a_new_version_replaces_one_that_was_read_often() -> None:
    decoded = DecodedObjects(VIEW, 1000)
    for version in range(1, 20):
        cached = cached_site("a", version)
        made = {id(decoded.read("default/a", cached)) for _ in range(3)}
        assert len(made) == 1
        for number in range(8):
            decoded.read(f"default/s{number}", cached_site(f"s{number}", version))
        assert [one.metadata.resource_version for _, one in decoded.entries() if one.name == "a"] == [str(version)]
    decoded.read("default/a", cached_site("a", 20))
    assert [one.metadata.resource_version for _, one in decoded.entries() if one.name == "a"] == ["20"]


def test_rarely_read_objects_are_evicted_before_often_read_ones() -> None:
    decoded = DecodedObjects(VIEW, 4)
    cached = {name: cached_site(name) for name in "abcdefg"}
    twice = {name: (decoded.read(name, cached[name]), decoded.read(name, cached[name]))[1] for name in "abc"}
    for name in "def":
        decoded.read(name, cached[name])
    assert [one.name for _, one in decoded.entries()] == ["a", "b", "c", "f"]
    assert decoded.read("a", cached["a"]) is twice["a"]
    assert decoded.read("f", cached["f"]) is decoded.read("f", cached["f"])
    decoded.read("g", cached["g"])
    assert (len(decoded), [one.name for _, one in decoded.entries()]) == (4, ["c", "f", "a", "g"])
    assert decoded.read("b", cached["b"], remember=False) is not twice["b"]


def test_an_object_that_cannot_be_decoded_is_named_and_not_retained() -> None:
    decoded = DecodedObjects(VIEW, 2)
    cached = decode_cached(b'{"metadata":{"name":"bad"},"spec":7}')
    for _ in range(2):
        with pytest.raises(BadObject, match=r"Site/default/bad: .* at spec") as caught:
            decoded.read("default/bad", cached)
        assert caught.value.field == "spec"
    assert (len(decoded), cached.decoded) == (0, None)


@pytest.mark.parametrize("raw", [b'{"metadata":{"name":"a"}}', b'{"metadata":{"name":"a","labels":null}}'])
def test_shared_objects_have_their_origin(raw: bytes) -> None:
    decoded: DecodedObjects[Any] = DecodedObjects(METADATA, 2)
    raw = b'{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1",' + raw[1:]
    for made in (decoded.read("a", decode_cached(raw)), decoded.read("a", decode_cached(raw), remember=False)):
        assert (origin_of(made), made) == (raw, decode(METADATA.class_, raw))


def test_readers_with_several_classes_share_each_its_own_object() -> None:
    cached = {name: site_of_any_class(name) for name in NAMES}
    decoded: list[DecodedObjects[Any]] = [DecodedObjects(VIEW, 3), DecodedObjects(METADATA, 3)]
    for name, one in cached.items():
        first, second = (decoded.read(name, one) for decoded in decoded)
        assert (type(first), type(second)) == (VIEW.class_, METADATA.class_)
        for _ in range(2):
            assert [decoded.read(name, one) for decoded in decoded] == [first, second]
            assert decoded[0].read(name, one, remember=False) is first
            assert decoded[1].read(name, one, remember=False) is second
    assert [len(decoded) for decoded in decoded] == [3, 3]


def test_two_tables_with_the_same_object_share_its_decoded_form_until_one_evicts_it() -> None:
    cached, (one, other) = cached_site("a"), (DecodedObjects(VIEW, 1), DecodedObjects(VIEW, 1))
    made = one.read("a", cached)
    assert other.read("a", cached) is made
    assert (len(one), len(other)) == (1, 0)
    one.read("b", cached_site("b"))
    again = other.read("a", cached)
    assert again == made
    assert again is other.read("a", cached)


def site_of_any_class(name: str, version: int = 1) -> CachedObject:
    """An object without a kind, which both classes of these tests can decode."""
    text = '{"metadata":{"name":"%s","resourceVersion":"%s"},"spec":{"image":"x"}}'
    return decode_cached((text % (name, version)).encode())


def versions_of(decoded: DecodedObjects[Any], name: str) -> list[str]:
    return [one.metadata.resource_version for _, one in decoded.entries() if one.name == name]


def read_often(decoded: DecodedObjects[Any], name: str, cached: CachedObject) -> None:
    """Reads it until it has moved from `_read_once` to `_reread`."""
    for _ in range(2):
        decoded.read(name, cached)
    for number in range(8):
        decoded.read(f"other{number}", site_of_any_class(f"other{number}"))
    assert versions_of(decoded, name) == [cached.resource_version]


def test_an_old_version_is_evicted_even_if_another_class_read_the_new_one_first() -> None:
    decoded, other = DecodedObjects(VIEW, 1000), DecodedObjects(METADATA, 1000)
    read_often(decoded, "a", site_of_any_class("a", 1))
    newer = site_of_any_class("a", 2)
    other.read("a", newer)
    decoded.read("a", newer)
    assert versions_of(decoded, "a") == ["2"]


def test_an_old_version_is_evicted_even_if_the_new_one_cannot_be_decoded() -> None:
    decoded = DecodedObjects(VIEW, 1000)
    read_often(decoded, "a", site_of_any_class("a", 1))
    with pytest.raises(BadObject):
        decoded.read("a", decode_cached(b'{"metadata":{"name":"a","resourceVersion":"2"},"spec":7}'))
    assert versions_of(decoded, "a") == []


def test_a_freed_cache_clears_decoded_objects_that_other_tables_still_hold() -> None:
    often, once = site_of_any_class("a"), site_of_any_class("b")
    decoded = DecodedObjects(VIEW, 1000)
    read_often(decoded, "a", often)
    decoded.read("b", once)
    assert (decoded_of(often) and decoded_of(once)) != []
    del decoded
    assert (decoded_of(often), decoded_of(once)) == ([], [])


def test_an_object_that_reads_itself_while_it_is_decoded_is_handled() -> None:
    reading: list[bool] = []

    class Reader(Object, api="example.dev/v1", kind="Site"):
        def __post_init__(self) -> None:
            if not reading:
                reading.append(True)
                for _ in range(2):
                    decoded.read(self.metadata.name, cached[self.metadata.name])
                reading.clear()

    decoded: DecodedObjects[Any] = DecodedObjects(view_of(Reader), 4)
    cached = {f"s{number}": site_of_any_class(f"s{number}") for number in range(30)}
    for name in [f"s{number * 7 % 30}" for number in range(300) for _ in range(2)]:
        assert decoded.read(name, cached[name]).metadata.name == name
        assert len(decoded) <= 4
        assert all(isinstance(made, Reader) for _, made in decoded.entries())


class _Tables:
    """Two tables with the same objects, each read with two classes."""

    def __init__(self, limits: list[int]) -> None:
        self.decoded: list[DecodedObjects[Any]] = [
            DecodedObjects((VIEW, METADATA)[place % 2], one) for place, one in enumerate(limits)
        ]
        self.cached = {name: site_of_any_class(name) for name in NAMES}
        self.all = list(self.cached.values())

    def change(self, name: str) -> None:
        self.cached[name] = site_of_any_class(name, int(self.cached[name].resource_version) + 1)
        self.all.append(self.cached[name])

    def read(self, place: int, name: str, *, remember: bool) -> None:
        decoded, cached = self.decoded[place], self.cached[name]
        made = decoded.read(name, cached, remember=remember)
        assert made == decode((VIEW, METADATA)[place % 2].class_, cached.raw)
        if remember and decoded.limit:
            assert decoded.read(name, cached) is made

    def check(self) -> None:
        assert all(len(decoded) <= decoded.limit for decoded in self.decoded)
        shared = [(id(cached), id(made)) for decoded in self.decoded for cached, made in decoded.entries()]
        assert len(shared) == len(set(shared)) == sum(map(len, self.decoded))
        assert sorted(shared) == sorted((id(cached), id(made)) for cached in self.all for made in decoded_of(cached))


def decoded_of(cached: CachedObject) -> list[Any]:
    """The decoded objects that are stored on a cached object."""
    states = cached.decoded if isinstance(cached.decoded, tuple) else [cached.decoded]
    found = [getattr(one, "obj", one) for one in states]
    return [one for one in found if isinstance(one, Object)]


@given(
    some.lists(some.integers(0, 6), min_size=4, max_size=4),
    some.lists(some.tuples(some.integers(-2, 3), some.sampled_from(NAMES), some.booleans()), max_size=60),
)
def test_any_sequence_of_reads_is_correct_and_within_the_limits(
    limits: list[int], steps: list[tuple[int, str, bool]]
) -> None:
    tables = _Tables(limits)
    for place, name, remember in steps:
        if place < 0:
            tables.change(name)
        else:
            tables.read(place, name, remember=remember)
        tables.check()
