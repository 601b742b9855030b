import asyncio
import sqlite3
import stat
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from levelset.errors import ConfigError, Expired, ServerFailed
from levelset.storage import Mismatch, NowaitReader, SqliteStorage
from levelset.storage.interface import Change
from levelset.storage.sqlite_file import write_group
from levelset.storage.sqlite_wal import WriteAheadLog
from levelset.testing.contracts.storage import STORAGE_CONTRACT, Check


@pytest.fixture
def path(tmp_path):
    return tmp_path / "data.db"


class PatientLog(WriteAheadLog):
    """A log for which no commit takes too long."""

    def patience(self, changes: Sequence[Change]) -> float:
        return 60.0


@pytest.mark.parametrize("durability", ["normal", "full"])
@pytest.mark.parametrize("check", STORAGE_CONTRACT, ids=lambda check: check.__name__)
async def test_sqlite_satisfies_the_contract(check: Check, durability, path):
    async with await SqliteStorage.open(path, durability=durability) as storage:
        await check(storage)


async def test_sqlite_reads_without_waiting(path):
    async with await SqliteStorage.open(path) as storage:
        assert isinstance(storage, NowaitReader)


async def test_all_data_survives_a_restart(path):
    async with await SqliteStorage.open(path) as storage:
        for number in range(300):
            await storage.put(f"/é\0/{number % 7}", bytes([number % 256]) * number, expected=None)
        await storage.delete("/é\0/3", expected=None)
        await storage.compact(100)
        before = [storage.revision, storage.compacted, await storage.list(""), storage._mvcc.history.changes]
        past = [await storage.list("", revision=revision) for revision in range(100, 302)]
    async with await SqliteStorage.open(path) as storage:
        assert [storage.revision, storage.compacted, await storage.list(""), storage._mvcc.history.changes] == before
        assert [await storage.list("", revision=revision) for revision in range(100, 302)] == past
        assert (await storage.put("/a", b"", expected=0)).revision == 302


async def test_a_watch_resumes_after_a_restart(path):
    async with await SqliteStorage.open(path) as storage:
        for key in ("/a", "/b", "/c"):
            await storage.put(key, b"", expected=0)
    async with await SqliteStorage.open(path) as storage, storage.watch("/", after=1) as watch:
        await storage.put("/d", b"", expected=0)
        assert [change.key for change in await anext(watch)] == ["/b", "/c", "/d"]


async def test_the_revision_survives_when_everything_is_deleted_and_compacted(path):
    async with await SqliteStorage.open(path) as storage:
        await storage.put("/a", b"", expected=0)
        await storage.delete("/a", expected=None)
        await storage.compact(2)
    async with await SqliteStorage.open(path) as storage:
        assert (storage.revision, storage.compacted) == (2, 2)
        with pytest.raises(Expired):
            storage.watch("/", after=1)


async def test_concurrent_writers_share_a_commit(path):
    async with await SqliteStorage.open(path) as storage:
        seen: list[int] = []
        async with storage.watch("/", after=0) as watch:
            await asyncio.gather(*(storage.put(f"/{number}", b"", expected=0) for number in range(100)))
            while watch.revision < 100:
                seen.append(len(await anext(watch)))
        assert seen == [100]


async def test_nothing_is_visible_before_it_is_in_the_file(path):
    async with await SqliteStorage.open(path) as storage:
        gate = threading.Event()
        storage._writer.submit(lambda _: gate.wait(), lambda _: None)
        write = asyncio.ensure_future(storage.put("/a", b"", expected=0))
        rival = asyncio.ensure_future(storage.put("/a", b"", expected=0))
        for _ in range(10):
            await asyncio.sleep(0)
        assert (storage.revision, await storage.get("/a"), write.done(), rival.done()) == (0, None, False, False)
        gate.set()
        assert (await write).revision == storage.revision == 1
        with pytest.raises(Mismatch):
            await rival


async def test_a_slow_sync_does_not_block_the_loop_and_is_awaited(path, monkeypatch):
    async with await SqliteStorage.open(path, durability="full") as storage:
        for number in range(20):
            await storage.put(f"/{number}", b"", expected=0)
        gate = threading.Event()
        monkeypatch.setattr("levelset.storage.sqlite.write_group", _delayed(gate))
        write = asyncio.ensure_future(storage.put("/a", b"", expected=0))
        for _ in range(10):
            await asyncio.sleep(0)
        assert (storage.revision, write.done()) == (20, False)
        gate.set()
        assert (await write).revision == storage.revision == 21


