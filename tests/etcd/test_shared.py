"""Several storages on one etcd, and other applications beside them."""

import asyncio
import gc
from collections.abc import Callable
from pathlib import Path

import pytest

from levelset.errors import ConfigError, Expired, Malformed, ServerFailed
from levelset.storage import CancelledWrite, EtcdStorage, Mismatch, SharedStorage
from levelset.storage.etcd_client import EtcdClient, EtcdCredentials
from levelset.storage.etcd_compaction import Compactor
from levelset.storage.etcd_messages import KeySpace
from tests.etcd.etcd_cluster import EtcdCluster, start_cluster

OpenStorage = Callable[..., EtcdStorage]


async def client_of(cluster: EtcdCluster) -> EtcdClient:
    client = EtcdClient(cluster.endpoints, EtcdCredentials(), timeout=5.0)
    await client.start()
    return client


async def test_what_one_storage_writes_reaches_the_reads_and_watches_of_another(open_storage: OpenStorage):
    async with open_storage() as one, open_storage() as two, two.watch("/", after=two.revision) as watch:
        item = await one.put("/a", b"1", expected=0)
        (change,) = await asyncio.wait_for(anext(aiter(watch)), 10)
        assert change.after == item == two.get_nowait("/a")
        with pytest.raises(Mismatch) as lost:
            await two.put("/a", b"2", expected=0)
        assert lost.value.current == item


async def test_reads_after_wait_current_see_every_write_that_was_acknowledged_before(open_storage: OpenStorage):
    async with open_storage() as one, open_storage() as two:
        assert isinstance(two, SharedStorage)
        for number in range(100):
            item = await one.put("/a", b"%d" % number, expected=None)
            await two.wait_current()
            assert two.get_nowait("/a") == item
        await one.delete("/a", expected=None)
        await two.wait_current()
        assert two.get_nowait("/a") is None


async def test_wait_current_ends_when_the_newest_revision_belongs_to_another_application(
    open_storage: OpenStorage, shared_cluster: EtcdCluster
):
    client = await client_of(shared_cluster)
    async with open_storage() as storage:
        outcome = await client.write(b"/elsewhere", b"", expected=None)
        async with asyncio.timeout(3):
            assert await storage.wait_current() >= outcome.revision
        assert storage.revision >= outcome.revision
        if shared_cluster.binary.name.endswith("newest"):  # learned by a progress request, without a write
            assert storage.revision == outcome.revision
    await client.close()


async def test_revisions_of_other_applications_leave_gaps_that_reads_and_watches_do_not_notice(
    open_storage: OpenStorage, shared_cluster: EtcdCluster
):
    client = await client_of(shared_cluster)
    async with open_storage() as storage:
        start = storage.revision
        first = await storage.put("/a", b"1", expected=0)
        for _ in range(5):
            await client.write(b"/elsewhere", b"", expected=None)
        second = await storage.put("/a", b"2", expected=first.revision)
        assert second.revision == first.revision + 6
        assert storage.get_nowait("/a", revision=second.revision - 1) == first
        async with storage.watch("/", after=start) as watch:
            changes = await asyncio.wait_for(anext(aiter(watch)), 10)
            assert [change.revision for change in changes] == [first.revision, second.revision]
    await client.close()


async def test_a_transaction_of_others_over_several_keys_is_shown_as_one_revision(
    open_storage: OpenStorage, shared_cluster: EtcdCluster
):
    client = await client_of(shared_cluster)
    async with open_storage() as storage, storage.watch("/", after=storage.revision) as watch:
        request = client.messages.write_request(storage._keys.encode("/a"), b"1", expected=None)
        request.success.add().request_put.key = storage._keys.encode("/b")
        await client._call(client.messages.txn, request, is_repeatable=False)
        changes = await asyncio.wait_for(anext(aiter(watch)), 10)
        assert [change.key for change in changes] == ["/a", "/b"]
        assert len({change.revision for change in changes}) == 1
    await client.close()


async def test_many_writers_on_two_storages_lose_no_update(open_storage: OpenStorage):
    async def add_one(storage: EtcdStorage) -> None:
        while True:
            await storage.wait_current()
            item = storage.get_nowait("/n")
            assert item is not None
            try:
                await storage.put("/n", b"%d" % (int(item.value) + 1), expected=item.revision)
            except Mismatch:
                continue
            return

    async with open_storage() as one, open_storage() as two:
        await one.put("/n", b"0", expected=0)
        await asyncio.gather(*(add_one(storage) for storage in (one, two) for _ in range(10)))
        await one.wait_current()
        item = one.get_nowait("/n")
        assert item is not None
        assert item.value == b"20"


