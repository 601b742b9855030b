"""What a writer makes of events."""

import random
from importlib import import_module
from typing import Any

import pytest

from levelset.runtime.cache.index import Index, by_label
from levelset.runtime.cache.store import store
from levelset.runtime.watch.events import Event, Init, InitDone
from tests.runtime.cache.shelf import Site, applied, deleted, kept_site, listed, said

writing = import_module("levelset.runtime.cache.store")  # the package exports a function of that name


def test_the_buffer_is_swapped_at_init_done_and_old_data_is_readable_meanwhile() -> None:
    sites, writer = store(Site)
    writer.apply(listed(kept_site("a")))
    events = listed(kept_site("b"), kept_site("c"), version=5)
    writer.apply(events[:-1])
    assert sites.keys() == ["default/a"]
    writer.apply(events[-1:])
    assert sites.keys() == ["default/b", "default/c"]
    assert sites.resource_version == "5"


def test_an_object_that_a_list_does_not_name_is_gone() -> None:
    sites, writer = store(Site)
    writer.apply(applied(kept_site("a"), kept_site("b")))
    writer.apply(listed(kept_site("b")))
    assert sites.keys() == ["default/b"]


def test_a_list_tells_deletes_first_with_the_old_object_then_updates_and_adds_in_the_order_of_the_list() -> None:
    _, writer = store(Site)
    writer.apply(listed(kept_site("x", 1), kept_site("a", 1), kept_site("y", 1), kept_site("same", 1)))
    changes = writer.apply(listed(kept_site("new", 5), kept_site("a", 4), kept_site("same", 1)))
    assert said(changes) == ["-x1", "-y1", "+new5", "a1>a4"]
    old = changes[0].old
    assert old is not None
    assert (old.object.name, str(changes[0].ref)) == ("x", "Site/default/x")


def test_the_changes_of_the_first_list_are_initial_and_later_ones_are_not() -> None:
    _, writer = store(Site)
    assert said(writer.apply(listed(kept_site("a", 1)))) == ["*+a1"]
    assert said(writer.apply(listed(kept_site("a", 2)))) == ["a1>a2"]


def test_an_object_of_the_same_version_in_a_list_or_an_event_is_no_change() -> None:
    _, writer = store(Site)
    writer.apply(listed(kept_site("a", 1)))
    assert writer.apply(listed(kept_site("a", 1))) == []
    assert writer.apply(applied(kept_site("a", 1))) == []


def test_an_event_that_is_older_than_what_is_there_changes_nothing() -> None:
    sites, writer = store(Site)
    writer.apply(applied(kept_site("a", 100)))
    assert writer.apply([*applied(kept_site("a", 99)), *deleted(kept_site("a", 98))]) == []
    kept = sites.kept("default/a")
    assert kept is not None
    assert kept.head.resource_version == "100"


def test_an_older_version_of_another_uid_is_another_object() -> None:
    _, writer = store(Site)
    writer.apply(applied(kept_site("a", 100)))
    change = writer.apply(applied(kept_site("a", 7, uid="other")))[0]
    assert (said([change]), change.is_recreated) == (["a100>a7"], True)


def test_the_late_delete_of_an_object_that_was_made_again_changes_nothing() -> None:
    sites, writer = store(Site)
    writer.apply(applied(kept_site("a", 9, uid="second")))
    assert writer.apply(deleted(kept_site("a", 8, uid="first"))) == []
    assert len(sites) == 1


def test_versions_that_are_no_numbers_are_taken_as_they_come() -> None:
    _, writer = store(Site)
    writer.apply(applied(kept_site("a", "zz")))
    assert said(writer.apply(applied(kept_site("a", "b")))) == ["azz>ab"]


def test_a_list_is_believed_even_if_it_is_older_as_after_a_restored_backup() -> None:
    sites, writer = store(Site)
    writer.apply(listed(kept_site("a", 100), kept_site("b", 101)))
    assert said(writer.apply(listed(kept_site("a", 50), version=60))) == ["-b101", "a100>a50"]
    assert sites.resource_version == "60"


