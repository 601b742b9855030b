"""The promises of a storage's watches; a part of `levelset.testing.contracts`."""

import asyncio
from collections.abc import Awaitable, Callable

from levelset.errors import Expired
from levelset.storage import FutureRevision, Storage
from levelset.testing.contract_tools import expect, raises, take, write

__all__ = [
    "WATCH_CONTRACT",
    "a_stalled_watcher_delays_nobody",
    "a_watch_from_the_future_is_refused",
    "a_watch_sees_its_prefix_only",
    "a_watch_tells_what_was_before_and_after",
    "a_watcher_that_fell_behind_a_compaction_is_told",
    "an_acknowledged_write_is_there_for_reads_and_watches",
    "cancelling_a_reader_leaves_nothing_behind",
    "closing_a_watch_ends_its_reader",
    "closing_the_storage_ends_its_watches",
    "history_goes_over_into_live_without_gap_or_duplicate",
]


async def a_watch_tells_what_was_before_and_after(storage: Storage) -> None:
    start = storage.revision
    async with storage.watch("/", after=start) as watch:
        first = await storage.put("/a", b"1", expected=0)
        second = await storage.put("/a", b"2", expected=None)
        await storage.delete("/a", expected=None)
        changes = await take(watch, 3)
    seen = [(change.revision, change.key, change.before, change.after) for change in changes]
    wanted = [(start + 1, "/a", None, first), (start + 2, "/a", first, second), (start + 3, "/a", second, None)]
    expect(seen, wanted, "the changes of a key")


async def a_watch_sees_its_prefix_only(storage: Storage) -> None:
    start = storage.revision
    prefixes = ["", "/r/", "/r/pods/", "/r/pods/a/", "/r/pods/a/1", "/r/pods/b/", "/r/po"]
    keys = ["/r/pods/a/1", "/r/pods/b/1", "/r/podsets/a/1", "/r/pods/a/10", "/r/pods/a", "/q", "/r/pods/b/2"]
    watches = [storage.watch(prefix, after=start) for prefix in prefixes]
    await write(storage, *keys)
    for prefix, watch in zip(prefixes, watches, strict=True):
        async with watch:
            wanted = [key for key in keys if key.startswith(prefix)]
            changes = await take(watch, len(wanted))
        expect([change.key for change in changes], wanted, f"the changes under {prefix!r}")


async def history_goes_over_into_live_without_gap_or_duplicate(storage: Storage) -> None:
    start, total = storage.revision, 120

    async def write_on() -> None:
        for number in range(total):
            await storage.put(f"/{number % 7}", b"", expected=None)
            await asyncio.sleep(0)

    async def follow(turns: int) -> list[int]:
        for _ in range(turns):
            await asyncio.sleep(0)
        after = start + (storage.revision - start) // 2
        async with storage.watch("/", after=after) as watch:
            changes = await take(watch, start + total - after)
        expect(changes[0].revision, after + 1, "the first change of a late watcher")
        return [change.revision for change in changes]

    late = asyncio.gather(*(follow(turns) for turns in range(0, 200, 20)))
    await write_on()
    for seen in await late:
        expect(seen, list(range(seen[0], start + total + 1)), "the revisions of a late watcher")


async def an_acknowledged_write_is_there_for_reads_and_watches(storage: Storage) -> None:
    async with storage.watch("/", after=storage.revision) as watch:
        for number in range(10):
            item = await storage.put("/a", b"%d" % number, expected=None)
            expect((await storage.get("/a"), storage.revision), (item, item.revision), "a read after the write")
            [change] = await take(watch, 1)
            expect((change.after, watch.revision), (item, item.revision), "the watch after the write")


async def a_stalled_watcher_delays_nobody(storage: Storage) -> None:
    start = storage.revision
    async with storage.watch("/", after=start) as stalled, storage.watch("/", after=start) as reading:
        await storage.put("/a", b"", expected=None)
        await take(stalled, 1)
        for number in range(200):
            await storage.put(f"/{number}", b"x" * 1000, expected=0)
            if number % 10 == 9:
                await take(reading, 11 if number == 9 else 10)
        expect(reading.revision, storage.revision, "how far the reading watcher is")
        expect(stalled.revision, start + 1, "how far the stalled watcher is")
        late = await take(stalled, 200)
        expect([change.revision for change in late], list(range(start + 2, start + 202)), "what the stalled one missed")


async def a_watcher_that_fell_behind_a_compaction_is_told(storage: Storage) -> None:
    start = storage.revision
    async with storage.watch("/", after=start) as behind, storage.watch("/", after=start) as ahead:
        await write(storage, "/a", "/b", "/c")
        await take(ahead, 3)
        await storage.compact(start + 2)
        with raises(Expired):
            await take(behind, 1)
        await write(storage, "/d")
        expect([change.key for change in await take(ahead, 1)], ["/d"], "a watcher that was not behind")


async def a_watch_from_the_future_is_refused(storage: Storage) -> None:
    with raises(FutureRevision):
        async with storage.watch("/", after=storage.revision + 1) as watch:
            await anext(watch)


async def cancelling_a_reader_leaves_nothing_behind(storage: Storage) -> None:
    tasks = asyncio.all_tasks()
    async with storage.watch("/", after=storage.revision) as watch:
        seen: list[str] = []
        for turns in range(5):
            reader = asyncio.ensure_future(take(watch, 1))
            await asyncio.sleep(0)
            write = asyncio.ensure_future(storage.put(f"/{turns}", b"", expected=0))
            for _ in range(turns):
                await asyncio.sleep(0)
            reader.cancel()
            await asyncio.wait([reader, write])
            # It may have been too late to cancel: then the reader has the change, and nobody else gets it.
            changes = await take(watch, 1) if reader.cancelled() else reader.result()
            seen += [change.key for change in changes]
        expect(seen, [f"/{turns}" for turns in range(5)], "the changes around cancelled readers")
    expect(asyncio.all_tasks() - tasks, set[object](), "tasks left behind")


async def closing_a_watch_ends_its_reader(storage: Storage) -> None:
    watch = storage.watch("/", after=storage.revision)
    reader = asyncio.ensure_future(anext(watch, None))
    await asyncio.sleep(0)
    await watch.close()
    expect(await reader, None, "the reader of a closed watch")
    await watch.close()
    await write(storage, "/a")
    expect(await anext(watch, None), None, "a closed watch")


async def closing_the_storage_ends_its_watches(storage: Storage) -> None:
    watches = [storage.watch(prefix, after=storage.revision) for prefix in ("/a", "/a", "/b/")]
    readers = [asyncio.ensure_future(anext(watch, None)) for watch in watches]
    await asyncio.sleep(0)
    await storage.close()
    expect(await asyncio.gather(*readers), [None, None, None], "the readers of a closed storage")
    await storage.close()


WATCH_CONTRACT: tuple[Callable[[Storage], Awaitable[None]], ...] = (
    a_watch_tells_what_was_before_and_after,
    a_watch_sees_its_prefix_only,
    history_goes_over_into_live_without_gap_or_duplicate,
    an_acknowledged_write_is_there_for_reads_and_watches,
    a_stalled_watcher_delays_nobody,
    a_watcher_that_fell_behind_a_compaction_is_told,
    a_watch_from_the_future_is_refused,
    cancelling_a_reader_leaves_nothing_behind,
    closing_a_watch_ends_its_reader,
    closing_the_storage_ends_its_watches,
)
