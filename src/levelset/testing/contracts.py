"""The promises of `levelset.storage.Storage`, as checks that any backend's author can run.

With pytest, one test per promise:

```python
@pytest.mark.parametrize("check", STORAGE_CONTRACT, ids=lambda check: check.__name__)
async def test_the_contract(check):
    async with MyStorage() as storage:
        await check(storage)
```

Without, all of them: `await check_storage(MyStorage)`. Every check wants an empty storage of its own, and raises
`AssertionError` with a sentence where a promise is broken.
"""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager

from levelset.errors import Expired, NotFound
from levelset.storage import FutureRevision, Item, Mismatch, Storage
from levelset.testing.contract_tools import expect, keys_of, raises, write
from levelset.testing.watch_contract import WATCH_CONTRACT

__all__ = [
    "STORAGE_CONTRACT",
    "Check",
    "a_deletion_has_a_revision_of_its_own",
    "a_prefix_takes_what_starts_with_it_and_nothing_else",
    "a_read_at_a_revision_sees_that_moment",
    "a_refused_write_changes_nothing_and_says_what_is_there",
    "a_revision_in_the_future_is_refused",
    "an_item_knows_when_it_was_made_and_written",
    "any_bytes_come_back_unchanged",
    "check_storage",
    "every_write_moves_the_revision_by_one",
    "keys_come_in_the_order_of_their_bytes",
    "of_many_writers_exactly_one_wins",
    "pages_at_one_revision_do_not_see_later_writes",
    "pages_follow_one_another",
    "what_is_compacted_is_expired",
    "writers_that_try_again_lose_no_update",
]

Check = Callable[[Storage], Awaitable[None]]


async def check_storage(open_storage: Callable[[], AbstractAsyncContextManager[Storage]]) -> None:
    """Runs every check of the contract on a storage of its own."""
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


async def an_item_knows_when_it_was_made_and_written(storage: Storage) -> None:
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


async def a_refused_write_changes_nothing_and_says_what_is_there(storage: Storage) -> None:
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


async def a_prefix_takes_what_starts_with_it_and_nothing_else(storage: Storage) -> None:
    await write(storage, "/r/pods/a/1", "/r/pods/a/2", "/r/pods/ab/1", "/r/pods/b/1", "/r/podsets/a/1", "/r/pods")
    for prefix, number in {"/r/pods/a/": 2, "/r/pods/a": 3, "/r/pods/": 4, "/r/pods": 6, "/x": 0, "": 6}.items():
        page = await storage.list(prefix)
        expect(len(page.items), number, f"items under {prefix!r}")
        expect(all(item.key.startswith(prefix) for item in page.items), True, f"keys under {prefix!r}")
        expect(await storage.count(prefix), number, f"count of {prefix!r}")
        expect((page.more, page.remaining, page.revision), (False, 0, storage.revision), f"page of {prefix!r}")


async def pages_follow_one_another(storage: Storage) -> None:
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


async def a_read_at_a_revision_sees_that_moment(storage: Storage) -> None:
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


async def what_is_compacted_is_expired(storage: Storage) -> None:
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


async def writers_that_try_again_lose_no_update(storage: Storage) -> None:
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
    an_item_knows_when_it_was_made_and_written,
    any_bytes_come_back_unchanged,
    a_refused_write_changes_nothing_and_says_what_is_there,
    a_deletion_has_a_revision_of_its_own,
    keys_come_in_the_order_of_their_bytes,
    a_prefix_takes_what_starts_with_it_and_nothing_else,
    pages_follow_one_another,
    pages_at_one_revision_do_not_see_later_writes,
    a_read_at_a_revision_sees_that_moment,
    a_revision_in_the_future_is_refused,
    what_is_compacted_is_expired,
    of_many_writers_exactly_one_wins,
    writers_that_try_again_lose_no_update,
    *WATCH_CONTRACT,
)
