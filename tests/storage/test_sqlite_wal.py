import errno

import pytest

from levelset.storage import SqliteStorage
from levelset.storage.interface import Change, Item
from levelset.storage.sqlite_wal import CommitPath, WriteAheadLog


@pytest.fixture
def path(tmp_path):
    return tmp_path / "data.db"


def change(size: int = 10) -> Change:
    return Change(1, "/a", None, Item("/a", b"x" * size, 1, 1, 1))


async def begun(path, **options) -> tuple[SqliteStorage, WriteAheadLog]:
    """A storage with one write in its log, and a log that was opened on it."""
    storage = await SqliteStorage.open(path)
    await storage.put("/a", b"", expected=0)
    log = WriteAheadLog(path, **options)
    log.tend(storage._writer._connection, [])
    return storage, log


def detours_through(log: WriteAheadLog, storage: SqliteStorage) -> int:
    """The number of commits in the thread until one is expected to be quick again."""
    count = 0
    while log.commit_path([change()]) is CommitPath.THREAD:
        log.tend(storage._writer._connection, [])
        count += 1
    return count


def trial_of(log: WriteAheadLog) -> int:
    """The number of quick commits in the thread before the next one runs on the loop."""
    count = 0
    while log.commit_path([change()]) is CommitPath.THREAD_AND_WAIT:
        log.grow([], seconds=0)
        count += 1
    return count


@pytest.mark.usefixtures("file_access")
async def test_the_first_write_into_a_log_is_not_quick_and_those_after_it_are(path):
    assert WriteAheadLog(path, is_synced=False).commit_path([change()]) is CommitPath.THREAD
    storage, log = await begun(path, is_synced=False)
    assert log.commit_path([change()]) is CommitPath.LOOP
    await storage.close()


@pytest.mark.parametrize("changes", [[change()] * 65, [change(300_000)]])
@pytest.mark.usefixtures("file_access")
async def test_a_large_group_is_not_quick(path, changes):
    storage, log = await begun(path, is_synced=False)
    assert log.commit_path(changes) is CommitPath.THREAD
    await storage.close()


@pytest.mark.parametrize(("is_synced", "slow", "detours"), [(False, 0.03, 1_000), (True, 0.001, 4)])
@pytest.mark.usefixtures("file_access")
async def test_after_a_slow_commit_nothing_is_quick_for_a_while(path, is_synced, slow, detours):
    storage, log = await begun(path, is_synced=is_synced)
    log.grow([change()], seconds=slow / 5)
    assert log.commit_path([change()]) is not CommitPath.THREAD
    log.grow([change()], seconds=slow)
    assert detours_through(log, storage) == detours
    await storage.close()


@pytest.mark.usefixtures("file_access")
async def test_a_disk_that_stays_slow_is_tried_less_and_less_often(path):
    storage, log = await begun(path, is_synced=True)
    found = []
    for seconds in (0.1, 0.1, 0.1, 0, 0.1):
        log.grow([change()], seconds)
        found.append(detours_through(log, storage))
    assert found == [4, 8, 16, 0, 4]
    await storage.close()


@pytest.mark.usefixtures("file_access")
async def test_synced_writes_stay_on_the_thread_until_enough_commits_were_quick(path):
    storage, log = await begun(path, is_synced=True)
    assert trial_of(log) == 50
    log.grow([change()], seconds=0.001)
    detours_through(log, storage)
    assert trial_of(log) == 50
    for trial in (100, 200):
        log.grow([change()], seconds=0.1)
        detours_through(log, storage)
        assert trial_of(log) == trial
    await storage.close()


@pytest.mark.usefixtures("file_access")
async def test_the_time_limit_of_a_commit_grows_with_its_group_but_is_bounded(path):
    log = WriteAheadLog(path, is_synced=True)
    assert log.patience([change()]) < log.patience([change()] * 64) < 0.002


@pytest.mark.usefixtures("file_access")
async def test_a_log_that_may_have_become_long_is_left_to_the_thread(path):
    storage, log = await begun(path, is_synced=False, longest=100)
    log.grow([change()] * 200, seconds=0)
    assert log.commit_path([change()]) is CommitPath.THREAD
    await storage.close()


@pytest.mark.usefixtures("file_access")
async def test_a_long_log_is_checkpointed_and_reused_on_the_same_blocks(path):
    storage, log = await begun(path, is_synced=False, longest=1)
    wal = path.with_name("data.db-wal")
    long = wal.stat().st_size
    assert long > 0
    assert log.commit_path([change()]) is CommitPath.THREAD
    await storage.put("/b", b"", expected=0)
    assert wal.stat().st_size == long
    await storage.close()


@pytest.mark.usefixtures("file_access")
async def test_with_full_durability_the_log_is_preallocated(path):
    async with await SqliteStorage.open(path, durability="full") as storage:
        await storage.put("/a", b"1", expected=0)
        wal = path.with_name("data.db-wal")
        long = wal.stat().st_size
        assert long >= 4_000 * 4_096
        await storage.put("/b", b"2", expected=0)
        assert wal.stat().st_size == long
        left = path.with_name("left.db")
        for name in ("data.db", "data.db-wal"):  # as after a crash
            left.with_name(name.replace("data", "left")).write_bytes(path.with_name(name).read_bytes())
    async with await SqliteStorage.open(left, durability="full") as storage:
        assert (storage.revision, [item.value for item in (await storage.list("")).items]) == (2, [b"1", b"2"])


@pytest.mark.usefixtures("file_access")
async def test_without_disk_space_the_log_is_not_preallocated(path, monkeypatch):
    storage, log = await begun(path, is_synced=True)
    wal = path.with_name("data.db-wal")
    before = wal.read_bytes()
    monkeypatch.setattr("levelset.storage.sqlite_wal.os.fsync", full)
    log.reserve()
    assert wal.read_bytes() == before
    await storage.close()


def full(_: int) -> None:
    raise OSError(errno.ENOSPC, "the disk is full")


@pytest.mark.usefixtures("file_access")
async def test_a_preallocated_log_without_writes_is_empty(path):
    async with await SqliteStorage.open(path) as storage:
        await storage.put("/a", b"1", expected=0)
    path.with_name("data.db-wal").write_bytes(bytes(100_000))
    async with await SqliteStorage.open(path) as storage:
        assert storage.revision == 1


@pytest.mark.usefixtures("file_access")
async def test_a_storage_bounds_its_log_without_losing_writes(path):
    async with await SqliteStorage.open(path) as storage:
        storage._log = WriteAheadLog(path, is_synced=False, longest=60)
        for number in range(200):
            await storage.put(f"/{number}", b"x" * 500, expected=0)
            assert path.with_name("data.db-wal").stat().st_size < 100 * 4096
    async with await SqliteStorage.open(path) as storage:
        assert (storage.revision, await storage.count("")) == (200, 200)
