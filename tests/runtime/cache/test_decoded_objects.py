"""Decoded objects that are shared."""

from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as some

from levelset.client.object_types import OnlyMetadata, View, view_of
from levelset.errors import BadObject, ConfigError
from levelset.objects import CachedObject, GroupVersionKind, Object, decode, decode_cached, origin_of
from levelset.runtime.cache.object_store import DecodedBudget, DecodedObjects, store
from tests.runtime.cache.sites import VIEW, Site, cached_site, deleted, listed

METADATA: Final[View[Any]] = view_of(OnlyMetadata(GroupVersionKind("example.dev", "v1", "Site")))
NAMES: Final = "abcdefghijkl"
ONCE: Final = 8
"""How many objects that were read once are retained, besides the budget."""
SIZE: Final = 4 * len(cached_site("s1").raw)


def sites(count: int, *, first: int = 0) -> list[CachedObject]:
    return [cached_site(f"s{number}") for number in range(first, first + count)]


def budget_for(count: int) -> DecodedBudget:
    """The memory that so many objects with short names take."""
    return DecodedBudget(count * SIZE)


def names_of(decoded: DecodedObjects[Any]) -> list[str]:
    return sorted(one.name for _, one in decoded.entries())


def test_readers_share_the_decoded_object() -> None:
    decoded, cached = DecodedObjects(VIEW, budget_for(2)), cached_site("a")
    shared = decoded.share(cached)
    assert decoded.share(cached) is decoded.read(cached) is shared
    assert decoded.entries() == [(cached, shared)]


def test_an_object_that_is_only_read_is_not_retained() -> None:
    decoded, cached = DecodedObjects(VIEW, budget_for(2)), cached_site("a")
    assert decoded.read(cached) is not decoded.read(cached)
    assert (len(decoded), cached.decoded) == (0, None)


def test_the_objects_that_are_retained_fit_the_budget() -> None:
    for count in (1, 2, 8, 9, 20):
        budget, cached = budget_for(count), sites(50)
        decoded = DecodedObjects(VIEW, budget)
        for one in cached * 3:
            decoded.share(one)
            assert decoded.size == budget.used <= budget.limit
            assert len(decoded) <= count + ONCE
        # Names have one or two digits, so one object less may fit.
        assert len(decoded) >= count - 1 + ONCE


def test_as_many_objects_as_fit_are_all_retained_once_they_were_read_twice() -> None:
    for count in (1, 2, 8, 9, 10):
        decoded, cached = DecodedObjects(VIEW, budget_for(count)), sites(count)
        decoded_twice = [[decoded.share(one) for one in cached] for _ in range(2)][1]
        assert all(decoded.share(one) is made for one, made in zip(cached, decoded_twice, strict=True))


def test_the_objects_of_a_list_are_retained_the_first_time() -> None:
    decoded, cached = DecodedObjects(VIEW, budget_for(60)), sites(50)
    first = [decoded.share_listed(one) for one in cached]
    assert all(decoded.share_listed(one) is made for one, made in zip(cached, first, strict=True))
    assert decoded.share(cached[0]) is first[0]


def test_of_more_objects_than_fit_those_that_do_stay_when_all_are_read_in_turns() -> None:
    decoded, cached = DecodedObjects(VIEW, budget_for(50)), sites(100)
    for one in cached:
        decoded.share_listed(one)
    found = [decoded.share_listed(one) for one in cached]
    again = [decoded.share_listed(one) for one in cached]
    same = sum(one is other for one, other in zip(found, again, strict=True))
    assert 30 <= same < 50


def test_other_objects_replace_those_that_are_no_longer_read() -> None:
    decoded, old, new = DecodedObjects(VIEW, budget_for(5)), sites(5), sites(5, first=5)
    for one in old:
        decoded.share_listed(one)
    for _ in range(40):
        for one in new:
            decoded.share_listed(one)
    assert names_of(decoded) == [one.name for one in new]


def test_without_memory_nothing_is_retained() -> None:
    decoded, cached = DecodedObjects(VIEW, DecodedBudget(0)), cached_site("a")
    assert decoded.share(cached) is not decoded.share(cached)
    assert decoded.share_listed(cached) is not decoded.share_listed(cached)
    assert (len(decoded), cached.decoded) == (0, None)


