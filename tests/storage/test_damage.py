"""Damaged files: nothing is lost silently, no revision is used twice, and one object does not take the others along."""

# ruff: noqa: ASYNC240 - these tests damage files between two servers

import asyncio
import errno
import os
import random
import shutil
import sqlite3
from collections.abc import Iterable
from pathlib import Path

import pytest

from levelset.errors import ConfigError, Expired, ServerFailed
from levelset.storage import DamagedValue, SqliteStorage
from levelset.storage.disk_reserve import DiskReserve
from levelset.storage.revision_mark import RevisionMark, read_mark
from levelset.storage.sqlite_file import Durability

pytestmark = pytest.mark.usefixtures("file_access")

VERSION_1 = """
CREATE TABLE items (
    id INTEGER PRIMARY KEY, key TEXT NOT NULL UNIQUE, value BLOB NOT NULL,
    revision INTEGER NOT NULL, created INTEGER NOT NULL, version INTEGER NOT NULL
);
CREATE TABLE changes (
    revision INTEGER PRIMARY KEY, key TEXT NOT NULL, deleted INTEGER NOT NULL,
    old_value BLOB, old_revision INTEGER, old_created INTEGER, old_version INTEGER
);
CREATE TABLE meta (name TEXT PRIMARY KEY, value INTEGER NOT NULL);
INSERT INTO meta VALUES ('compacted', 0);
INSERT INTO items VALUES (1, '/a', x'31', 1, 1, 1), (2, '/b', x'33', 3, 2, 2);
INSERT INTO changes VALUES
    (1, '/a', 0, NULL, NULL, NULL, NULL), (2, '/b', 0, NULL, NULL, NULL, NULL), (3, '/b', 0, x'32', 2, 2, 1);
PRAGMA application_id = 0x6C767374;
PRAGMA user_version = 1;
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "data.db"


async def fill(path: Path, count: int) -> None:
    """Writes objects, and leaves the files as the death of the process would."""
    living = path.with_name("living.db")
    storage = await SqliteStorage.open(living)
    for number in range(count):
        await storage.put(f"/registry/{number:03}", b'{"number":%d}' % number, expected=0)
    for suffix in ("", "-wal", "-revision"):
        shutil.copy(f"{living}{suffix}", f"{path}{suffix}")
    await storage.close()


def flip(path: Path, position: int) -> None:
    content = bytearray(path.read_bytes())
    content[position] ^= 0x10
    path.write_bytes(content)


def contents(path: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in path.parent.iterdir() if file.name.startswith("data.db")}


async def values(path: Path) -> dict[str, bytes]:
    async with await SqliteStorage.open(path) as storage:
        return {item.key: item.value for item in (await storage.list("")).items}


async def test_a_damaged_log_is_refused_with_what_is_lost_and_left_as_it_is(path: Path) -> None:
    await fill(path, 40)
    log = Path(f"{path}-wal")
    flip(log, log.stat().st_size // 2)
    before = contents(path)
    with pytest.raises(ConfigError, match=r"has lost \d+ acknowledged writes: revision 40.*its log.*repair"):
        await SqliteStorage.open(path)
    after = contents(path)
    after.pop("data.db-shm", None)
    assert after == before


async def test_one_lost_write_at_the_end_of_the_log_is_noticed(path: Path) -> None:
    await fill(path, 3)
    log = Path(f"{path}-wal")
    flip(log, log.stat().st_size - 100)
    with pytest.raises(ConfigError, match=r"has lost 1 acknowledged write: revision 3 was written, but it ends at 2"):
        await SqliteStorage.open(path)


async def test_an_older_copy_of_the_file_is_refused_beside_a_newer_mark(path: Path) -> None:
    async with await SqliteStorage.open(path) as storage:
        await storage.put("/a", b"", expected=0)
    older = path.read_bytes()
    async with await SqliteStorage.open(path) as storage:
        await storage.put("/b", b"", expected=0)
    path.write_bytes(older)
    with pytest.raises(ConfigError, match="it is older than that, or its log is missing"):
        await SqliteStorage.open(path)


async def test_after_a_loss_of_power_unsynced_writes_may_be_gone_but_no_revision_is_used_twice(
    path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    await fill(path, 5)
    Path(f"{path}-wal").unlink()
    monkeypatch.setattr("levelset.storage.sqlite_file.boot_id", lambda: "another boot")
    async with await SqliteStorage.open(path) as storage:
        assert (storage.revision, storage.compacted) == (5, 5)
        assert (await storage.put("/new", b"", expected=0)).revision == 6
        with pytest.raises(Expired):
            storage.watch("/", after=3)
    assert "a loss of power took the last 5 writes" in caplog.text


async def test_synced_writes_that_are_gone_after_a_loss_of_power_are_damage(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with await SqliteStorage.open(path, durability="full") as storage:
        await storage.put("/a", b"", expected=0)
        mark = RevisionMark(Path(f"{path}-revision"), _file_id(path), is_synced=True)
        mark.record(4, 0, 0)
        mark.close()
    monkeypatch.setattr("levelset.storage.sqlite_file.boot_id", lambda: "another boot")
    with pytest.raises(ConfigError, match="has lost 3 acknowledged writes"):
        await SqliteStorage.open(path)


async def test_the_mark_of_another_file_says_nothing(path: Path) -> None:
    async with await SqliteStorage.open(path) as storage:
        await storage.put("/a", b"", expected=0)
    Path(f"{path}-revision").unlink()
    mark = RevisionMark(Path(f"{path}-revision"), 17, is_synced=True)
    mark.record(900, 0, 0)
    mark.close()
    async with await SqliteStorage.open(path) as storage:
        assert storage.revision == 1


def test_a_torn_mark_leaves_the_one_before(path: Path) -> None:
    mark = RevisionMark(path, 1, is_synced=False)
    mark.record(1, 0, 0)
    mark.record(2, 0, 0)
    mark.close()
    assert _revision(path) == 2
    flip(path, 20)
    assert _revision(path) == 1
    flip(path, 532)
    assert read_mark(path) is None
    path.write_bytes(b"")
    assert read_mark(path) is None


async def test_a_damaged_object_is_named_left_out_and_can_be_deleted(
    path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    await _three(path)
    content = path.read_bytes()
    flip(path, content.index(b'"two"'))
    async with await SqliteStorage.open(path) as storage:
        assert "the stored value of '/b' is damaged: delete it" in caplog.text
        assert [item.key for item in (await storage.list("")).items] == ["/a", "/c"]
        assert (list(storage.damaged), storage.revision, storage.compacted) == (["/b"], 3, 3)
        for expected in (None, 0, 2):
            with pytest.raises(DamagedValue, match="'/b' is damaged: delete it and create it again"):
                await storage.put("/b", b"new", expected=expected)
        await storage.put("/d", b"four", expected=0)
    async with await SqliteStorage.open(path) as storage:
        assert list(storage.damaged) == ["/b"]
        await storage.delete("/b", expected=None)
        assert (await storage.put("/b", b"new", expected=0)).revision == 5
    async with await SqliteStorage.open(path) as storage:
        assert (list(storage.damaged), storage.revision) == ([], 5)
        assert [item.key for item in (await storage.list("")).items] == ["/a", "/b", "/c", "/d"]


@pytest.mark.parametrize("column", ["revision = 9", "created = 9", "version = 9", "value = 'text'", "checksum = 0"])
async def test_every_field_of_an_object_is_covered_by_its_checksum(path: Path, column: str) -> None:
    await _three(path)
    _execute(path, f"UPDATE items SET {column} WHERE key = '/b'")
    async with await SqliteStorage.open(path) as storage:
        assert list(storage.damaged) == ["/b"]


async def test_a_damaged_key_is_a_damaged_object(path: Path) -> None:
    await _three(path)
    _execute(path, "UPDATE items SET key = CAST(x'2fff' AS TEXT) WHERE key = '/b'")
    async with await SqliteStorage.open(path) as storage:
        assert list(storage.damaged) == ["/\udcff"]
        await storage.delete("/\udcff", expected=None)
    assert list(await values(path)) == ["/a", "/c"]


@pytest.mark.parametrize("column", ["deleted = 1", "key = '/x'", "old_value = x'00'", "checksum = 0"])
async def test_a_damaged_history_costs_the_history_only(path: Path, column: str) -> None:
    await _three(path)
    _execute(path, f"UPDATE changes SET {column} WHERE revision = 2")
    async with await SqliteStorage.open(path) as storage:
        assert (storage.revision, storage.compacted, list(storage.damaged)) == (3, 3, [])
        with pytest.raises(Expired):
            storage.watch("/", after=1)
        await storage.put("/d", b"", expected=0)
    assert list(await values(path)) == ["/a", "/b", "/c", "/d"]


@pytest.mark.parametrize("state", ["killed", "closed", "compacted"])
async def test_no_flipped_bit_anywhere_is_served_as_a_value_or_takes_a_write_back_silently(
    path: Path, state: str
) -> None:
    await fill(path, 30)
    if state != "killed":
        async with await SqliteStorage.open(path) as storage:
            await storage.compact(30 if state == "compacted" else 0)
    pristine = {file: file.read_bytes() for file in path.parent.iterdir() if file.name.startswith("data.db")}
    written = {f"/registry/{number:03}": b'{"number":%d}' % number for number in range(30)}
    dice = random.Random(11)
    for _ in range(40):
        for file in path.parent.iterdir():
            file.unlink()
        for file, content in pristine.items():
            file.write_bytes(content)
        target = dice.choice([file for file in pristine if not file.name.endswith("-revision")])
        flip(target, dice.randrange(len(pristine[target])))
        try:
            async with await SqliteStorage.open(path) as storage:
                found = {item.key: item.value for item in (await storage.list("")).items}
                assert storage.revision == 30
                assert found.items() <= written.items()
                assert len(found) + len(storage.damaged) == 30
        except ConfigError as error:
            assert str(path) in str(error)


async def test_a_file_of_version_1_is_upgraded(path: Path) -> None:
    _execute(path, *VERSION_1.split(";"))
    async with await SqliteStorage.open(path) as storage:
        assert {item.key: item.value for item in (await storage.list("")).items} == {"/a": b"1", "/b": b"3"}
        async with storage.watch("/b", after=1) as watch:
            assert [change.revision for change in await anext(watch)] == [2, 3]
        await storage.put("/a", b"4", expected=1)
    assert await values(path) == {"/a": b"4", "/b": b"3"}


async def test_a_dangling_link_is_refused_and_makes_no_file(path: Path) -> None:
    path.symlink_to(path.with_name("elsewhere.db"))
    with pytest.raises(ConfigError, match=r"is a symbolic link to .*elsewhere.db, which cannot be opened; name the"):
        await SqliteStorage.open(path)
    assert [file.name for file in path.parent.iterdir()] == ["data.db"]


async def test_a_link_to_a_data_file_is_that_file(path: Path) -> None:
    await _three(path.with_name("real.db"))
    path.symlink_to(path.with_name("real.db"))
    assert list(await values(path)) == ["/a", "/b", "/c"]
    assert sorted(file.name for file in path.parent.iterdir()) == ["data.db", "real.db", "real.db-revision"]


async def test_what_is_not_a_file_is_refused(path: Path) -> None:
    os.mkfifo(path)
    for one in (path, path.parent):
        with pytest.raises(ConfigError, match="is not a file; choose another path"):
            await SqliteStorage.open(one)


async def test_after_a_failed_sync_nothing_is_acknowledged_until_the_file_is_opened_again(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with await SqliteStorage.open(path, durability="full") as storage:
        await storage.put("/a", b"1", expected=0)
        with monkeypatch.context() as patch:
            patch.setattr("levelset.storage.sqlite.write_group", _failing_sync)
            with pytest.raises(ServerFailed, match="check the disk, and restart the server; only then it is known"):
                await storage.put("/a", b"2", expected=1)
        for write in (storage.put("/b", b"", expected=0), storage.delete("/a", expected=None)):
            with pytest.raises(ServerFailed, match=r"failed \(disk I/O error\); check the disk, and restart"):
                await write
        assert storage.write_problem is not None
    assert await values(path) == {"/a": b"1"}


async def test_a_disk_that_fails_while_a_file_is_opened_after_a_crash_is_named_and_the_next_attempt_works(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    killed = tmp_path / "killed" / "data.db"
    killed.parent.mkdir()
    async with await SqliteStorage.open(path, durability="full") as storage:
        await storage.put("/a", b"1", expected=0)
        for ending in ("", "-wal", "-revision"):
            shutil.copy(f"{path}{ending}", f"{killed}{ending}")
    before = {one.name: one.read_bytes() for one in killed.parent.iterdir()}
    with monkeypatch.context() as patch:
        patch.setattr("levelset.storage.sqlite_wal.os.fsync", _failing_fsync)
        with pytest.raises(ConfigError, match=r"its log data\.db-wal cannot be written.*nothing acknowledged is lost"):
            await SqliteStorage.open(killed, durability="full")
    assert before.items() <= {one.name: one.read_bytes() for one in killed.parent.iterdir()}.items()
    assert await values(killed) == {"/a": b"1"}


def _failing_fsync(_: int) -> None:
    raise OSError(errno.EIO, "Input/output error")


async def test_a_file_that_was_opened_on_a_full_disk_takes_writes_as_soon_as_there_is_space(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("levelset.storage.sqlite._SPACE_RETRY_SECONDS", 0.01)
    has_space = False
    monkeypatch.setattr(DiskReserve, "take", lambda _, __: has_space)
    async with await SqliteStorage.open(path) as storage, asyncio.timeout(300):
        assert storage.write_problem == f"the disk of {path} is full"
        await asyncio.sleep(0.03)
        assert storage.write_problem is not None
        has_space = True
        while storage.write_problem is not None:  # noqa: ASYNC110 - only a timer of the storage ends it
            await asyncio.sleep(0.01)


@pytest.mark.parametrize("durability", ["normal", "full"])
async def test_deleting_objects_on_a_full_disk_makes_the_file_shorter_until_writes_are_possible_again(
    path: Path, durability: Durability, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("levelset.storage.sqlite._SPACE_RETRY_SECONDS", 0.01)
    limit = 4_000_000
    async with await SqliteStorage.open(path, durability=durability) as storage, asyncio.timeout(300):
        for number in range(100):
            await storage.put(f"/{number}", b"x" * 100_000, expected=0)
    assert path.stat().st_size > 10_000_000
    monkeypatch.setattr(DiskReserve, "take", lambda _, __: path.stat().st_size < limit)
    async with await SqliteStorage.open(path, durability=durability) as storage, asyncio.timeout(300):
        assert storage.write_problem == f"the disk of {path} is full"
        for number in range(90):
            await storage.delete(f"/{number}", expected=None)
        while storage.write_problem is not None:  # noqa: ASYNC110 - only a timer of the storage ends it
            await asyncio.sleep(0.01)
        assert path.stat().st_size < limit
        await storage.put("/again", b"y", expected=0)
        with pytest.raises(Expired):
            storage.watch("", after=1)
    found = await values(path)
    assert found == {"/again": b"y"} | {f"/{number}": b"x" * 100_000 for number in range(90, 100)}


def _failing_sync(*_: object, **__: object) -> None:
    error = sqlite3.OperationalError("disk I/O error")
    error.sqlite_errorname = "SQLITE_IOERR_FSYNC"
    raise error


def _revision(path: Path) -> int | None:
    found = read_mark(path)
    return None if found is None else found.revision


def _file_id(path: Path) -> int:
    found = read_mark(Path(f"{path}-revision"))
    assert found is not None
    return found.file_id


async def _three(path: Path) -> None:
    async with await SqliteStorage.open(path) as storage:
        for key, value in (("/a", b'"one"'), ("/b", b'"two"'), ("/c", b'"three"')):
            await storage.put(key, value, expected=0)


def _execute(path: Path, *statements: str | Iterable[str]) -> None:
    connection = sqlite3.connect(path)
    for statement in statements:
        connection.execute(str(statement))
    connection.commit()
    connection.close()
