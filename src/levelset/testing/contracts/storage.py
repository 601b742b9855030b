"""Conformance checks for implementations of `levelset.storage.Storage`.

With pytest, one test per check:

```python
@pytest.mark.parametrize("check", STORAGE_CONTRACT, ids=lambda check: check.__name__)
async def test_the_contract(check):
    async with MyStorage() as storage:
        await check(storage)
```

Without pytest, all of them: `await check_storage(MyStorage)`. Every check needs an empty storage of its own, and raises
`AssertionError` with a sentence if the storage violates the contract. `WATCH_CONTRACT` holds the checks of watches.
"""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager

from levelset.errors import Expired, NotFound
from levelset.storage import FutureRevision, Item, Mismatch, Storage
from levelset.testing.contracts.assertions import expect, keys_of, raises, take, write

__all__ = [
    "STORAGE_CONTRACT",
    "WATCH_CONTRACT",
    "Check",
    "a_deletion_has_a_revision_of_its_own",
    "a_prefix_selects_exactly_the_keys_that_start_with_it",
    "a_read_at_a_revision_returns_the_state_of_that_revision",
    "a_read_below_the_compacted_revision_is_expired",
    "a_refused_write_changes_nothing_and_returns_the_current_item",
    "a_revision_in_the_future_is_refused",
    "a_stalled_watcher_does_not_delay_others",
    "a_watch_delivers_the_item_before_and_after_each_change",
    "a_watch_from_the_future_is_refused",
    "a_watch_sees_its_prefix_only",
    "a_watcher_behind_a_compaction_gets_expired",
    "an_acknowledged_write_is_visible_to_reads_and_watches",
    "an_item_has_its_create_and_mod_revision",
    "any_bytes_come_back_unchanged",
    "cancelling_a_reader_leaves_nothing_behind",
    "check_storage",
    "closing_a_watch_ends_its_reader",
    "closing_the_storage_ends_its_watches",
    "every_write_moves_the_revision_by_one",
    "history_continues_into_live_changes_without_gap_or_duplicate",
    "keys_come_in_the_order_of_their_bytes",
    "of_many_writers_exactly_one_wins",
    "pages_at_one_revision_do_not_see_later_writes",
    "pages_continue_after_the_last_key",
    "writers_that_retry_lose_no_update",
]


async def a_watch_delivers_the_item_before_and_after_each_change(storage: Storage) -> None:
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


async def history_continues_into_live_changes_without_gap_or_duplicate(storage: Storage) -> None:
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


async def an_acknowledged_write_is_visible_to_reads_and_watches(storage: Storage) -> None:
    async with storage.watch("/", after=storage.revision) as watch:
        for number in range(10):
            item = await storage.put("/a", b"%d" % number, expected=None)
            expect((await storage.get("/a"), storage.revision), (item, item.revision), "a read after the write")
            [change] = await take(watch, 1)
            expect((change.after, watch.revision), (item, item.revision), "the watch after the write")


async def a_stalled_watcher_does_not_delay_others(storage: Storage) -> None:
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


async def a_watcher_behind_a_compaction_gets_expired(storage: Storage) -> None:
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
            # It may have been too late to cancel: then the reader has the change, and the next read does not get it.
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
    a_watch_delivers_the_item_before_and_after_each_change,
    a_watch_sees_its_prefix_only,
    history_continues_into_live_changes_without_gap_or_duplicate,
    an_acknowledged_write_is_visible_to_reads_and_watches,
    a_stalled_watcher_does_not_delay_others,
    a_watcher_behind_a_compaction_gets_expired,
    a_watch_from_the_future_is_refused,
    cancelling_a_reader_leaves_nothing_behind,
    closing_a_watch_ends_its_reader,
    closing_the_storage_ends_its_watches,
)


Check = Callable[[Storage], Awaitable[None]]


async def check_storage(open_storage: Callable[[], AbstractAsyncContextManager[Storage]]) -> None:
    """Runs every check of the contract, each on a new storage."""
    for check in STORAGE_CONTRACT:
        async with open_storage() as storage:
            await check(storage)


async def every_write_moves_the_revision_by_one(storage: Storage) -> None:
    start = storage.revision
    first = await storage.put("/a", b"1", expected=0)
    second = await storage.put("/b", b"1", expected=None)
    third = await storage.put("/a", b"1", expected=first.revision)
    gone = await storage.delete("/b", expected=second.revision)
    seen = [first.revision, second.revision, third.revision, gone.revision, storage.revision]
    expect(seen, [start + 1, start + 2, start + 3, start + 4, start + 4], "revisions")


