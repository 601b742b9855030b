"""Reading a store."""

import asyncio

import pytest

from levelset.errors import BadObject, ConfigError, NotReady
from levelset.objects import GroupVersionKind, Ref, Unstructured
from levelset.objects.cached_object import decode_cached
from levelset.runtime.cache.index import Index, by_label, by_namespace
from levelset.runtime.cache.object_store import store
from levelset.testing.virtual_time import virtual
from tests.runtime.cache.sites import Node, Site, applied, cached_site, deleted, listed, node, summarize


def test_an_applied_object_is_stored() -> None:
    sites, writer = store(Site)
    writer.apply(applied(cached_site("a")))
    site = sites.get("a", "default")
    assert site is not None
    assert (site.name, len(sites), Ref(Site, "a", "default") in sites) == ("a", 1, True)


def test_an_object_that_is_applied_again_is_updated() -> None:
    sites, writer = store(Site)
    writer.apply(applied(cached_site("a", 1), cached_site("a", 2, image="caddy")))
    site = sites.get("a", "default")
    assert site is not None
    assert (site.spec.image, len(sites)) == ("caddy", 1)


@pytest.mark.parametrize(("before", "after", "held"), [(9, 10, 10), (10, 9, 10), (99, 100, 100), (8, 8, 8), (7, 8, 8)])
def test_a_version_with_more_digits_is_newer_and_one_with_fewer_is_ignored(before: int, after: int, held: int) -> None:
    sites, writer = store(Site)
    writer.apply(applied(cached_site("a", before)))
    writer.apply(applied(cached_site("a", after)))
    site = sites.get("a", "default")
    assert site is not None
    assert site.metadata.resource_version == str(held)


def test_a_deleted_object_is_removed_and_an_unknown_one_is_ignored() -> None:
    sites, writer = store(Site)
    writer.apply(applied(cached_site("a", 1)))
    assert summarize(writer.apply(deleted(cached_site("a", 2), cached_site("b", 3)))) == ["-a1"]
    assert sites.get("a", "default") is None
    assert len(sites) == 0


def test_a_namespaced_object_is_found_by_its_namespaced_ref() -> None:
    sites, writer = store(Site)
    writer.apply(applied(cached_site("a")))
    assert sites.get(Ref(Site, "a", "default")) is not None
    assert sites.get(Ref(Site, "a", "other")) is None


def test_a_namespaced_object_is_not_found_by_a_cluster_scoped_ref() -> None:
    sites, writer = store(Site)
    writer.apply(applied(cached_site("a")))
    assert sites.get(Ref(Site, "a")) is None


def test_a_cluster_scoped_object_is_found_by_a_cluster_scoped_ref_and_by_a_namespaced_one() -> None:
    nodes, writer = store(Node)
    writer.apply(applied(node("a")))
    assert nodes.get(Ref(Node, "a")) is not None
    assert nodes.get(Ref(Node, "a", "default")) is not None


def test_a_ref_of_another_kind_is_refused() -> None:
    sites, _ = store(Site)
    with pytest.raises(ConfigError, match="use the store of its kind"):
        sites.get(Ref(Node, "a"))


def test_a_state_can_be_filtered_by_a_function_by_labels_and_by_namespace() -> None:
    sites, writer = store(Site)
    red = cached_site("a", labels={"color": "red"}, image="caddy")
    writer.apply(applied(red, cached_site("b", labels={"color": "blue"}), cached_site("a", namespace="other")))
    assert [site.name for site in sites.state(where=lambda site: site.spec.image == "caddy")] == ["a"]
    assert [site.name for site in sites.state(labels="color!=red")] == ["b", "a"]
    assert [site.name for site in sites.state(labels="color in (red)", namespace="other")] == []
    assert [site.namespace for site in sites.state(namespace="other")] == ["other"]


def test_a_label_with_an_index_gives_the_same_result_as_a_scan() -> None:
    sites, writer = store(Site)
    writer.apply(applied(*(cached_site(f"s{n}", labels={"n": str(n % 3), "even": str(n % 2)}) for n in range(12))))
    before = [site.name for site in sites.state(labels="n=1,even=0")]
    sites.add_index(by_label("n"))
    assert [site.name for site in sites.state(labels="n=1,even=0")] == before == ["s4", "s10"]


def test_find_returns_the_first_matching_object() -> None:
    sites, writer = store(Site)
    writer.apply(applied(cached_site("a"), cached_site("b", image="caddy")))
    found = sites.find(lambda site: site.spec.image == "caddy")
    assert found is not None
    assert found.name == "b"
    assert sites.find(lambda site: site.name == "c") is None


