"""The writer of a store: the changes that events cause."""

import random
from importlib import import_module
from typing import Any

import pytest

from levelset.runtime.cache.index import Index, by_label
from levelset.runtime.cache.object_store import store
from levelset.runtime.watch.events import Event, Init, InitDone
from tests.runtime.cache.sites import Site, applied, cached_site, deleted, listed, summarize

writing = import_module("levelset.runtime.cache.object_store")  # the package exports a function of that name


def test_the_buffer_is_swapped_at_init_done_and_old_data_is_readable_meanwhile() -> None:
    sites, writer = store(Site)
    writer.apply(listed(cached_site("a")))
    events = listed(cached_site("b"), cached_site("c"), version=5)
    writer.apply(events[:-1])
    assert sites.keys() == ["default/a"]
    writer.apply(events[-1:])
    assert sites.keys() == ["default/b", "default/c"]
    assert sites.resource_version == "5"


def test_an_object_that_is_missing_from_a_list_is_deleted() -> None:
    sites, writer = store(Site)
    writer.apply(applied(cached_site("a"), cached_site("b")))
    writer.apply(listed(cached_site("b")))
    assert sites.keys() == ["default/b"]


def test_a_list_yields_deletes_first_with_the_old_object_then_updates_and_adds_in_list_order() -> None:
    _, writer = store(Site)
    writer.apply(listed(cached_site("x", 1), cached_site("a", 1), cached_site("y", 1), cached_site("same", 1)))
    changes = writer.apply(listed(cached_site("new", 5), cached_site("a", 4), cached_site("same", 1)))
    assert summarize(changes) == ["-x1", "-y1", "+new5", "a1>a4"]
    old = changes[0].old
    assert old is not None
    assert (old.object.name, str(changes[0].ref)) == ("x", "Site/default/x")


def test_the_changes_of_the_first_list_are_initial_and_later_ones_are_not() -> None:
    _, writer = store(Site)
    assert summarize(writer.apply(listed(cached_site("a", 1)))) == ["*+a1"]
    assert summarize(writer.apply(listed(cached_site("a", 2)))) == ["a1>a2"]


def test_an_object_of_the_same_version_in_a_list_or_an_event_is_not_a_change() -> None:
    _, writer = store(Site)
    writer.apply(listed(cached_site("a", 1)))
    assert writer.apply(listed(cached_site("a", 1))) == []
    assert writer.apply(applied(cached_site("a", 1))) == []


def test_an_event_older_than_the_stored_object_is_ignored() -> None:
    sites, writer = store(Site)
    writer.apply(applied(cached_site("a", 100)))
    assert writer.apply([*applied(cached_site("a", 99)), *deleted(cached_site("a", 98))]) == []
    cached = sites.cached("default/a")
    assert cached is not None
    assert cached.head.resource_version == "100"


def test_an_older_version_of_another_uid_is_another_object() -> None:
    _, writer = store(Site)
    writer.apply(applied(cached_site("a", 100)))
    change = writer.apply(applied(cached_site("a", 7, uid="other")))[0]
    assert (summarize([change]), change.is_recreated) == (["a100>a7"], True)


def test_the_late_delete_of_a_recreated_object_is_ignored() -> None:
    sites, writer = store(Site)
    writer.apply(applied(cached_site("a", 9, uid="second")))
    assert writer.apply(deleted(cached_site("a", 8, uid="first"))) == []
    assert len(sites) == 1


def test_versions_that_are_not_numbers_are_applied_in_order_of_arrival() -> None:
    _, writer = store(Site)
    writer.apply(applied(cached_site("a", "zz")))
    assert summarize(writer.apply(applied(cached_site("a", "b")))) == ["azz>ab"]


def test_a_complete_list_is_applied_even_if_it_is_older_as_after_a_restore() -> None:
    sites, writer = store(Site)
    writer.apply(listed(cached_site("a", 100), cached_site("b", 101)))
    assert summarize(writer.apply(listed(cached_site("a", 50), version=60))) == ["-b101", "a100>a50"]
    assert sites.resource_version == "60"


def test_an_incomplete_list_leaves_nothing_in_the_next_one() -> None:
    sites, writer = store(Site)
    writer.apply(listed(cached_site("ghost"))[:-1])
    writer.apply(listed(cached_site("a")))
    assert sites.keys() == ["default/a"]


def test_the_size_after_a_list_is_that_of_its_objects_whatever_was_listed_before() -> None:
    sites, writer = store(Site)
    writer.apply(listed(cached_site("a"), cached_site("b")))
    writer.apply(listed(cached_site("incomplete"))[:-1])
    writer.apply(listed(cached_site("c")))
    assert sites.size == len(cached_site("c").raw)


