"""The state store: leases between sessions, records, and schema migrations."""

import asyncio
import sqlite3
import subprocess
import sys
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from levelset import replace
from levelset.errors import ConfigError
from levelset_dcp.records import (
    MemoryRecords,
    ProcessRecord,
    Records,
    RecordsFailed,
    ResourceRecord,
    SqliteRecords,
    state_path,
)
from levelset_machine import Identity, identity_of

NOW = datetime(2026, 1, 2, 3, 4, 5, 678901, tzinfo=UTC)
RECORD = ProcessRecord(name="web", identity=Identity(4711, 123456), key="k", started_at=NOW, log="web")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "state" / "state.sqlite3"


@pytest.fixture(params=["file", "memory"])
async def records(request: pytest.FixtureRequest, path: Path) -> AsyncIterator[Records]:
    if request.param == "memory":
        yield MemoryRecords(workload="shop")
        return
    async with SqliteRecords(path, workload="shop") as opened:
        yield opened


async def test_a_process_record_exists_until_it_is_removed(records: Records) -> None:
    await records.write(RECORD)
    assert await records.find("web") == replace(RECORD, workload="shop")
    await records.write(replace(RECORD, key="other"))
    assert await records.find("web") == replace(RECORD, key="other", workload="shop")
    await records.remove("web")
    await records.remove("web")
    assert await records.find("web") is None


async def test_a_workload_has_the_records_of_its_name(records: Records) -> None:
    container = ResourceRecord(kind="container", name="db", id="c1", key="k", workload="shop")
    network = ResourceRecord(kind="network", name="db", id="n1")
    await records.write(RECORD)
    await records.write(replace(RECORD, name="other", workload="elsewhere"))
    await records.write_resource(container)
    await records.write_resource(network)
    found = await records.workload_records("shop")
    assert list(found.processes) == [replace(RECORD, workload="shop")]
    assert list(found.resources) == [container, replace(network, workload="shop")]
    assert await records.find_resource("network", "db") == replace(network, workload="shop")
    await records.remove_resource("network", "db")
    assert await records.find_resource("network", "db") is None
    assert await records.find_resource("container", "db") == container


async def test_records_outlive_the_session(path: Path) -> None:
    async with SqliteRecords(path) as first:
        await first.write(RECORD)
    async with SqliteRecords(path) as second:
        assert await second.find("web") == RECORD


@pytest.fixture
def other() -> "subprocess.Popen[bytes]":
    return subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)


async def test_a_lease_is_never_taken_from_a_living_process(path: Path, other: "subprocess.Popen[bytes]") -> None:
    theirs = identity_of(other.pid)
    assert theirs is not None
    async with SqliteRecords(path) as mine, SqliteRecords(path, owner=theirs) as held:
        assert await held.lease("web")
        assert await held.lease("web")
        assert not await mine.lease("web")
        await mine.release("web")
        assert not await mine.lease("web")
        other.kill()
        await asyncio.to_thread(other.communicate)
        assert await mine.lease("web"), "its owner is dead"
        await held.release("web")
        assert await mine.lease("web"), "a lost lease cannot be released"


async def test_a_lease_of_a_reused_pid_can_be_acquired(path: Path) -> None:
    async with SqliteRecords(path) as mine:
        myself = identity_of(1)
        assert myself is not None
        async with SqliteRecords(path, owner=Identity(1, myself.started + 1)) as earlier:
            assert await earlier.lease("web")
            assert await mine.lease("web")


async def test_leases_are_released_with_the_session(path: Path, other: "subprocess.Popen[bytes]") -> None:
    theirs = identity_of(other.pid)
    assert theirs is not None
    async with SqliteRecords(path) as mine:
        async with SqliteRecords(path, owner=theirs) as held:
            assert await held.lease("web")
        assert await mine.lease("web")
    await asyncio.to_thread(other.communicate, b"\n")


async def test_concurrent_lease_requests_are_serialized(path: Path) -> None:
    async with SqliteRecords(path) as one, SqliteRecords(path) as two:
        taken = await asyncio.gather(*(each.lease(f"k{number}") for number in range(20) for each in (one, two)))
        assert all(taken)


