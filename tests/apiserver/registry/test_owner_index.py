import gc
import weakref

from levelset.apiserver.registry.builtin.kind_table import builtin_kinds
from levelset.apiserver.registry.owner_index import OwnerIndex, owner_uids, references
from levelset.apiserver.resources.catalog import Catalog
from levelset.apiserver.resources.object_location import spot_of, stored_kinds
from tests.apiserver.writes import make_served, widget

CATALOG = Catalog(builtin_kinds())


class Known(OwnerIndex):
    """An index that can be referred to weakly."""


def spot(name: str):
    served = CATALOG.find("", "v1", "configmaps")
    assert served is not None
    return spot_of(served, {"metadata": {"name": name, "namespace": "n"}})


def test_dependents_are_found_by_the_uid_of_any_owner() -> None:
    index = OwnerIndex()
    index.set(spot("a"), ("1", "2"))
    index.set(spot("b"), ("2",))
    assert [one.name for one in index.dependents("2")] == ["a", "b"]
    assert [one.name for one in index.owned()] == ["a", "b"]


def test_what_has_lost_its_owners_is_forgotten() -> None:
    index = OwnerIndex()
    index.set(spot("a"), ("1", "2"))
    index.set(spot("a"), ("2",))
    assert (index.has_dependents("1"), index.has_dependents("2")) == (False, True)
    index.set(spot("a"), ())
    assert (len(index), index.has_dependents("2")) == (0, False)


def test_an_index_goes_although_what_is_served_knows_it() -> None:
    index = Known()
    index.set(spot_of(make_served(logs=index.dependents), widget(namespace="n")), ("1",))
    found = weakref.ref(index)
    del index
    gc.collect()
    assert found() is None


def test_references_are_read_from_any_object() -> None:
    refs = [{"uid": "1"}, {"uid": "1"}, {"uid": "2"}]
    assert references({"metadata": {"ownerReferences": refs}}) == refs
    assert references({"metadata": {"ownerReferences": None}}) == references(None) == []
    assert owner_uids(refs) == ("1", "2")


def test_views_of_one_store_are_counted_once() -> None:
    prefixes = [served.prefix for served in stored_kinds(CATALOG)]
    assert len(prefixes) == len(set(prefixes))
    assert prefixes.count("/registry/core/events/") == 1
