"""Decoded objects that are shared."""

from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as some

from levelset.client.object_types import OnlyMetadata, View, view_of
from levelset.errors import BadObject
from levelset.objects import CachedObject, GroupVersionKind, Object, decode, decode_cached, origin_of
from levelset.runtime.cache.object_store import DecodedObjects, store
from tests.runtime.cache.sites import VIEW, Site, cached_site, deleted, listed

METADATA: Final[View[Any]] = view_of(OnlyMetadata(GroupVersionKind("example.dev", "v1", "Site")))
NAMES: Final = "abcdefghijkl"


def sites(count: int, *, first: int = 0) -> list[CachedObject]:
    return [cached_site(f"s{number}") for number in range(first, first + count)]


def names_of(decoded: DecodedObjects[Any]) -> list[str]:
    return sorted(one.name for _, one in decoded.entries())


def test_readers_share_the_decoded_object() -> None:
    decoded, cached = DecodedObjects(VIEW, 2), cached_site("a")
    shared = decoded.share(cached)
    assert decoded.share(cached) is decoded.read(cached) is shared
    assert decoded.entries() == [(cached, shared)]


def test_an_object_that_is_only_read_is_not_retained() -> None:
    decoded, cached = DecodedObjects(VIEW, 2), cached_site("a")
    assert decoded.read(cached) is not decoded.read(cached)
    assert (len(decoded), cached.decoded) == (0, None)


def test_at_most_limit_objects_are_retained() -> None:
    for limit in (1, 2, 8, 9, 20):
        decoded, cached = DecodedObjects(VIEW, limit), sites(50)
        for one in cached * 3:
            decoded.share(one)
            assert len(decoded) <= limit
        assert len(decoded) == limit


def test_as_many_objects_as_the_limit_are_all_retained_once_they_were_read_twice() -> None:
    for limit in (1, 2, 8, 9, 20):
        decoded, cached = DecodedObjects(VIEW, limit), sites(limit)
        decoded_twice = [[decoded.share(one) for one in cached] for _ in range(2)][1]
        assert all(decoded.share(one) is made for one, made in zip(cached, decoded_twice, strict=True))


def test_another_version_is_another_object() -> None:
    decoded = DecodedObjects(VIEW, 2)
    first = decoded.share(cached_site("a", 1))
    second = decoded.share(newer := cached_site("a", 2))
    assert (first.metadata.resource_version, second.metadata.resource_version) == ("1", "2")
    assert decoded.share(newer) is second


def test_mutable_results_are_never_shared() -> None:
    decoded: DecodedObjects[Any] = DecodedObjects(view_of(GroupVersionKind("example.dev", "v1", "Site")), 2)
    cached = cached_site("a")
    assert decoded.share(cached) is not decoded.share(cached)
    assert (len(decoded), cached.decoded) == (0, None)


def test_of_objects_read_once_only_the_last_few_are_retained() -> None:
    decoded, cached = DecodedObjects(VIEW, 1000), sites(300)
    first = [decoded.share(one) for one in cached]
    assert names_of(decoded) == [f"s{number}" for number in range(292, 300)]
    assert decoded.share(cached[299]) is first[299]
    assert decoded.share(cached[0]) is not first[0]


def test_an_unchanged_object_that_is_read_again_stays_during_a_burst_of_changes() -> None:
    decoded, cached = DecodedObjects(VIEW, 1000), sites(900)
    for _ in range(2):
        second = [decoded.share(one) for one in cached]
    for one in sites(300, first=900):
        decoded.share(one)
    # All but the last eight, which were still retained from the first time when they were read again.
    assert all(decoded.share(one) is made for one, made in zip(cached[:892], second, strict=False))
    assert len(decoded) == 900


def test_the_object_that_was_retained_first_is_evicted_first() -> None:
    decoded, cached = DecodedObjects(VIEW, 12), sites(50)
    for one in (*cached, *cached[:4]):
        decoded.share(one)
    assert names_of(decoded) == sorted(["s0", "s1", "s2", "s3", *(f"s{number}" for number in range(42, 50))])
    decoded.share(cached[4])
    assert names_of(decoded)[:4] == ["s1", "s2", "s3", "s4"]
    decoded.share(cached[0])
    assert names_of(decoded)[:4] == ["s0", "s2", "s3", "s4"]


def test_a_new_version_that_is_retained_replaces_the_old_one() -> None:
    decoded, others = DecodedObjects(VIEW, 1000), sites(8)
    versions = [cached_site("a", version) for version in range(1, 20)]
    for cached in versions:
        for one in (cached, *others, cached):
            decoded.share(one)
        others = [cached_site(one.name, cached.resource_version) for one in others]
    assert [one.metadata.resource_version for _, one in decoded.entries() if one.name == "a"] == ["19"]
    assert [decoded_of(cached) == [] for cached in versions] == [True] * 18 + [False]


