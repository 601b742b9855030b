"""What happens when etcd, a member or the connection fails: nothing acknowledged is lost, and nothing is guessed."""

# ruff: noqa: ASYNC110 - what is waited for is in other processes

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import pytest

from levelset.errors import Expired, ServerFailed
from levelset.storage import Change, EtcdStorage, Mismatch, StorageUnavailable, UnknownOutcome, Watch
from tests.etcd.cutting_proxy import CuttingProxy
from tests.etcd.etcd_cluster import EtcdCluster, run_cluster

pytestmark = pytest.mark.timeout(120)


@pytest.fixture
def own_cluster(binary: Path) -> Iterator[EtcdCluster]:
    """One member that the test may disturb."""
    with run_cluster(binary) as cluster:
        yield cluster


@pytest.fixture
def empty(binary: Path) -> Iterator[EtcdCluster]:
    """Another one, without any data."""
    with run_cluster(binary) as cluster:
        yield cluster


@pytest.fixture
def three_members(binary: Path) -> Iterator[EtcdCluster]:
    with run_cluster(binary, 3) as cluster:
        cluster.leader()
        yield cluster


async def until(what: Callable[[], bool], *, within: float = 20.0) -> None:
    async with asyncio.timeout(within):
        while not what():
            await asyncio.sleep(0.02)


async def keys_from(watch: Watch, last: str) -> list[str]:
    """The keys of the changes up to that of key `last`."""
    keys: list[str] = []
    async with asyncio.timeout(20):
        async for changes in watch:
            keys += [change.key for change in changes]
            if last in keys:
                return keys
    raise AssertionError("the watch has ended")


async def put_until_it_works(storage: EtcdStorage, key: str) -> None:
    async with asyncio.timeout(20):
        while True:
            try:
                await storage.put(key, b"", expected=None)
            except ServerFailed:
                await asyncio.sleep(0.05)
            else:
                return


async def test_a_killed_etcd_makes_writes_fail_in_time_and_is_followed_again_when_it_is_back(own_cluster: EtcdCluster):
    (member,) = own_cluster.members
    async with EtcdStorage(own_cluster.endpoints, timeout=1.0, compaction=None) as storage:
        await storage.put("/before", b"", expected=0)
        async with storage.watch("/", after=storage.revision) as watch:
            await asyncio.to_thread(member.kill)
            await until(lambda: storage.find_write_problem() is not None)
            began = time.monotonic()
            with pytest.raises(StorageUnavailable, match="'/during' was not written: etcd cannot be reached") as caught:
                await storage.put("/during", b"", expected=0)
            assert time.monotonic() - began < 2.5
            assert caught.value.code == 503
            assert storage.get_nowait("/before") is not None, "reads go on from memory"
            await asyncio.to_thread(member.start)
            await until(lambda: storage.find_write_problem() is None)
            await storage.put("/after", b"", expected=0)
            assert await keys_from(watch, "/after") == ["/after"]


async def test_a_write_that_a_hanging_etcd_does_not_answer_is_said_to_be_unknown(own_cluster: EtcdCluster):
    (member,) = own_cluster.members
    async with EtcdStorage(own_cluster.endpoints, timeout=1.0, compaction=None) as storage:
        await storage.put("/a", b"1", expected=0)
        async with storage.watch("/", after=storage.revision) as watch:
            member.pause()
            began = time.monotonic()
            with pytest.raises(UnknownOutcome, match="it is not known whether '/b' was written") as caught:
                await storage.put("/b", b"", expected=0)
            assert time.monotonic() - began < 2.5
            assert (caught.value.code, caught.value.key) == (504, "/b")
            await until(lambda: storage.find_write_problem() is not None)
            member.resume()
            await until(lambda: storage.find_write_problem() is None)
            # The first one may have happened meanwhile; then the second one is refused.
            try:
                await storage.put("/b", b"", expected=0)
            except Mismatch as lost:
                assert lost.current is not None
            assert await keys_from(watch, "/b") == ["/b"]
            assert (item := storage.get_nowait("/b")) is not None
            assert item.version == 1


async def test_a_write_whose_answer_is_cut_off_is_unknown_and_never_sent_twice(own_cluster: EtcdCluster):
    async with (
        CuttingProxy.run(own_cluster.members[0].port) as proxy,
        EtcdStorage(proxy.url, timeout=2.0, compaction=None) as storage,
    ):
        await storage.put("/a", b"1", expected=0)
        async with storage.watch("/", after=storage.revision) as watch:
            proxy.swallows = True
            write = asyncio.ensure_future(storage.put("/a", b"2", expected=None))
            await asyncio.sleep(0.3)
            proxy.swallows = False
            proxy.cut()
            with pytest.raises(UnknownOutcome, match="read it before you write it again"):
                await write
            changes = await asyncio.wait_for(anext(aiter(watch)), 20)
            assert [(change.key, change.after and change.after.value) for change in changes] == [("/a", b"2")]
            item = storage.get_nowait("/a")
            assert item is not None
            assert item.version == 2, "it was sent once"


