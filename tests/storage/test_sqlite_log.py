import pytest

from levelset.storage import SqliteStorage
from levelset.storage.interface import Change, Item
from levelset.storage.sqlite_log import Log


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
    log.tend(storage._writer._connection)
    return storage, log


@pytest.mark.usefixtures("looking_into_files")
async def test_the_first_write_into_a_log_is_not_quick_and_those_after_it_are(path):
    assert not Log(path, is_synced=False).is_quick([change()])
    storage, log = await begun(path, is_synced=False)
    assert log.is_quick([change()])
    await storage.close()


@pytest.mark.usefixtures("looking_into_files")
async def test_a_write_that_is_synced_is_never_quick(path):
    storage, log = await begun(path, is_synced=True)
    assert not log.is_quick([change()])
    await storage.close()


@pytest.mark.parametrize("changes", [[change()] * 65, [change(300_000)]])
@pytest.mark.usefixtures("looking_into_files")
async def test_a_large_group_is_not_quick(path, changes):
    storage, log = await begun(path, is_synced=False)
    assert not log.is_quick(changes)
    await storage.close()


@pytest.mark.usefixtures("looking_into_files")
async def test_after_a_slow_commit_nothing_is_quick_for_a_while(path):
    storage, log = await begun(path, is_synced=False)
    log.grow([change()], seconds=0.1)
    assert [log.is_quick([change()]) for _ in range(1001)] == [False] * 1000 + [True]
    await storage.close()


@pytest.mark.usefixtures("looking_into_files")
async def test_a_log_that_may_have_become_long_is_looked_at_by_the_thread(path):
    storage, log = await begun(path, is_synced=False, longest=100)
    log.grow([change()] * 50, seconds=0)
    assert not log.is_quick([change()])
    log.tend(storage._writer._connection)
    assert log.is_quick([change()])
    await storage.close()


@pytest.mark.usefixtures("looking_into_files")
async def test_a_long_log_is_copied_back_into_the_file(path):
    storage, log = await begun(path, is_synced=False, longest=1)
    wal = path.with_name("data.db-wal")
    assert wal.stat().st_size == 0
    assert not log.is_quick([change()])
    await storage.close()


@pytest.mark.usefixtures("looking_into_files")
async def test_a_storage_keeps_its_log_short_and_loses_nothing_by_it(path):
    async with await SqliteStorage.open(path) as storage:
        storage._log = Log(path, is_synced=False, longest=60)
        for number in range(200):
            await storage.put(f"/{number}", b"x" * 500, expected=0)
            assert path.with_name("data.db-wal").stat().st_size < 100 * 4096
    async with await SqliteStorage.open(path) as storage:
        assert (storage.revision, await storage.count("")) == (200, 200)
