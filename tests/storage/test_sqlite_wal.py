import errno

import pytest

from levelset.storage import SqliteStorage
from levelset.storage.interface import Change, Item
from levelset.storage.sqlite_wal import Log, Way


@pytest.fixture
def path(tmp_path):
    return tmp_path / "data.db"


def change(size: int = 10) -> Change:
    return Change(1, "/a", None, Item("/a", b"x" * size, 1, 1, 1))


async def begun(path, **options) -> tuple[SqliteStorage, Log]:
    """A storage with one write in its log, and what a log thinks that has looked at it."""
    storage = await SqliteStorage.open(path)
    await storage.put("/a", b"", expected=0)
    log = Log(path, **options)
    log.tend(storage._writer._connection, [])
    return storage, log


def detours_through(log: Log, storage: SqliteStorage) -> int:
    """How many commits the thread makes until one is expected to be quick again."""
    count = 0
    while log.way([change()]) is Way.THERE:
        log.tend(storage._writer._connection, [])
        count += 1
    return count


def trial_of(log: Log) -> int:
    """How many quick commits are waited for before the loop makes the next one."""
    count = 0
    while log.way([change()]) is Way.WAITING:
        log.grow([], seconds=0)
        count += 1
    return count


@pytest.mark.usefixtures("looking_into_files")
async def test_the_first_write_into_a_log_is_not_quick_and_those_after_it_are(path):
    assert Log(path, is_synced=False).way([change()]) is Way.THERE
    storage, log = await begun(path, is_synced=False)
    assert log.way([change()]) is Way.HERE
    await storage.close()


@pytest.mark.parametrize("changes", [[change()] * 65, [change(300_000)]])
@pytest.mark.usefixtures("looking_into_files")
async def test_a_large_group_is_not_quick(path, changes):
    storage, log = await begun(path, is_synced=False)
    assert log.way(changes) is Way.THERE
    await storage.close()


@pytest.mark.parametrize(("is_synced", "slow", "detours"), [(False, 0.03, 1_000), (True, 0.001, 4)])
@pytest.mark.usefixtures("looking_into_files")
async def test_after_a_slow_commit_nothing_is_quick_for_a_while(path, is_synced, slow, detours):
    storage, log = await begun(path, is_synced=is_synced)
    log.grow([change()], seconds=slow / 5)
    assert log.way([change()]) is not Way.THERE
    log.grow([change()], seconds=slow)
    assert detours_through(log, storage) == detours
    await storage.close()


@pytest.mark.usefixtures("looking_into_files")
async def test_a_disk_that_stays_slow_is_tried_less_and_less_often(path):
    storage, log = await begun(path, is_synced=True)
    found = []
    for seconds in (0.1, 0.1, 0.1, 0, 0.1):
        log.grow([change()], seconds)
        found.append(detours_through(log, storage))
    assert found == [4, 8, 16, 0, 4]
    await storage.close()


@pytest.mark.usefixtures("looking_into_files")
async def test_what_is_synced_is_waited_for_until_the_disk_has_shown_that_it_is_good(path):
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


@pytest.mark.usefixtures("looking_into_files")
async def test_a_large_group_may_take_longer_and_never_much(path):
    log = Log(path, is_synced=True)
    assert log.patience([change()]) < log.patience([change()] * 64) < 0.002


@pytest.mark.usefixtures("looking_into_files")
async def test_a_log_that_may_have_become_long_is_left_to_the_thread(path):
    storage, log = await begun(path, is_synced=False, longest=100)
    log.grow([change()] * 200, seconds=0)
    assert log.way([change()]) is Way.THERE
    await storage.close()


@pytest.mark.usefixtures("looking_into_files")
async def test_a_long_log_is_copied_back_into_the_file_and_begun_anew_on_the_same_blocks(path):
    storage, log = await begun(path, is_synced=False, longest=1)
    wal = path.with_name("data.db-wal")
    long = wal.stat().st_size
    assert long > 0
    assert log.way([change()]) is Way.THERE
    await storage.put("/b", b"", expected=0)
    assert wal.stat().st_size == long
    await storage.close()


@pytest.mark.usefixtures("looking_into_files")
async def test_with_full_durability_the_log_has_its_length_from_the_beginning(path):
    async with await SqliteStorage.open(path, durability="full") as storage:
        await storage.put("/a", b"1", expected=0)
        wal = path.with_name("data.db-wal")
        long = wal.stat().st_size
        assert long >= 4_000 * 4_096
        await storage.put("/b", b"2", expected=0)
        assert wal.stat().st_size == long
        left = path.with_name("left.db")
        for name in ("data.db", "data.db-wal"):  # as a crash would leave them
            left.with_name(name.replace("data", "left")).write_bytes(path.with_name(name).read_bytes())
    async with await SqliteStorage.open(left, durability="full") as storage:
        assert (storage.revision, [item.value for item in (await storage.list("")).items]) == (2, [b"1", b"2"])


@pytest.mark.usefixtures("looking_into_files")
async def test_without_room_for_its_length_the_log_stays_as_it_is(path, monkeypatch):
    storage, log = await begun(path, is_synced=True)
    wal = path.with_name("data.db-wal")
    before = wal.read_bytes()
    monkeypatch.setattr("levelset.storage.sqlite_wal.os.fsync", full)
    log.reserve()
    assert wal.read_bytes() == before
    await storage.close()


def full(_: int) -> None:
    raise OSError(errno.ENOSPC, "the disk is full")


@pytest.mark.usefixtures("looking_into_files")
async def test_a_log_that_was_reserved_and_never_written_is_an_empty_one(path):
    async with await SqliteStorage.open(path) as storage:
        await storage.put("/a", b"1", expected=0)
    path.with_name("data.db-wal").write_bytes(bytes(100_000))
    async with await SqliteStorage.open(path) as storage:
        assert storage.revision == 1


@pytest.mark.usefixtures("looking_into_files")
async def test_a_storage_keeps_its_log_short_and_loses_nothing_by_it(path):
    async with await SqliteStorage.open(path) as storage:
        storage._log = Log(path, is_synced=False, longest=60)
        for number in range(200):
            await storage.put(f"/{number}", b"x" * 500, expected=0)
            assert path.with_name("data.db-wal").stat().st_size < 100 * 4096
    async with await SqliteStorage.open(path) as storage:
        assert (storage.revision, await storage.count("")) == (200, 200)