async def test_of_two_servers_one_compacts_in_a_period_and_both_forget(open_storage: OpenStorage):
    async with open_storage() as one, open_storage() as two:
        compactors = [Compactor(storage._client, storage._keys, period=1) for storage in (one, two)]
        for compactor in compactors:
            assert await compactor.step() == 0
        for number in range(10):
            await one.put("/a", b"%d" % number, expected=None)
        done = [await compactor.step() for compactor in compactors]
        assert sum(revision > 0 for revision in done) == 1
        done = [await compactor.step() for compactor in reversed(compactors)]
        compacted = max(done)
        assert compacted >= 10
        await one.wait_current()
        await two.wait_current()
        assert one.compacted == two.compacted == compacted
        with pytest.raises(Expired):
            two.watch("/", after=compacted - 1)


async def test_a_new_storage_has_the_history_since_the_last_compaction(open_storage: OpenStorage):
    async with open_storage() as storage:
        compactor = Compactor(storage._client, storage._keys, period=1)
        await compactor.step()
        await storage.put("/a", b"1", expected=0)
        await compactor.step()
        after = storage.revision
        second = await storage.put("/a", b"2", expected=None)
    async with open_storage() as storage, storage.watch("/", after=after) as watch:
        (change,) = watch.batch_nowait()
        assert change.after == second
        assert change.before is not None


async def test_pages_load_everything_at_the_start(open_storage: OpenStorage):
    async with open_storage(timeout=60.0) as storage:  # a busy disk syncs 1,200 writes for more than five seconds
        await asyncio.gather(
            *(storage.put(f"/{number:04}", b"x" * (number % 7) * 1000, expected=0) for number in range(1200))
        )
        items = storage.list_nowait("/").items
    async with open_storage() as storage:
        assert storage.list_nowait("/").items == items


async def test_a_cancelled_writer_learns_that_its_write_was_committed(open_storage: OpenStorage):
    async with open_storage() as storage:
        write = asyncio.ensure_future(storage.put("/a", b"1", expected=0))
        await asyncio.sleep(0)
        write.cancel()
        with pytest.raises(CancelledWrite) as caught:
            await write
        assert caught.value.change.after == storage.get_nowait("/a") is not None


def test_the_end_of_the_event_loop_does_not_wait_for_writes_for_ever(open_storage: OpenStorage):
    async def main() -> None:
        storage = open_storage()
        await storage.start()
        write = asyncio.ensure_future(storage.put("/a", b"1", expected=0))
        await asyncio.sleep(0)
        assert not write.done()

    def run() -> None:
        asyncio.run(main())
        gc.collect()

    with pytest.warns(ResourceWarning, match="unclosed"):  # it is not closed
        run()


async def test_a_key_without_a_slash_is_refused(open_storage: OpenStorage):
    async with open_storage() as storage:
        with pytest.raises(Malformed, match="must begin with a slash"):
            await storage.put("a", b"", expected=None)


async def test_a_value_that_is_too_large_for_etcd_is_refused_with_the_option_that_helps(open_storage: OpenStorage):
    async with open_storage() as storage:
        with pytest.raises(ServerFailed, match="max-request-bytes") as caught:
            await storage.put("/a", b"x" * 2_000_000, expected=0)
        assert caught.value.code == 413


async def test_an_etcd_without_space_refuses_puts_and_accepts_deletions(binary: Path):
    # A quota of 1 MB, which two values exhaust.
    async with (
        start_cluster(binary, ["--quota-backend-bytes", "1000000"]) as cluster,
        EtcdStorage(cluster.endpoints, compaction=None) as storage,
    ):
        await storage.put("/small", b"x", expected=0)
        with pytest.raises(ServerFailed, match="etcd has no space: compact and defragment it"):
            await asyncio.gather(*(storage.put(f"/{number}", b"x" * 1_000_000, expected=0) for number in range(5)))
        assert "no space" in (storage.find_write_problem() or "")
        await storage.delete("/small", expected=None)


async def test_an_etcd_that_cannot_be_reached_is_named_at_the_start():
    with pytest.raises(ConfigError, match=r"etcd at 127\.0\.0\.1:1 cannot be opened: no connection"):
        async with EtcdStorage("http://127.0.0.1:1", timeout=0.5):
            pass


def test_the_keys_of_levelset_itself_are_not_items():
    assert KeySpace("/levelset").compaction == b"/levelset.compaction"