def _write_version(path: Path, *values: int) -> None:
    with sqlite3.connect(path) as store:
        store.execute("UPDATE schema_version SET major = ?, minor = ?, dirty = ?", values)
    store.close()


async def _make(path: Path) -> None:
    async with SqliteRecords(path) as records:
        await records.write(RECORD)


async def test_a_store_of_a_later_major_version_is_rejected_unchanged(path: Path) -> None:
    await _make(path)
    await asyncio.to_thread(_write_version, path, 2, 0, 0)
    before = await asyncio.to_thread(path.read_bytes)
    with pytest.raises(ConfigError, match=r"later levelset-dcp \(version 2\.0"):
        await SqliteRecords(path).__aenter__()
    assert await asyncio.to_thread(path.read_bytes) == before


async def test_a_store_of_a_later_minor_version_is_used(path: Path) -> None:
    await _make(path)
    await asyncio.to_thread(_write_version, path, 1, 9, 0)
    async with SqliteRecords(path) as records:
        assert await records.find("web") == RECORD


async def test_an_interrupted_migration_runs_again(path: Path) -> None:
    await _make(path)
    await asyncio.to_thread(_write_version, path, 1, 0, 1)
    async with SqliteRecords(path) as records:
        assert await records.find("web") == RECORD


def _make_first_version(path: Path) -> None:
    path.parent.mkdir(mode=0o700)
    with sqlite3.connect(path) as store:
        store.executescript(
            "CREATE TABLE schema_version (one INTEGER PRIMARY KEY, major INTEGER, minor INTEGER, dirty INTEGER);"
            "INSERT INTO schema_version VALUES (1, 1, 0, 0);"
            "CREATE TABLE resource_locks (key TEXT PRIMARY KEY, pid INTEGER, started INTEGER);"
            "CREATE TABLE persistent_processes (name TEXT PRIMARY KEY, pid INTEGER, started INTEGER, key TEXT, "
            "started_at TEXT, log TEXT);"
            "CREATE TABLE persistent_containers (name TEXT PRIMARY KEY, id TEXT, key TEXT);"
            "CREATE TABLE persistent_networks (name TEXT PRIMARY KEY, id TEXT, key TEXT);"
            "INSERT INTO persistent_processes VALUES ('web', 4711, 123456, 'k', '2026-01-02T03:04:05.678901+00:00',"
            " 'web');"
        )
    store.close()


async def test_an_earlier_version_is_migrated(path: Path) -> None:
    await asyncio.to_thread(_make_first_version, path)
    async with SqliteRecords(path) as records:
        assert await records.find("web") == RECORD
        await records.write(replace(RECORD, workload="shop"))
        assert len((await records.workload_records("shop")).processes) == 1


async def test_a_directory_that_others_can_write_to_is_rejected(path: Path) -> None:
    await asyncio.to_thread(path.parent.mkdir)
    await asyncio.to_thread(path.parent.chmod, 0o777)
    with pytest.raises(ConfigError, match="chmod 700"):
        await SqliteRecords(path).__aenter__()


async def test_a_file_that_is_not_a_store_is_rejected(path: Path) -> None:
    await asyncio.to_thread(path.parent.mkdir, 0o700)
    await asyncio.to_thread(path.write_bytes, b"something else entirely" * 100)
    with pytest.raises(ConfigError, match="not a state store"):
        await SqliteRecords(path).__aenter__()


async def test_a_closed_store_raises(path: Path) -> None:
    records = SqliteRecords(path)
    async with records:
        await records.find("web")
    with pytest.raises(RecordsFailed, match="not open"):
        await records.find("web")


async def test_only_the_owner_can_read_the_store(path: Path) -> None:
    await _make(path)
    found = await asyncio.to_thread(path.stat)
    folder = await asyncio.to_thread(path.parent.stat)
    assert (found.st_mode & 0o777, folder.st_mode & 0o777) == (0o600, 0o700)


def test_the_path_of_the_store_can_be_set_in_the_environment() -> None:
    assert state_path({"LEVELSET_DCP_STATE": "/there/it.db"}) == Path("/there/it.db")
    assert state_path({}) == Path.home() / ".levelset-dcp" / "state.sqlite3"