@pytest.mark.parametrize("is_relisted", [False, True])
def test_objects_that_were_deleted_are_not_retained(is_relisted: bool) -> None:
    cached, (objects, writer) = sites(100), store(Site)
    writer.apply(listed(*cached))
    for one in cached * 2:
        assert objects.get(one.name, "default") is not None
    assert len(objects.decoded_objects()) == 100
    writer.apply(listed(cached[0], version=2) if is_relisted else deleted(*cached[1:]))
    assert len(objects) == 1
    # The last eight were not evicted before they were read again.
    assert len(objects.decoded_objects()) <= 9
    assert [one.name for one in cached[1:92] if one.decoded is not None] == []
    assert objects.get("s0", "default") is not None


def test_an_object_that_cannot_be_decoded_is_named_and_not_retained() -> None:
    decoded = DecodedObjects(VIEW, 2)
    cached = decode_cached(b'{"metadata":{"name":"bad","namespace":"default"},"spec":7}')
    for read in (decoded.share, decoded.read):
        with pytest.raises(BadObject, match=r"^Site/default/bad: .* at spec") as caught:
            read(cached)
        assert caught.value.field == "spec"
    assert (len(decoded), cached.decoded) == (0, None)


@pytest.mark.parametrize("raw", [b'{"metadata":{"name":"a"}}', b'{"metadata":{"name":"a","labels":null}}'])
def test_shared_objects_have_their_origin(raw: bytes) -> None:
    decoded: DecodedObjects[Any] = DecodedObjects(METADATA, 2)
    raw = b'{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1",' + raw[1:]
    for made in (decoded.share(decode_cached(raw)), decoded.read(decode_cached(raw))):
        assert (origin_of(made), made) == (raw, decode(METADATA.class_, raw))


def test_the_first_class_that_reads_an_object_shares_it_and_others_decode_it() -> None:
    cached = site_of_any_class("a")
    first: DecodedObjects[Any] = DecodedObjects(VIEW, 3)
    other: DecodedObjects[Any] = DecodedObjects(METADATA, 3)
    made = first.share(cached)
    for _ in range(2):
        assert type(other.share(cached)) is type(other.read(cached)) is METADATA.class_
        assert first.share(cached) is made
    assert (len(first), len(other)) == (1, 0)


def test_two_tables_with_the_same_object_share_its_decoded_form_until_one_evicts_it() -> None:
    cached, (one, other) = cached_site("a"), (DecodedObjects(VIEW, 1), DecodedObjects(VIEW, 10))
    made = one.share(cached)
    assert other.share(cached) is made
    assert (len(one), len(other)) == (1, 0)
    one.share(cached_site("b"))
    again = other.share(cached)
    assert again == made
    assert again is other.share(cached) is one.share(cached)


def site_of_any_class(name: str, version: int = 1) -> CachedObject:
    """An object without a kind, which both classes of these tests can decode."""
    text = '{"metadata":{"name":"%s","resourceVersion":"%s"},"spec":{"image":"x"}}'
    return decode_cached((text % (name, version)).encode())


def test_an_object_that_reads_itself_while_it_is_decoded_is_handled() -> None:
    reading: list[bool] = []

    class Reader(Object, api="example.dev/v1", kind="Site"):
        def __post_init__(self) -> None:
            if not reading:
                reading.append(True)
                for _ in range(2):
                    decoded.share(cached[self.metadata.name])
                reading.clear()

    decoded: DecodedObjects[Any] = DecodedObjects(view_of(Reader), 12)
    cached = {f"s{number}": site_of_any_class(f"s{number}") for number in range(30)}
    for name in [f"s{number * 7 % 30}" for number in range(300) for _ in range(2)]:
        assert decoded.share(cached[name]).metadata.name == name
        assert len(decoded) == len({id(one) for one, _ in decoded.entries()}) <= 12
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

    def read(self, place: int, name: str, *, shares: bool) -> None:
        decoded, cached = self.decoded[place], self.cached[name]
        made = decoded.share(cached) if shares else decoded.read(cached)
        assert made == decode((VIEW, METADATA)[place % 2].class_, cached.raw)
        if cached.decoded is made:
            assert decoded.share(cached) is decoded.read(cached) is made

    def check(self) -> None:
        assert all(len(decoded) <= decoded.limit for decoded in self.decoded)
        shared = [(id(cached), id(made)) for decoded in self.decoded for cached, made in decoded.entries()]
        assert len(shared) == len(set(shared)) == sum(map(len, self.decoded))
        assert sorted(shared) == sorted((id(cached), id(made)) for cached in self.all for made in decoded_of(cached))


def decoded_of(cached: CachedObject) -> list[Any]:
    """The decoded object that is stored on a cached object, if any."""
    return [cached.decoded] if isinstance(cached.decoded, Object) else []


@given(
    some.lists(some.sampled_from([0, 1, 2, 7, 8, 9, 10, 12]), min_size=4, max_size=4),
    some.lists(some.tuples(some.integers(-2, 3), some.sampled_from(NAMES), some.booleans()), max_size=150),
)
def test_any_sequence_of_reads_is_correct_and_within_the_limits(
    limits: list[int], steps: list[tuple[int, str, bool]]
) -> None:
    tables = _Tables(limits)
    for place, name, shares in steps:
        if place < 0:
            tables.change(name)
        else:
            tables.read(place, name, shares=shares)
        tables.check()