def test_the_memory_must_not_be_negative() -> None:
    with pytest.raises(ConfigError, match="at least 0 bytes, not -1"):
        DecodedBudget(-1)


def test_caches_share_the_memory_and_the_largest_gives_way() -> None:
    budget = budget_for(10)
    large, small = DecodedObjects(VIEW, budget), DecodedObjects(VIEW, budget)
    for one in sites(10):
        large.share_listed(one)
    one, other = cached_site("a1"), cached_site("a2")
    for _ in range(16):
        assert budget.used == large.size + small.size <= budget.limit
        small.share_listed(one)
        small.share_listed(other)
    assert (len(large), len(small)) == (8, 2)


def test_a_cache_that_is_gone_returns_its_memory() -> None:
    budget = budget_for(10)
    decoded, other = DecodedObjects(VIEW, budget), DecodedObjects(VIEW, budget)
    for number, one in enumerate(sites(9)):
        (decoded if number else other).share_listed(one)
    assert budget.used == decoded.size + other.size
    del decoded
    assert budget.used == other.size > 0


def test_an_object_that_is_larger_than_the_memory_is_not_retained() -> None:
    decoded, large = DecodedObjects(VIEW, budget_for(2)), cached_site("n" * 200)
    decoded.share_listed(small := cached_site("s1"))
    for _ in range(20):
        decoded.share_listed(large)
    assert [cached for cached, _ in decoded.entries()] == [small]


def test_another_version_is_another_object() -> None:
    decoded = DecodedObjects(VIEW, budget_for(2))
    first = decoded.share(cached_site("a", 1))
    second = decoded.share(newer := cached_site("a", 2))
    assert (first.metadata.resource_version, second.metadata.resource_version) == ("1", "2")
    assert decoded.share(newer) is second


def test_mutable_results_are_never_shared() -> None:
    decoded: DecodedObjects[Any] = DecodedObjects(view_of(GroupVersionKind("example.dev", "v1", "Site")), budget_for(2))
    cached = cached_site("a")
    assert decoded.share(cached) is not decoded.share(cached)
    assert (len(decoded), cached.decoded) == (0, None)


def test_of_objects_read_once_only_the_last_few_are_retained() -> None:
    decoded, cached = DecodedObjects(VIEW, budget_for(1000)), sites(300)
    first = [decoded.share(one) for one in cached]
    assert names_of(decoded) == [f"s{number}" for number in range(292, 300)]
    assert decoded.share(cached[299]) is first[299]
    assert decoded.share(cached[0]) is not first[0]


def test_an_unchanged_object_that_is_read_again_stays_during_a_burst_of_changes() -> None:
    decoded, cached = DecodedObjects(VIEW, budget_for(1000)), sites(900)
    for _ in range(2):
        second = [decoded.share(one) for one in cached]
    for one in sites(300, first=900):
        decoded.share(one)
    # All but the last eight, which were still retained from the first time when they were read again.
    assert all(decoded.share(one) is made for one, made in zip(cached[:892], second, strict=False))
    assert len(decoded) == 900


def test_the_object_that_was_retained_first_is_evicted_first() -> None:
    decoded, cached = DecodedObjects(VIEW, budget_for(4)), sites(10)
    for one in cached[:4]:
        decoded.share_listed(one)
    for number in range(4, 7):
        for _ in range(8):  # the eighth time it replaces another
            decoded.share_listed(cached[number])
        assert names_of(decoded) == [f"s{one}" for one in range(number - 3, number + 1)]


def test_a_new_version_that_is_retained_replaces_the_old_one() -> None:
    decoded, others = DecodedObjects(VIEW, budget_for(1000)), sites(8)
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
    decoded = DecodedObjects(VIEW, budget_for(2))
    cached = decode_cached(b'{"metadata":{"name":"bad","namespace":"default"},"spec":7}')
    for read in (decoded.share, decoded.read):
        with pytest.raises(BadObject, match=r"^Site/default/bad: .* at spec") as caught:
            read(cached)
        assert caught.value.field == "spec"
    assert (len(decoded), cached.decoded) == (0, None)


@pytest.mark.parametrize("raw", [b'{"metadata":{"name":"a"}}', b'{"metadata":{"name":"a","labels":null}}'])
def test_shared_objects_have_their_origin(raw: bytes) -> None:
    decoded: DecodedObjects[Any] = DecodedObjects(METADATA, budget_for(2))
    raw = b'{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1",' + raw[1:]
    for made in (decoded.share(decode_cached(raw)), decoded.read(decode_cached(raw))):
        assert (origin_of(made), made) == (raw, decode(METADATA.class_, raw))


