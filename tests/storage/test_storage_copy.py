"""Copies between data files and dumps; those with etcd are in tests/etcd."""

# ruff: noqa: ASYNC240 - files are made and read between two copies

import stat
from itertools import pairwise
from pathlib import Path

import pytest

from levelset.errors import ConfigError, ServerFailed
from levelset.storage import DataFile, DumpFile, Item, MemoryStorage, Place, SqliteStorage, copy_storage
from levelset.storage.dump_file import read_dump, write_dump
from levelset.storage.storage_copy import Snapshot

pytestmark = pytest.mark.usefixtures("file_access")


async def fill(path: Path) -> tuple[list[Item], int]:
    """A data file with changed, deleted and binary values; returns its items in the order of revisions."""
    async with await SqliteStorage.open(path) as storage:
        for number in range(30):
            await storage.put(f"/{number:02}", b"%d" % number, expected=0)
        for number in range(0, 30, 3):
            await storage.put(f"/{number:02}", b'{"changed": "\xc3\xa9\n"}', expected=None)
        await storage.delete("/01", expected=None)
        await storage.put("/binary", bytes(range(256)), expected=0)
        await storage.delete("/02", expected=None)
        items = storage.list_nowait("").items
        return sorted(items, key=lambda item: item.revision), storage.revision


async def test_a_file_and_a_dump_keep_every_item_with_its_revisions(tmp_path: Path):
    items, revision = await fill(tmp_path / "a.db")
    places: list[Place] = [DataFile(tmp_path / "a.db"), DumpFile(tmp_path / "b.jsonl"), DataFile(tmp_path / "c.db")]
    for source, target in pairwise(places):
        report = await copy_storage(source, target)
        assert (report.items, report.source_revision, report.target_revision) == (29, revision, revision)
        assert report.keeps_revisions
    async with await SqliteStorage.open(tmp_path / "c.db") as storage:
        assert sorted(storage.list_nowait("").items, key=lambda item: item.revision) == items
        assert (await storage.put("/new", b"", expected=0)).revision == revision + 1
        assert storage.compacted == revision


async def test_a_target_that_is_there_is_refused_and_left_as_it_is(tmp_path: Path):
    await fill(tmp_path / "a.db")
    await fill(tmp_path / "b.db")
    (tmp_path / "c.jsonl").write_text("mine")
    for target in (DataFile(tmp_path / "b.db"), DumpFile(tmp_path / "c.jsonl")):
        with pytest.raises(ConfigError, match="exists: choose another file"):
            await copy_storage(DataFile(tmp_path / "a.db"), target)
    assert (tmp_path / "c.jsonl").read_text() == "mine"


async def test_a_source_that_is_missing_is_not_created(tmp_path: Path):
    for source in (DataFile(tmp_path / "a.db"), DumpFile(tmp_path / "a.jsonl")):
        with pytest.raises(ConfigError, match="cannot be read"):
            await copy_storage(source, DumpFile(tmp_path / "b.jsonl"))
    assert list(tmp_path.iterdir()) == []


async def test_a_storage_in_memory_is_dumped_by_its_items(tmp_path: Path):
    storage = MemoryStorage(after=1000)
    storage.put_nowait("/a", b"1", expected=0)
    write_dump(tmp_path / "a.jsonl", storage.list_nowait("").items, storage.revision)
    await copy_storage(DumpFile(tmp_path / "a.jsonl"), DataFile(tmp_path / "a.db"))
    async with await SqliteStorage.open(tmp_path / "a.db") as copied:
        assert copied.list_nowait("").items == storage.list_nowait("").items
        assert copied.revision == 1001


async def test_a_copy_that_differs_from_its_source_is_noticed(tmp_path: Path):
    class Careless(DumpFile):
        async def write(self, snapshot: Snapshot, progress: object) -> None:
            write_dump(tmp_path / "b.jsonl", snapshot.items[:-1], snapshot.revision)

    await fill(tmp_path / "a.db")
    with pytest.raises(ServerFailed, match="differs from its source: 28 items instead of 29"):
        await copy_storage(DataFile(tmp_path / "a.db"), Careless(tmp_path / "b.jsonl"))


async def test_items_that_share_a_revision_are_copied(tmp_path: Path):
    items = [Item(f"/{number}", b"", 3, 3, 1) for number in range(600)]
    write_dump(tmp_path / "a.jsonl", items, 3)
    report = await copy_storage(DumpFile(tmp_path / "a.jsonl"), DataFile(tmp_path / "a.db"))
    assert (report.items, report.target_revision) == (600, 3)


def test_a_dump_is_private_and_is_cut_or_changed_not_without_notice(tmp_path: Path):
    path = tmp_path / "a.jsonl"
    write_dump(path, [Item("/a", b"secret", 5, 4, 2), Item("/b", b"\xff", 6, 6, 1)], 7)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert read_dump(path) == ([Item("/a", b"secret", 5, 4, 2), Item("/b", b"\xff", 6, 6, 1)], 7)
    lines = path.read_bytes().splitlines(keepends=True)
    for content in (
        b"".join(lines[:-1]),
        b"".join(lines[:1] + lines[2:]),
        b"".join(lines).replace(b"secret", b"Secret"),
    ):
        (tmp_path / "b.jsonl").write_bytes(content)
        with pytest.raises(ConfigError, match="cut|not as it was written"):
            read_dump(tmp_path / "b.jsonl")
    for content in (b"", b"{}\n", b'{"format":"other","version":1,"revision":1}\n', b"\x00"):
        (tmp_path / "b.jsonl").write_bytes(content)
        with pytest.raises(ConfigError, match="not a dump of levelset"):
            read_dump(tmp_path / "b.jsonl")
    (tmp_path / "b.jsonl").write_bytes(b'{"format":"levelset dump","version":2,"revision":1}\n')
    with pytest.raises(ConfigError, match="has version 2"):
        read_dump(tmp_path / "b.jsonl")