def test_repeated_reads_share_one_object_until_it_changes() -> None:
    sites, writer = store(Site)
    writer.apply(applied(cached_site("a", 1)))
    first = sites.get("a", "default")
    assert first is sites.get("a", "default") is sites.state()[0]
    writer.apply(applied(cached_site("a", 2)))
    assert sites.get("a", "default") is not first


def test_a_relist_without_changes_keeps_the_decoded_objects() -> None:
    sites, writer = store(Site)
    writer.apply(listed(cached_site("a", 1)))
    first = sites.get("a", "default")
    writer.apply(listed(cached_site("a", 1), version=9))
    assert sites.get("a", "default") is first


def test_unstructured_objects_are_private_to_each_reader() -> None:
    sites, writer = store(GroupVersionKind("example.dev", "v1", "Site"))
    writer.apply(applied(cached_site("a")))
    one, other = sites.get("a", "default"), sites.get("a", "default")
    assert isinstance(one, Unstructured)
    assert one is not other


def test_an_object_that_cannot_be_decoded_is_named_and_affects_no_other() -> None:
    sites, writer = store(Site)
    writer.apply(applied(cached_site("a"), cached_site("bad", image=7)))
    assert sites.get("a", "default") is not None
    with pytest.raises(BadObject, match="Site/default/bad"):
        sites.get("bad", "default")
    item = sites.item("bad", "default")
    assert item is not None
    assert item.cached.head.name == "bad"


def test_a_missing_index_is_named_in_an_error_that_says_how_to_add_it() -> None:
    sites, _ = store(Site, by_namespace())
    with pytest.raises(ConfigError, match="label app.*declared indexes: namespace.*add_index"):
        sites.by(by_label("app"), "x")


def test_a_lookup_can_be_narrowed_to_a_namespace() -> None:
    image = Index(Site, lambda site: site.spec.image, name="image")
    sites, writer = store(Site, image)
    writer.apply(applied(cached_site("a"), cached_site("b", namespace="other")))
    assert [site.name for site in sites.by(image, "nginx")] == ["a", "b"]
    assert [site.name for site in sites.by(image, "nginx", namespace="other")] == ["b"]
    assert sites.values(image) == ["nginx"]


@virtual
async def test_a_store_is_ready_at_the_first_init_done_and_wakes_all_waiters() -> None:
    sites, writer = store(Site)
    waits = [asyncio.create_task(sites.wait_ready(within=10)) for _ in range(3)]
    await asyncio.sleep(0)
    writer.apply(applied(cached_site("early")))
    assert not sites.is_ready
    writer.apply(listed(cached_site("a")))
    await asyncio.gather(*waits)
    assert sites.is_ready
    await sites.wait_ready()  # returns at once for later callers


@virtual
async def test_a_writer_that_closes_first_wakes_all_waiters_with_not_ready() -> None:
    sites, writer = store(Site)
    waits = [asyncio.create_task(sites.wait_ready()) for _ in range(2)]
    await asyncio.sleep(0)
    writer.close(ValueError("no more"))
    for outcome in await asyncio.gather(*waits, return_exceptions=True):
        assert isinstance(outcome, NotReady)
        assert isinstance(outcome.cause, ValueError)


@virtual
async def test_a_store_that_is_not_ready_in_time_raises_not_ready() -> None:
    sites, _ = store(Site)
    with pytest.raises(NotReady, match="within 3 s"):
        await sites.wait_ready(within=3)


def test_the_size_of_a_store_is_the_number_of_its_json_bytes() -> None:
    sites, writer = store(Site)
    one, two = cached_site("a", 1), cached_site("a", 2, image="a-longer-one")
    writer.apply(applied(one))
    assert sites.size == len(one.raw)
    writer.apply(applied(two))
    assert sites.size == len(two.raw)
    writer.apply(listed(one, cached_site("b")))
    assert sites.size == len(one.raw) + len(cached_site("b").raw)
    writer.apply(deleted(cached_site("a", 3), cached_site("b", 4)))
    assert sites.size == 0


def test_an_object_without_a_name_is_skipped_and_reported() -> None:
    delivered: list[str] = []
    sites, writer = store(Site, report=lambda where, error: delivered.append(f"{where}: {error}"))
    assert writer.apply(applied(decode_cached(b'{"metadata":{}}'))) == []
    assert len(sites) == 0
    assert "without metadata.name" in delivered[0]
