import gc
import weakref

from levelset.apiserver.registry.builtin.kind_table import builtin_kinds
from levelset.apiserver.registry.owner_index import OwnerIndex, owner_references, owner_uids
from levelset.apiserver.resources.catalog import Catalog
from levelset.apiserver.resources.object_location import location_of, stored_resources
from tests.apiserver.support.server_state import make_served, widget

CATALOG = Catalog(builtin_kinds())


class Known(OwnerIndex):
    """An index that can be referred to weakly."""


def location(name: str):
    served = CATALOG.find("", "v1", "configmaps")
    assert served is not None
    return location_of(served, {"metadata": {"name": name, "namespace": "n"}})


def test_dependents_are_found_by_the_uid_of_any_owner() -> None:
    index = OwnerIndex()
    index.set(location("a"), ("1", "2"))
    index.set(location("b"), ("2",))
    assert [one.name for one in index.dependents("2")] == ["a", "b"]
    assert [one.name for one in index.owned()] == ["a", "b"]


def test_an_object_without_owners_is_removed_from_the_index() -> None:
    index = OwnerIndex()
    index.set(location("a"), ("1", "2"))
    index.set(location("a"), ("2",))
    assert (index.has_dependents("1"), index.has_dependents("2")) == (False, True)
    index.set(location("a"), ())
    assert (len(index), index.has_dependents("2")) == (0, False)


def test_an_index_is_garbage_collected_with_its_server() -> None:
    index = Known()
    index.set(location_of(make_served(logs=index.dependents), widget(namespace="n")), ("1",))
    found = weakref.ref(index)
    del index
    gc.collect()
    assert found() is None


def test_owner_references_are_read_from_any_object() -> None:
    refs = [{"uid": "1"}, {"uid": "1"}, {"uid": "2"}]
    assert owner_references({"metadata": {"ownerReferences": refs}}) == refs
    assert owner_references({"metadata": {"ownerReferences": None}}) == owner_references(None) == []
    assert owner_uids(refs) == ("1", "2")


def test_resources_that_share_storage_are_counted_once() -> None:
    prefixes = [served.prefix for served in stored_resources(CATALOG)]
    assert len(prefixes) == len(set(prefixes))
    assert prefixes.count("/registry/core/events/") == 1