@pytest.mark.usefixtures("file_access")
async def test_after_many_single_writes_the_next_one_is_committed_immediately(path):
    async with await SqliteStorage.open(path) as storage:
        storage._log = PatientLog(path, is_synced=False)
        for number in range(20):
            await storage.put(f"/{number}", b"", expected=0)
            await asyncio.sleep(0)
        first, second = (storage.start_write(key, b"", expected=0) for key in ("/a", "/b"))
        assert (first.done(), second.done(), storage.revision) == (True, False, 21)
        await second
        crowd = await asyncio.gather(*(storage.put(f"/crowd/{number}", b"", expected=0) for number in range(5)))
        assert [item.revision for item in crowd] == [23, 24, 25, 26, 27]
        assert not storage.start_write("/c", b"", expected=0).done()


async def test_a_cancelled_write_is_not_undone_and_affects_no_other_write(path):
    async with await SqliteStorage.open(path) as storage:
        first = asyncio.ensure_future(storage.put("/a", b"1", expected=0))
        second = asyncio.ensure_future(storage.put("/a", b"2", expected=None))
        await asyncio.sleep(0)
        first.cancel()
        assert (await second).version == 2
        assert first.cancelled()


async def test_a_full_disk_fails_the_waiting_writers_and_nothing_else(path):
    async with await SqliteStorage.open(path) as storage:
        stored = await storage.put("/a", b"1", expected=0)
        await _limit_pages(storage, 20)
        writes = [storage.put(f"/{number}", b"x" * 10_000, expected=0) for number in range(50)]
        outcomes = await asyncio.gather(
            storage.put("/a", b"2", expected=stored.revision), *writes, return_exceptions=True
        )
        assert all(isinstance(outcome, ServerFailed) for outcome in outcomes)
        assert "data.db could not be written" in str(outcomes[0])
        assert (storage.revision, await storage.get("/a"), await storage.count("")) == (1, stored, 1)
        await _limit_pages(storage, 1 << 30)
        assert (await storage.put("/a", b"3", expected=stored.revision)).revision == 2
    async with await SqliteStorage.open(path) as storage:
        assert [item.value for item in (await storage.list("")).items] == [b"3"]


async def test_writes_that_gathered_behind_a_failed_group_fail_with_it(path):
    async with await SqliteStorage.open(path) as storage:
        await _limit_pages(storage, 12)
        gate = threading.Event()
        storage._writer.submit(lambda _: gate.wait(), lambda _: None)
        big = asyncio.ensure_future(storage.put("/a", b"x" * 100_000, expected=0))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        small = asyncio.ensure_future(storage.put("/a", b"", expected=1))
        loser = asyncio.ensure_future(storage.put("/a", b"", expected=7))
        await asyncio.sleep(0)
        gate.set()
        assert [type(one) for one in await asyncio.gather(big, small, return_exceptions=True)] == [ServerFailed] * 2
        with pytest.raises(Mismatch, match="does not exist"):
            await loser
        assert (await storage.put("/b", b"", expected=0)).revision == 1


@pytest.mark.usefixtures("file_access")
async def test_compaction_removes_the_rows_in_batches(path):
    async with await SqliteStorage.open(path) as storage:
        for start in range(0, 3500, 500):
            await asyncio.gather(*(storage.put(f"/{start + n}", b"", expected=0) for n in range(500)))
        await storage.compact(3400)
        for number in range(4):
            await storage.put(f"/after/{number}", b"", expected=0)
    assert _rows(path, "SELECT min(revision), count(*) FROM changes") == [(3401, 104)]


@pytest.mark.usefixtures("file_access")
async def test_rows_left_by_an_interrupted_compaction_are_removed_later(path):
    async with await SqliteStorage.open(path) as storage:
        await asyncio.gather(*(storage.put(f"/{n}", b"", expected=0) for n in range(10)))
    with sqlite3.connect(path) as connection:
        connection.execute("UPDATE meta SET value = 5")
    connection.close()
    async with await SqliteStorage.open(path) as storage:
        assert storage.compacted == 5
        await storage.put("/x", b"", expected=0)
    assert _rows(path, "SELECT min(revision), count(*) FROM changes") == [(6, 6)]


@pytest.mark.usefixtures("file_access")
async def test_automatic_compaction_reaches_the_file(path):
    async with await SqliteStorage.open(path, history_changes=100) as storage:
        for _ in range(5):
            await asyncio.gather(*(storage.put(f"/{n}", b"", expected=None) for n in range(100)))
        compacted = storage.compacted
        assert compacted >= 400
        await storage.put("/a", b"", expected=None)
    assert _rows(path, "SELECT value, (SELECT count(*) FROM changes) FROM meta WHERE name = 'compacted'") == [
        (compacted, 501 - compacted)
    ]


@pytest.mark.usefixtures("file_access")
async def test_a_closed_storage_has_finished_its_writes_and_refuses_others(path):
    storage = await SqliteStorage.open(path)
    writes = [asyncio.ensure_future(storage.put(f"/{number}", b"", expected=0)) for number in range(10)]
    await asyncio.sleep(0)
    await storage.close()
    assert [write.result().revision for write in writes] == list(range(1, 11))
    with pytest.raises(ServerFailed, match="closed"):
        await storage.put("/a", b"", expected=0)
    assert sorted(path.parent.iterdir()) == [path, path.with_name("data.db-revision")]


