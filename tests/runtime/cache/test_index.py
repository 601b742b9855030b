"""Indexes as values, and as a store maintains them."""

from typing import Any

import pytest

from levelset.client.object_types import OnlyMetadata
from levelset.errors import ConfigError
from levelset.objects import GroupVersionKind
from levelset.runtime.cache.index import Index, by_label, by_namespace, by_owner
from levelset.runtime.cache.object_store import store
from levelset.runtime.watch.events import InitDone
from tests.runtime.cache.sites import Node, Site, applied, cached_site, deleted, listed, node


def certificates(site: Site) -> tuple[str, ...]:
    return site.spec.certificates


def names(found: Any) -> list[str]:
    return [cached.head.name for cached in found.cached]


def test_values_follow_updates_and_empty_buckets_vanish() -> None:
    uses = Index(Site, certificates)
    sites, writer = store(Site, uses)
    writer.apply(applied(cached_site("a", 1, certificates=["x", "y"]), cached_site("b", 2, certificates=["y"])))
    assert (names(sites.by(uses, "x")), names(sites.by(uses, "y"))) == (["a"], ["a", "b"])
    writer.apply(applied(cached_site("a", 3, certificates=["z"])))
    assert (names(sites.by(uses, "x")), names(sites.by(uses, "y")), names(sites.by(uses, "z"))) == ([], ["b"], ["a"])
    assert sorted(sites.values(uses)) == ["y", "z"]
    writer.apply(deleted(cached_site("a", 4), cached_site("b", 5)))
    assert sites.values(uses) == []


def test_an_index_added_late_covers_existing_objects_and_adding_it_twice_changes_nothing() -> None:
    uses = Index(Site, certificates)
    sites, writer = store(Site)
    writer.apply(applied(cached_site("a", certificates=["x"])))
    sites.add_index(uses)
    sites.add_index(Index(Site, certificates))
    assert (len(sites.indexes), names(sites.by(uses, "x"))) == (1, ["a"])


def test_objects_of_an_incomplete_list_are_indexed_but_not_visible_before_the_swap() -> None:
    uses = Index(Site, certificates)
    sites, writer = store(Site, uses)
    writer.apply(listed(cached_site("a", certificates=["x"])))
    writer.apply(listed(cached_site("b", certificates=["x"]))[:-1])
    assert names(sites.by(uses, "x")) == ["a"]
    writer.apply([InitDone("9")])
    assert names(sites.by(uses, "x")) == ["b"]


def test_an_index_added_in_the_middle_of_a_list_covers_all_of_it() -> None:
    uses = Index(Site, certificates)
    sites, writer = store(Site)
    events = listed(cached_site("a", certificates=["x"]), cached_site("b", certificates=["x"]))
    writer.apply(events[:2])
    sites.add_index(uses)
    writer.apply(events[2:])
    assert names(sites.by(uses, "x")) == ["a", "b"]


def test_an_index_that_is_being_built_stays_correct_during_writes() -> None:
    uses = Index(Site, certificates)
    sites, writer = store(Site)
    writer.apply(applied(*(cached_site(f"s{n}", n, certificates=["x"]) for n in range(6))))
    building = sites.begin_index(uses)
    building.build({}, 0)
    writer.apply([*applied(cached_site("s0", 10, certificates=["y"])), *deleted(cached_site("s1", 11))])
    assert names(sites.by(uses, "y")) == ["s0"]
    assert sorted(names(sites.by(uses, "x"))) == ["s2", "s3", "s4", "s5"]


def test_a_function_that_raises_is_reported_and_breaks_nothing() -> None:
    delivered: list[str] = []
    broken = Index(Site, lambda site: 1 / (len(site.name) - 3), name="broken")  # fails for names of three letters
    sites, writer = store(Site, broken, report=lambda where, error: delivered.append(where))
    writer.apply(applied(cached_site("bad"), cached_site("good")))
    assert len(sites) == 2
    assert names(sites.by(broken, 1.0)) == ["good"]
    assert delivered == ["Index(example.dev/v1 Site, broken) failed for default/bad (1 times so far)"]


def test_an_object_for_which_the_function_begins_to_fail_loses_its_old_values() -> None:
    broken = Index(Site, lambda site: {"nginx": "n"}[site.spec.image], name="broken")
    sites, writer = store(Site, broken, report=lambda where, error: None)
    writer.apply(applied(cached_site("a", 1)))
    writer.apply(applied(cached_site("a", 2, image="caddy")))
    assert names(sites.by(broken, "n")) == []


def test_a_string_is_one_value_none_is_not_indexed_and_unhashable_values_are_reported() -> None:
    delivered: list[str] = []
    found: dict[str, Any] = {"text": "abc", "none": None, "pair": [("a", 1)], "bad": [["list"]], "twice": ["v", "v"]}
    index = Index(Site, lambda site: found[site.name], name="odd")
    sites, writer = store(Site, index, report=lambda where, error: delivered.append(where))
    writer.apply(applied(*(cached_site(name) for name in found)))
    assert sorted(sites.values(index), key=str) == [("a", 1), "abc", "v"]
    assert len(delivered) == 1


def test_heads_are_indexed_by_label_by_owner_and_by_namespace_for_any_kind() -> None:
    owners = [{"uid": "u1", "controller": True}, {"uid": "u2"}]
    sites, writer = store(Site, by_label("app"), by_owner(), by_owner(controller=True), by_namespace())
    writer.apply(applied(cached_site("a", labels={"app": "x"}, owners=owners), cached_site("b", namespace="other")))
    assert names(sites.by(by_label("app"), "x")) == ["a"]
    assert names(sites.by(by_owner(), "u2")) == ["a"]
    assert sites.values(by_owner(controller=True)) == ["u1"]
    assert names(sites.by(by_namespace(), "other")) == ["b"]


def test_a_cluster_scoped_object_is_indexed_without_a_namespace() -> None:
    image = Index(Node, lambda one: one.spec.image)
    nodes, writer = store(Node, image, by_namespace())
    writer.apply(applied(node("a")))
    assert names(nodes.by(image, "nginx")) == ["a"]
    assert nodes.values(by_namespace()) == []


def test_indexes_are_equal_by_kind_and_function() -> None:
    assert Index(Site, certificates) == Index(Site, certificates, name="other")
    assert len({by_label("a"), by_label("a"), by_label("b"), by_owner(), by_owner(controller=True)}) == 4
    assert Index(Site, certificates) != Index(GroupVersionKind("example.dev", "v1", "Site"), certificates)


def test_an_index_of_another_kind_or_of_whole_objects_on_a_metadata_cache_is_rejected() -> None:
    sites, _ = store(Site)
    with pytest.raises(ConfigError, match="another kind"):
        sites.add_index(Index(Node, lambda one: one.name))
    metadata, _ = store(OnlyMetadata(Site))
    with pytest.raises(ConfigError, match="only their metadata"):
        metadata.add_index(Index(Site, certificates))
    metadata.add_index(by_label("app"))