async def an_item_has_its_create_and_mod_revision(storage: Storage) -> None:
    start = storage.revision
    await storage.put("/a", b"1", expected=0)
    item = await storage.put("/a", b"2", expected=start + 1)
    expect(item, Item("/a", b"2", start + 2, start + 1, 2), "the second version")
    expect(await storage.get("/a"), item, "what is read is what was written")
    await storage.delete("/a", expected=None)
    expect(await storage.get("/a"), None, "a deleted key")
    again = await storage.put("/a", b"3", expected=0)
    expect(again, Item("/a", b"3", start + 4, start + 4, 1), "a key that is made again has a new beginning")


async def any_bytes_come_back_unchanged(storage: Storage) -> None:
    for value in (b"", b"\0", bytes(range(256)), b"x" * 100_000):
        await storage.put("/a", value, expected=None)
        item = await storage.get("/a")
        expect(item and item.value, value, "the value")


async def a_refused_write_changes_nothing_and_returns_the_current_item(storage: Storage) -> None:
    old = await storage.put("/a", b"1", expected=0)
    new = await storage.put("/a", b"2", expected=old.revision)
    for expected in (0, old.revision, new.revision + 100):
        with raises(Mismatch) as caught:
            await storage.put("/a", b"3", expected=expected)
        expect(caught.error.current, new, "a refused put's current item")
    with raises(Mismatch) as caught:
        await storage.delete("/a", expected=old.revision)
    expect(caught.error.current, new, "a refused deletion's current item")
    with raises(Mismatch) as caught:
        await storage.put("/b", b"3", expected=new.revision)
    expect(caught.error.current, None, "the current item of a missing key")
    expect((storage.revision, await storage.get("/a")), (new.revision, new), "the store after refused writes")


async def a_deletion_has_a_revision_of_its_own(storage: Storage) -> None:
    item = await storage.put("/a", b"1", expected=0)
    change = await storage.delete("/a", expected=item.revision)
    expect((change.revision, change.key), (item.revision + 1, "/a"), "the deletion")
    expect((change.before, change.after), (item, None), "what a deletion removes")
    with raises(NotFound):
        await storage.delete("/a", expected=None)
    with raises(Mismatch) as caught:
        await storage.delete("/a", expected=item.revision)
    expect(caught.error.current, None, "deleting what is gone")


async def keys_come_in_the_order_of_their_bytes(storage: Storage) -> None:
    keys = [
        "/a",
        "/a-b",
        "/a/",
        "/a/b",
        "/a/b-c",
        "/a/b/c",
        "/a/b0",
        "/a0",
        "/b/A",
        "/b/a",
        "/é",
        "/\uffee",
        "/\U0001f600",
    ]
    await write(storage, *reversed(keys))
    expect(keys_of(await storage.list("")), keys, "all keys")
    for limit in (1, 2, 5):
        page = await storage.list("", limit=limit, after="/a-b")
        expect(keys_of(page), keys[2 : 2 + limit], "keys after /a-b")


async def a_prefix_selects_exactly_the_keys_that_start_with_it(storage: Storage) -> None:
    await write(storage, "/r/pods/a/1", "/r/pods/a/2", "/r/pods/ab/1", "/r/pods/b/1", "/r/podsets/a/1", "/r/pods")
    for prefix, number in {"/r/pods/a/": 2, "/r/pods/a": 3, "/r/pods/": 4, "/r/pods": 6, "/x": 0, "": 6}.items():
        page = await storage.list(prefix)
        expect(len(page.items), number, f"items under {prefix!r}")
        expect(all(item.key.startswith(prefix) for item in page.items), True, f"keys under {prefix!r}")
        expect(await storage.count(prefix), number, f"count of {prefix!r}")
        expect((page.more, page.remaining, page.revision), (False, 0, storage.revision), f"page of {prefix!r}")


async def pages_continue_after_the_last_key(storage: Storage) -> None:
    keys = [f"/p/{space}/{number:02}" for space in "abc" for number in range(7)]
    await write(storage, *keys)
    found: list[str] = []
    after = None
    for start in range(0, 21, 4):
        page = await storage.list("/p/", limit=4, after=after)
        found += keys_of(page)
        expect((page.remaining, page.more), (max(0, 17 - start), start < 17), "what remains")
        after = found[-1]
    expect(found, keys, "all pages together")
    expect(keys_of(await storage.list("/p/", limit=4, after=after)), [], "the page after the last")