def test_the_version_of_a_store_is_that_of_the_last_list_or_event_that_was_a_change() -> None:
    sites, writer = store(Site)
    versions = [sites.resource_version]
    for events in (
        listed(cached_site("a", 3), version=5),
        applied(cached_site("a", 7), cached_site("b", 8)),
        applied(cached_site("a", 6)),
        deleted(cached_site("b", 9)),
        deleted(cached_site("unknown", 10)),
    ):
        writer.apply(events)
        versions.append(sites.resource_version)
    assert versions == ["", "5", "8", "8", "9", "9"]


def test_an_object_on_two_pages_of_a_list_is_stored_once_in_its_later_version() -> None:
    sites, writer = store(Site)
    assert summarize(writer.apply(listed(cached_site("a", 1), cached_site("b", 2), cached_site("a", 3)))) == [
        "*+a3",
        "*+b2",
    ]
    assert sites.size == len(cached_site("a", 3).raw) + len(cached_site("b", 2).raw)


def test_an_apply_before_the_first_list_is_stored_and_reported() -> None:
    sites, writer = store(Site)
    assert summarize(writer.apply(applied(cached_site("a")))) == ["+a1"]
    assert (len(sites), sites.is_ready) == (1, False)


def test_an_init_done_without_an_init_only_makes_the_store_ready() -> None:
    sites, writer = store(Site)
    writer.apply(applied(cached_site("a")))
    assert writer.apply([InitDone("7")]) == []
    assert (len(sites), sites.is_ready, sites.resource_version) == (1, True, "7")


@pytest.mark.parametrize("size", [1, 3, 1000])
def test_changes_come_in_slices_and_together_they_are_the_same(monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    monkeypatch.setattr(writing, "SLICE", size)
    _, writer = store(Site, by_label("x"))
    writer.apply(listed(*(cached_site(f"s{n}", n) for n in range(10))))
    slices = list(
        writer.slices([*listed(*(cached_site(f"s{n}", n + 50) for n in range(5, 15))), *applied(cached_site("z"))])
    )
    assert max(map(len, slices)) <= max(size, 1)
    delivered = [change for changes in slices for change in changes]
    assert summarize(delivered[:5]) == ["-s00", "-s11", "-s22", "-s33", "-s44"]
    assert len(delivered) == 5 + 10 + 1


def test_replaying_the_changes_of_twenty_thousand_random_events_gives_the_same_store() -> None:
    chance = random.Random(7)
    image = Index(Site, lambda site: site.spec.image, name="image")
    sites, writer = store(Site)
    sites.add_index(by_label("l"))
    replayed: dict[str, Any] = {}
    for version in range(1, 400):
        batch = _random_events(chance, version * 100)
        for change in writer.apply(batch):
            assert replayed.get(change.key) is change.before
            replayed[change.key] = change.after
            if change.after is None:
                del replayed[change.key]
    sites.add_index(image)
    assert {key: sites.cached(key) for key in sorted(sites.keys())} == replayed
    for index in (image, by_label("l")):
        found = sorted(cached.head.name for value in sites.values(index) for cached in sites.by(index, value).cached)
        assert found == sorted(cached.head.name for cached in replayed.values())


def _random_events(chance: random.Random, version: int) -> list[Event[Any]]:
    def make(number: int) -> Any:
        return cached_site(f"s{chance.randrange(100)}", version + number, labels={"l": str(chance.randrange(5))})

    if chance.random() < 0.02:
        return listed(*(make(number) for number in range(30)))
    if chance.random() < 0.01:
        return [Init()]
    return [(deleted if chance.random() < 0.4 else applied)(make(number))[0] for number in range(50)]


def test_objects_without_a_name_are_reported_one_by_one_and_the_others_are_stored() -> None:
    reports: list[str] = []
    sites, writer = store(Site, report=lambda where, error: reports.append(f"{where}: {error}"))
    writer.apply(listed(cached_site("a", 1), cached_site("", 1), cached_site("b", 1)))
    report = f"the store of {sites.gvk}: an object without metadata.name was skipped"
    assert (sites.keys(), reports) == (["default/a", "default/b"], [report])
    changes = writer.apply(applied(cached_site("", 2), cached_site("a", 3), cached_site("", 4), cached_site("c", 5)))
    assert (summarize(changes), reports) == (["a1>a3", "+c5"], [report] * 3)
