"""The objects of one moment."""

import pytest

from levelset.errors import BadObject
from levelset.runtime.cache.store import store
from tests.runtime.cache.shelf import Site, applied, deleted, kept_site


def test_what_happens_later_does_not_show_in_a_snapshot() -> None:
    sites, writer = store(Site)
    writer.apply(applied(kept_site("a"), kept_site("b")))
    before = sites.state()
    writer.apply([*deleted(kept_site("a", 2)), *applied(kept_site("c"))])
    assert [site.name for site in before] == ["a", "b"]


def test_a_snapshot_is_a_sequence_that_decodes_only_what_is_looked_at() -> None:
    sites, writer = store(Site)
    writer.apply(applied(kept_site("a"), kept_site("bad", image=7), kept_site("c")))
    found = sites.state()
    assert (len(found), found[0].name, found[-1].name, [site.name for site in found[2:]]) == (3, "a", "c", ["c"])
    assert [item.kept.head.name for item in found.items] == ["a", "bad", "c"]
    assert [str(ref) for ref in found.refs] == ["Site/default/a", "Site/default/bad", "Site/default/c"]
    with pytest.raises(BadObject, match="Site/default/bad"):
        list(found)
    assert repr(found) == "<Snapshot of 3 Site>"


def test_a_snapshot_larger_than_what_is_remembered_drives_nothing_out() -> None:
    sites, writer = store(Site)
    writer.apply(applied(*(kept_site(f"s{n}") for n in range(1100))))
    often = sites.get("s7", "default")
    assert len(list(sites.state())) == 1100
    assert sites.get("s7", "default") is often
    assert len(sites.remembered()) == 1