async def test_watches_go_on_after_a_cut_connection_without_a_gap_or_a_duplicate(own_cluster: EtcdCluster):
    async with (
        CuttingProxy.run(own_cluster.members[0].port) as proxy,
        EtcdStorage(own_cluster.endpoints, compaction=None) as other,
        EtcdStorage(proxy.url, compaction=None) as storage,
        storage.watch("/", after=storage.revision) as watch,
    ):
        for number in range(60):
            await other.put(f"/{number}", b"", expected=0)
            if number % 20 == 10:
                proxy.cut()
        assert await keys_from(watch, "/59") == [f"/{number}" for number in range(60)]


async def test_what_was_compacted_while_the_connection_was_lost_becomes_its_differences(own_cluster: EtcdCluster):
    async with (
        CuttingProxy.run(own_cluster.members[0].port) as proxy,
        EtcdStorage(own_cluster.endpoints, compaction=None) as other,
        EtcdStorage(proxy.url, compaction=None) as storage,
    ):
        for key in ("/changed", "/deleted", "/recreated", "/same"):
            await other.put(key, b"1", expected=0)
        await storage.wait_current()
        start = storage.revision
        async with storage.watch("/", after=start) as watch:
            proxy.refuses = True
            proxy.cut()
            for value in (b"2", b"3"):
                await other.put("/changed", value, expected=None)
            await other.delete("/deleted", expected=None)
            await other.delete("/recreated", expected=None)
            await other.put("/recreated", b"2", expected=0)
            await other.put("/new", b"1", expected=0)
            await other.compact(other.revision)
            proxy.refuses = False
            await until(lambda: storage.revision >= other.revision)
            changes: list[Change] = []
            while len(changes) < 5:
                changes += await asyncio.wait_for(anext(aiter(watch)), 20)
        seen = sorted((change.key, change.before is not None, change.after is not None) for change in changes)
        assert seen == [
            ("/changed", True, True),
            ("/deleted", True, False),
            ("/new", False, True),
            ("/recreated", False, True),
            ("/recreated", True, False),
        ]
        assert storage.list_nowait("/").items == other.list_nowait("/").items
        assert len(storage.list_nowait("/", revision=start).items) == 4
        with pytest.raises(Expired, match="not known any more"):
            storage.list_nowait("/", revision=start + 2)


@pytest.mark.parametrize("who", ["leader", "follower"])
@pytest.mark.parametrize("how", ["kill", "pause"])
async def test_the_loss_of_one_of_three_members_loses_no_acknowledged_write(
    three_members: EtcdCluster, who: str, how: str
):
    leader = await asyncio.to_thread(three_members.leader)
    first = next(member for member in three_members.members if (member is leader) == (who == "leader"))
    # The one that fails is the one that is used.
    others = [member for member in three_members.members if member is not first]
    endpoints = ",".join(member.url for member in (first, *others))
    async with EtcdStorage(endpoints, timeout=2.0, compaction=None) as storage:
        async with storage.watch("/", after=storage.revision) as watch:
            acknowledged = await _write_while(storage, lambda: asyncio.to_thread(getattr(first, how)))
            await until(lambda: storage.find_write_problem() is None)
            await put_until_it_works(storage, "/last")
            seen = await keys_from(watch, "/last")
        assert len(seen) == len(set(seen))
        assert set(acknowledged) <= set(seen)
        async with EtcdStorage(",".join(member.url for member in others), compaction=None) as fresh:
            assert {item.key for item in fresh.list_nowait("/").items} == set(seen)
        if how == "pause":
            first.resume()


async def _write_while(storage: EtcdStorage, fail: Callable[[], Awaitable[None]]) -> list[str]:
    """Writes with eight writers, and lets something fail in between; returns the acknowledged keys."""
    acknowledged: list[str] = []
    is_over = asyncio.Event()

    async def write(writer: int) -> None:
        number = 0
        while not is_over.is_set():
            key, number = f"/{writer}-{number}", number + 1
            try:
                await storage.put(key, b"x", expected=0)
            except ServerFailed:
                await asyncio.sleep(0.02)
            else:
                acknowledged.append(key)

    writers = [asyncio.ensure_future(write(number)) for number in range(8)]
    await asyncio.sleep(0.5)
    await fail()
    before = len(acknowledged)
    await until(lambda: len(acknowledged) > before + 100, within=30)
    is_over.set()
    await asyncio.gather(*writers)
    return acknowledged


async def test_an_etcd_that_was_restored_from_an_older_copy_is_refused(own_cluster: EtcdCluster, empty: EtcdCluster):
    async with (
        CuttingProxy.run(own_cluster.members[0].port) as proxy,
        EtcdStorage(proxy.url, compaction=None, timeout=1.0) as storage,
    ):
        for number in range(20):
            await storage.put(f"/{number}", b"", expected=0)
        proxy.target = empty.members[0].port
        proxy.cut()
        await until(lambda: "restored from an older copy" in (storage.find_write_problem() or ""))
        assert storage.count_nowait("/") == 20
