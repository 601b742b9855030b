"""Snapshots of a store."""

import pytest

from levelset.errors import BadObject
from levelset.runtime.cache.object_store import store
from tests.runtime.cache.sites import Site, applied, cached_site, deleted


def test_a_snapshot_does_not_show_later_changes() -> None:
    sites, writer = store(Site)
    writer.apply(applied(cached_site("a"), cached_site("b")))
    before = sites.state()
    writer.apply([*deleted(cached_site("a", 2)), *applied(cached_site("c"))])
    assert [site.name for site in before] == ["a", "b"]


def test_a_snapshot_is_a_sequence_that_decodes_only_accessed_objects() -> None:
    sites, writer = store(Site)
    writer.apply(applied(cached_site("a"), cached_site("bad", image=7), cached_site("c")))
    found = sites.state()
    assert (len(found), found[0].name, found[-1].name, [site.name for site in found[2:]]) == (3, "a", "c", ["c"])
    assert [item.cached.head.name for item in found.items] == ["a", "bad", "c"]
    assert [str(ref) for ref in found.refs] == ["Site/default/a", "Site/default/bad", "Site/default/c"]
    with pytest.raises(BadObject, match="Site/default/bad"):
        list(found)
    assert repr(found) == "<Snapshot of 3 Site>"


def test_a_snapshot_larger_than_the_limit_evicts_no_decoded_objects() -> None:
    sites, writer = store(Site)
    writer.apply(applied(*(cached_site(f"s{n}") for n in range(1100))))
    often = sites.get("s7", "default")
    assert len(list(sites.state())) == 1100
    assert sites.get("s7", "default") is often
    assert len(sites.decoded_objects()) == 1