async def pages_at_one_revision_do_not_see_later_writes(storage: Storage) -> None:
    keys = [f"/p/{number:02}" for number in range(0, 20, 2)]
    await write(storage, *keys)
    page = await storage.list("/p/", limit=3)
    moment, found, remaining = page.revision, keys_of(page), [page.remaining]
    while page.more:
        last = found[-1]
        await storage.put(last + "-new", b"", expected=0)
        await storage.put(keys[-1], b"changed", expected=None)
        await storage.delete(found[0], expected=None)
        await storage.put(found[0], b"again", expected=0)
        if await storage.get(keys[-2]):
            await storage.delete(keys[-2], expected=None)
        page = await storage.list("/p/", limit=3, after=last, revision=moment)
        found += keys_of(page)
        remaining.append(page.remaining)
        expect({item.value for item in page.items}, {b""}, "values at the first page's revision")
        expect(page.revision, moment, "the revision of a later page")
    expect((found, remaining), (keys, [7, 4, 1, 0]), "the keys of the first page's revision")


async def a_read_at_a_revision_returns_the_state_of_that_revision(storage: Storage) -> None:
    start = storage.revision
    first = await storage.put("/a", b"1", expected=0)
    second = await storage.put("/a", b"2", expected=None)
    await storage.delete("/a", expected=None)
    await storage.put("/b", b"1", expected=0)
    moments = [await storage.get("/a", revision=start + step) for step in range(5)]
    expect(moments, [None, first, second, None, None], "the lives of a key")
    lists = [keys_of(await storage.list("/", revision=start + step)) for step in range(5)]
    expect(lists, [[], ["/a"], ["/a"], [], ["/b"]], "the lives of a list")
    counts = [await storage.count("/", revision=start + step) for step in range(5)]
    expect(counts, [0, 1, 1, 0, 1], "the lives of a count")


async def a_revision_in_the_future_is_refused(storage: Storage) -> None:
    await write(storage, "/a")
    later = storage.revision + 1
    for read in (
        storage.get("/a", revision=later),
        storage.list("/", revision=later),
        storage.count("/", revision=later),
    ):
        with raises(FutureRevision):
            await read
    with raises(FutureRevision):
        await storage.compact(later)


async def a_read_below_the_compacted_revision_is_expired(storage: Storage) -> None:
    await write(storage, "/a", "/b", "/c", "/d")
    moment = storage.revision - 1
    await storage.compact(moment)
    expect(storage.compacted, moment, "the compacted revision")
    before = moment - 1
    for read in (
        storage.get("/a", revision=before),
        storage.list("/", revision=before),
        storage.count("/", revision=before),
    ):
        with raises(Expired):
            await read
    with raises(Expired):
        async with storage.watch("/", after=before) as watch:
            await anext(watch)
    expect(keys_of(await storage.list("/", revision=moment)), ["/a", "/b", "/c"], "the compacted revision itself")
    await storage.compact(before)
    expect((storage.compacted, storage.revision), (moment, moment + 1), "compacting what is compacted")
    item = await storage.put("/a", b"", expected=None)
    expect(item.revision, moment + 2, "the revision after a compaction")


async def of_many_writers_exactly_one_wins(storage: Storage) -> None:
    async def attempt(number: int, expected: int) -> bool:
        try:
            await storage.put("/a", b"%d" % number, expected=expected)
        except Mismatch:
            return False
        return True

    expected = 0
    for _ in range(5):
        won = await asyncio.gather(*(attempt(number, expected) for number in range(10)))
        expect(sum(won), 1, "winners among ten writers")
        item = await storage.get("/a")
        expect(item and item.value, b"%d" % won.index(True), "the winner's value")
        expected = storage.revision


async def writers_that_retry_lose_no_update(storage: Storage) -> None:
    await storage.put("/a", b"0", expected=0)

    async def add_one() -> None:
        while True:
            item = await storage.get("/a")
            assert item is not None
            try:
                await storage.put("/a", b"%d" % (int(item.value) + 1), expected=item.revision)
            except Mismatch:
                continue
            return

    await asyncio.gather(*(add_one() for _ in range(20)))
    item = await storage.get("/a")
    expect(item and item.value, b"20", "twenty additions")


STORAGE_CONTRACT: tuple[Check, ...] = (
    every_write_moves_the_revision_by_one,
    an_item_has_its_create_and_mod_revision,
    any_bytes_come_back_unchanged,
    a_refused_write_changes_nothing_and_returns_the_current_item,
    a_deletion_has_a_revision_of_its_own,
    keys_come_in_the_order_of_their_bytes,
    a_prefix_selects_exactly_the_keys_that_start_with_it,
    pages_continue_after_the_last_key,
    pages_at_one_revision_do_not_see_later_writes,
    a_read_at_a_revision_returns_the_state_of_that_revision,
    a_revision_in_the_future_is_refused,
    a_read_below_the_compacted_revision_is_expired,
    of_many_writers_exactly_one_wins,
    writers_that_retry_lose_no_update,
    *WATCH_CONTRACT,
)