@pytest.mark.usefixtures("file_access")
async def test_a_new_file_is_readable_by_its_owner_only(path):
    async with await SqliteStorage.open(path):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600


@pytest.mark.usefixtures("file_access")
async def test_no_thread_is_left_after_closing(path):
    async with await SqliteStorage.open(path) as storage:
        await storage.put("/a", b"", expected=0)
        thread = storage._writer._thread
    thread.join(120)
    assert not [one.name for one in threading.enumerate() if one.name.startswith("levelset storage")]


@pytest.mark.parametrize("content", [b"hello, I am no database" * 100, b"SQLite format 3\0" + b"\xff" * 5000])
@pytest.mark.usefixtures("file_access")
async def test_a_file_that_is_not_a_database_is_refused_and_left_unchanged(path, content):
    path.write_bytes(content)
    with pytest.raises(ConfigError, match=r"data\.db is (not a levelset data file|damaged)"):
        await SqliteStorage.open(path)
    assert path.read_bytes() == content


@pytest.mark.parametrize("name", ["missing/data.db", "nul\0byte"])
async def test_a_path_that_cannot_be_opened_is_refused(tmp_path, name):
    with pytest.raises(ConfigError, match="check that its directory exists"):
        await SqliteStorage.open(tmp_path / name)


@pytest.mark.usefixtures("file_access")
async def test_an_unknown_durability_is_refused_before_a_file_is_created(path):
    with pytest.raises(ConfigError, match="durability is 'normal' or 'full', not 'ful'"):
        await SqliteStorage.open(path, durability="ful")
    assert not path.exists()


@pytest.mark.usefixtures("file_access")
async def test_a_file_of_a_newer_version_is_refused_and_left_unchanged(path):
    async with await SqliteStorage.open(path) as storage:
        await storage.put("/a", b"", expected=0)
    _rows(path, "PRAGMA user_version = 3")
    content = path.read_bytes()
    with pytest.raises(ConfigError, match=r"written by a newer levelset \(data version 3.*use that newer version"):
        await SqliteStorage.open(path)
    assert path.read_bytes() == content


@pytest.mark.usefixtures("file_access")
async def test_a_database_of_another_program_is_refused_and_left_unchanged(path):
    _rows(path, "CREATE TABLE mine (x)")
    content = path.read_bytes()
    with pytest.raises(ConfigError, match="database of another program"):
        await SqliteStorage.open(path)
    assert path.read_bytes() == content


@pytest.mark.parametrize(
    "damage",
    [
        "DELETE FROM changes WHERE revision = 2",
        "DELETE FROM items WHERE key = '/a'",
        "DELETE FROM meta",
        "UPDATE meta SET value = 'many'",
        "DROP TABLE changes",
    ],
)
@pytest.mark.usefixtures("file_access")
async def test_a_file_that_contradicts_itself_is_refused(path, damage):
    async with await SqliteStorage.open(path) as storage:
        for key in ("/a", "/b", "/c"):
            await storage.put(key, b"", expected=0)
    _rows(path, damage)
    with pytest.raises(ConfigError, match="damaged"):
        await SqliteStorage.open(path)


async def test_a_second_opening_of_the_same_file_is_refused(path):
    async with await SqliteStorage.open(path) as storage:
        with pytest.raises(ConfigError, match="in use by another process"):
            await SqliteStorage.open(path)
        code = f"from levelset.storage import SqliteStorage; SqliteStorage({str(path)!r})"
        other = await asyncio.to_thread(subprocess.run, [sys.executable, "-c", code], capture_output=True, text=True)
        assert "ConfigError" in other.stderr
        assert "in use by another process" in other.stderr
        await storage.put("/a", b"", expected=0)
    async with await SqliteStorage.open(path) as storage:
        assert storage.revision == 1


@pytest.mark.usefixtures("file_access")
async def test_a_group_is_written_as_a_whole_or_not_at_all(path):
    storage = await SqliteStorage.open(path)
    connection = storage._writer._connection
    with pytest.raises(AttributeError):
        write_group(connection, [None], compacted=0, sweep_to=0)  # an inconsistent file, on purpose
    assert not connection.in_transaction
    await storage.close()


def _delayed(gate: threading.Event) -> Callable[..., int]:
    def write(*given: Any, **named: Any) -> int:
        gate.wait()
        return write_group(*given, **named)

    return write


async def _limit_pages(storage: SqliteStorage, pages: int) -> None:
    done = threading.Event()
    storage._writer.submit(
        lambda connection: connection.execute(f"PRAGMA max_page_count = {pages}"), lambda _: done.set()
    )
    await asyncio.to_thread(done.wait)


def _rows(path, statement: str) -> list[object]:
    connection = sqlite3.connect(path)
    try:
        with connection:
            return connection.execute(statement).fetchall()
    finally:
        connection.close()
