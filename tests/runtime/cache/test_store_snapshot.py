"""Snapshots of a store."""

import pytest

from levelset.errors import BadObject
from levelset.runtime.cache.object_store import store
from tests.runtime.cache.sites import Site, applied, cached_site, deleted, listed


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


def test_the_objects_of_a_snapshot_are_decoded_once_while_they_are_unchanged() -> None:
    sites, writer = store(Site)
    writer.apply(applied(*(cached_site(f"s{n}") for n in range(100))))
    before = list(sites.state())
    writer.apply([*applied(cached_site("s7", 2)), *deleted(cached_site("s8", 2))])
    after = {site.name: site for site in sites.state()}
    assert [site.name for site in before if after.get(site.name) is not site] == ["s7", "s8"]
    assert len(sites.decoded_objects()) == 99


@pytest.mark.parametrize("is_relisted", [False, True])
def test_a_version_that_was_replaced_is_not_retained(is_relisted: bool) -> None:
    sites, writer = store(Site)
    writer.apply(listed(cached_site("a"), cached_site("b")))
    assert len(list(sites.state())) == len(sites.decoded_objects()) == 2
    newer = cached_site("a", 2)
    writer.apply(listed(newer, cached_site("b"), version=2) if is_relisted else applied(newer))
    assert [site.name for _, site in sites.decoded_objects()] == ["b"]