def test_a_list_that_breaks_off_leaves_no_ghosts_in_the_next_one() -> None:
    sites, writer = store(Site)
    writer.apply(listed(kept_site("ghost"))[:-1])
    writer.apply(listed(kept_site("a")))
    assert sites.keys() == ["default/a"]


def test_an_object_on_two_pages_of_a_list_is_there_once_in_its_later_version() -> None:
    sites, writer = store(Site)
    assert said(writer.apply(listed(kept_site("a", 1), kept_site("b", 2), kept_site("a", 3)))) == ["*+a3", "*+b2"]
    assert sites.size == len(kept_site("a", 3).raw) + len(kept_site("b", 2).raw)


def test_an_apply_before_any_list_is_readable_and_told() -> None:
    sites, writer = store(Site)
    assert said(writer.apply(applied(kept_site("a")))) == ["+a1"]
    assert (len(sites), sites.is_ready) == (1, False)


def test_an_init_done_without_an_init_only_makes_the_store_ready() -> None:
    sites, writer = store(Site)
    writer.apply(applied(kept_site("a")))
    assert writer.apply([InitDone("7")]) == []
    assert (len(sites), sites.is_ready, sites.resource_version) == (1, True, "7")


@pytest.mark.parametrize("size", [1, 3, 1000])
def test_changes_come_in_slices_and_together_they_are_the_same(monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    monkeypatch.setattr(writing, "SLICE", size)
    _, writer = store(Site, by_label("x"))
    writer.apply(listed(*(kept_site(f"s{n}", n) for n in range(10))))
    slices = list(
        writer.slices([*listed(*(kept_site(f"s{n}", n + 50) for n in range(5, 15))), *applied(kept_site("z"))])
    )
    assert max(map(len, slices)) <= max(size, 1)
    told = [change for changes in slices for change in changes]
    assert said(told[:5]) == ["-s00", "-s11", "-s22", "-s33", "-s44"]
    assert len(told) == 5 + 10 + 1


def test_a_store_is_what_its_changes_replayed_give_after_twenty_thousand_random_events() -> None:
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
    assert {key: sites.kept(key) for key in sorted(sites.keys())} == replayed
    for index in (image, by_label("l")):
        found = sorted(kept.head.name for value in sites.values(index) for kept in sites.by(index, value).kept)
        assert found == sorted(kept.head.name for kept in replayed.values())


def _random_events(chance: random.Random, version: int) -> list[Event[Any]]:
    def make(number: int) -> Any:
        return kept_site(f"s{chance.randrange(100)}", version + number, labels={"l": str(chance.randrange(5))})

    if chance.random() < 0.02:
        return listed(*(make(number) for number in range(30)))
    if chance.random() < 0.01:
        return [Init()]
    return [(deleted if chance.random() < 0.4 else applied)(make(number))[0] for number in range(50)]


def test_an_object_without_an_event_around_it_is_listed_within_a_list_and_changed_outside() -> None:
    sites, writer = store(Site, by_label("app"))
    first = [kept_site("a", 1), kept_site("", 1), kept_site("b", 1, labels={"app": "x"})]
    assert said(writer.apply([Init(), *first])) == []
    assert said(writer.apply([kept_site("c", 1), kept_site("c", 2)])) == []
    assert said(writer.apply([InitDone("5")])) == ["*+a1", "*+b1", "*+c2"]
    later = [kept_site("a", 7), kept_site("a", 8), kept_site("", 9), kept_site("a", 6), kept_site("d", 9)]
    assert said(writer.apply(later)) == ["a1>a7", "a7>a8", "+d9"]
    assert said(writer.apply([kept_site("b", 10, labels={"app": "y"}), *deleted(kept_site("d", 11))])) == [
        "b1>b10",
        "-d9",
    ]
    assert [one.head.name for one in sites.by(by_label("app"), "y").kept] == ["b"]
    kept = [one for one in map(sites.kept, sites.keys()) if one is not None]
    assert sites.size == sum(len(one.raw) for one in kept)
    assert sites.resource_version == "11"
