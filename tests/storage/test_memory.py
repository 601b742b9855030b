import asyncio
from functools import partial

import pytest

from levelset.errors import Expired, Malformed, NotFound, ServerFailed
from levelset.storage import MemoryStorage, Mismatch, NowaitReader, Storage
from levelset.testing.contracts.storage import STORAGE_CONTRACT, Check, check_storage


@pytest.mark.parametrize("check", STORAGE_CONTRACT, ids=lambda check: check.__name__)
async def test_memory_satisfies_the_contract(check: Check):
    async with MemoryStorage() as storage:
        await check(storage)


async def test_the_contract_can_be_checked_without_a_test_framework():
    await check_storage(MemoryStorage)


async def test_the_contract_notices_a_storage_that_breaks_it():
    class Forgetful(MemoryStorage):
        async def count(self, prefix: str, *, revision: int | None = None) -> int:
            return 0

    with pytest.raises(AssertionError, match="count of"):
        await check_storage(Forgetful)


def test_memory_is_a_storage_that_never_waits():
    storage: Storage = MemoryStorage()
    assert isinstance(storage, NowaitReader)


def test_the_nowait_methods_need_no_loop():
    storage = MemoryStorage()
    item = storage.put_nowait("/a", b"1", expected=0)
    assert storage.get_nowait("/a") is item
    assert storage.list_nowait("/").items == (item,)
    assert storage.delete_nowait("/a", expected=item.revision).before is item
    assert storage.count_nowait("/") == 0


def test_values_are_stored_by_reference():
    storage, value = MemoryStorage(), b"x" * 1000
    storage.put_nowait("/a", value, expected=0)
    item = storage.get_nowait("/a")
    assert item is not None
    assert item.value is value


def test_revisions_begin_after_the_given_one_and_all_before_are_compacted():
    storage = MemoryStorage(after=1000)
    assert (storage.revision, storage.compacted) == (1000, 1000)
    assert storage.list_nowait("/", revision=1000).items == ()
    assert storage.put_nowait("/a", b"", expected=0).revision == 1001
    with pytest.raises(Expired):
        storage.list_nowait("/", revision=999)


@pytest.mark.parametrize("key", ["", "/a\ud800", "\udfff"])
def test_a_key_that_cannot_be_stored_everywhere_is_refused(key):
    storage = MemoryStorage()
    with pytest.raises(Malformed, match="key"):
        storage.put_nowait(key, b"", expected=None)
    assert storage.revision == 0


def test_messages_name_the_key_and_the_next_step():
    storage = MemoryStorage()
    storage.put_nowait("/a", b"", expected=0)
    with pytest.raises(Mismatch, match=r"'/a' exists already, at revision 1; choose another key"):
        storage.put_nowait("/a", b"", expected=0)
    with pytest.raises(Mismatch, match=r"'/a' is at revision 1, not 7; read it again"):
        storage.put_nowait("/a", b"", expected=7)
    with pytest.raises(Mismatch, match=r"'/b' does not exist, but revision 7 was expected"):
        storage.put_nowait("/b", b"", expected=7)
    with pytest.raises(NotFound, match="'/b' does not exist"):
        storage.delete_nowait("/b", expected=None)


async def test_a_closed_storage_refuses_writes():
    storage = MemoryStorage()
    await storage.close()
    with pytest.raises(ServerFailed, match="closed"):
        await storage.put("/a", b"", expected=None)


async def test_many_writes_in_one_loop_iteration_wake_a_watcher_once():
    storage = MemoryStorage()
    calls: list[int] = []
    async with storage.watch("/", after=0) as watch:
        watch.call_when_ready(lambda: calls.append(storage.revision))
        for number in range(100):
            storage.put_nowait(f"/{number}", b"", expected=0)
        assert calls == []
        await asyncio.sleep(0)
        assert calls == [100]
        assert len(watch.batch_nowait()) == 100


async def test_a_write_wakes_only_the_watchers_of_its_prefix():
    storage = MemoryStorage()
    woken: list[str] = []
    for prefix in ("/r/pods/", "/r/pods/a/", "/r/pods/b/", "/r/pods/a/x", "/r/jobs/", ""):
        watch = storage.watch(prefix, after=0)
        watch.call_when_ready(partial(woken.append, prefix))
    storage.put_nowait("/r/pods/a/1", b"", expected=0)
    await asyncio.sleep(0)
    assert sorted(woken) == ["", "/r/pods/", "/r/pods/a/"]


async def test_two_readers_of_one_watch_are_refused():
    storage = MemoryStorage()
    async with storage.watch("/", after=0) as watch:
        watch.call_when_ready(lambda: None)
        with pytest.raises(RuntimeError, match="second watch"):
            await anext(watch)


async def test_a_long_history_comes_in_bounded_batches():
    storage = MemoryStorage()
    for number in range(2500):
        storage.put_nowait(f"/{number}", b"", expected=0)
    async with storage.watch("/", after=0) as watch:
        assert [len(watch.batch_nowait()) for _ in range(4)] == [1000, 1000, 500, 0]


async def test_history_beyond_its_bound_is_compacted():
    storage = MemoryStorage(history_changes=80)
    async with storage.watch("/", after=0) as watch:
        for number in range(200):
            storage.put_nowait(f"/{number % 3}", b"", expected=None)
        assert 200 - 80 <= storage.compacted <= 200 - 70
        with pytest.raises(Expired, match="relist"):
            await anext(watch)


async def test_a_closed_watch_is_removed_from_the_storage():
    storage = MemoryStorage()
    for prefix in ("/a/", "/a/b", "", "/a/b"):
        async with storage.watch(prefix, after=0):
            assert storage._mvcc.history.feeds.is_watched
    assert not storage._mvcc.history.feeds.is_watched
    assert not storage._mvcc.history.feeds._narrow


async def test_changes_older_than_history_age_are_compacted():
    now = 0.0
    storage = MemoryStorage(history_age=60, clock=lambda: now)
    for second in range(200):
        now = float(second)
        storage.put_nowait("/a", b"", expected=None)
    assert 200 - 60 - 9 <= storage.compacted <= 200 - 60


async def test_a_copy_by_its_history_has_the_same_items_revisions_and_changes():
    storage = MemoryStorage()
    made = storage.put_nowait("/a/x", b"1", expected=0)
    storage.put_nowait("/a/x", b"2", expected=made.revision)
    storage.put_nowait("/a/y", b"1", expected=0)
    storage.delete_nowait("/a/y", expected=None)
    history = storage.watch("/", after=0).batch_nowait()
    copy = MemoryStorage(changes=history)
    assert copy.list_nowait("/") == storage.list_nowait("/")
    assert copy.revision == storage.revision == 4
    assert copy.watch("/", after=0).batch_nowait() == history
    copy.put_nowait("/a/z", b"1", expected=0)
    assert storage.get_nowait("/a/z") is None
    assert copy.get_nowait("/a/x", revision=1) == made