def test_the_first_class_that_reads_an_object_shares_it_and_others_decode_it() -> None:
    cached = site_of_any_class("a")
    first: DecodedObjects[Any] = DecodedObjects(VIEW, budget_for(3))
    other: DecodedObjects[Any] = DecodedObjects(METADATA, budget_for(3))
    made = first.share(cached)
    for _ in range(2):
        assert type(other.share(cached)) is type(other.read(cached)) is METADATA.class_
        assert first.share(cached) is made
    assert (len(first), len(other)) == (1, 0)


def test_two_tables_with_the_same_object_share_its_decoded_form_until_one_evicts_it() -> None:
    cached, (one, other) = cached_site("a"), (DecodedObjects(VIEW, budget_for(1)), DecodedObjects(VIEW, budget_for(10)))
    made = one.share(cached)
    assert other.share(cached) is made
    assert (len(one), len(other)) == (1, 0)
    for another in sites(8):
        one.share(another)
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

    decoded: DecodedObjects[Any] = DecodedObjects(view_of(Reader), budget_for(4))
    cached = {f"s{number}": site_of_any_class(f"s{number}") for number in range(30)}
    for name in [f"s{number * 7 % 30}" for number in range(300) for _ in range(2)]:
        assert decoded.share(cached[name]).metadata.name == name
        assert len(decoded) == len({id(one) for one, _ in decoded.entries()})
        assert decoded.size <= 4 * SIZE
        assert all(isinstance(made, Reader) for _, made in decoded.entries())


class _Tables:
    """Two tables with the same objects, each read with two classes."""

    def __init__(self, limits: list[int], *, is_shared: bool) -> None:
        budgets = [budget_for(one) for one in limits]
        self.budgets = budgets[:1] * len(budgets) if is_shared else budgets
        self.decoded: list[DecodedObjects[Any]] = [
            DecodedObjects((VIEW, METADATA)[place % 2], one) for place, one in enumerate(self.budgets)
        ]
        self.cached = {name: site_of_any_class(name) for name in NAMES}
        self.all = list(self.cached.values())

    def change(self, name: str) -> None:
        self.cached[name] = site_of_any_class(name, int(self.cached[name].resource_version) + 1)
        self.all.append(self.cached[name])

    def read(self, place: int, name: str, how: str) -> None:
        decoded, cached = self.decoded[place], self.cached[name]
        made = getattr(decoded, how)(cached)
        assert made == decode((VIEW, METADATA)[place % 2].class_, cached.raw)
        if cached.decoded is made:
            assert decoded.share(cached) is decoded.read(cached) is made

    def check(self) -> None:
        assert all(budget.used <= budget.limit for budget in self.budgets)
        for budget in self.budgets:
            sizes = [one.size for one, its in zip(self.decoded, self.budgets, strict=True) if its is budget]
            assert sum(sizes) == budget.used
        shared = [(id(cached), id(made)) for decoded in self.decoded for cached, made in decoded.entries()]
        assert len(shared) == len(set(shared)) == sum(map(len, self.decoded))
        assert sorted(shared) == sorted((id(cached), id(made)) for cached in self.all for made in decoded_of(cached))


def decoded_of(cached: CachedObject) -> list[Any]:
    """The decoded object that is stored on a cached object, if any."""
    return [cached.decoded] if isinstance(cached.decoded, Object) else []


@given(
    some.lists(some.sampled_from([0, 1, 2, 7, 8, 9, 10, 12]), min_size=4, max_size=4),
    some.booleans(),
    some.lists(
        some.tuples(
            some.integers(-2, 3), some.sampled_from(NAMES), some.sampled_from(["share", "share_listed", "read"])
        ),
        max_size=150,
    ),
)
def test_any_sequence_of_reads_is_correct_and_within_the_limits(
    limits: list[int], is_shared: bool, steps: list[tuple[int, str, str]]
) -> None:
    tables = _Tables(limits, is_shared=is_shared)
    for place, name, how in steps:
        if place < 0:
            tables.change(name)
        else:
            tables.read(place, name, how)
        tables.check()
