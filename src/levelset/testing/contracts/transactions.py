"""Conformance checks for storages with transactions over several keys: `levelset.storage.TransactionalStorage`.

Used as those of `levelset.testing.contracts.storage`. Several API servers can use one storage only if it passes them.
"""

import asyncio
from typing import Protocol

from levelset.errors import NotFound
from levelset.storage import Change, Conditions, Mismatch, Storage, TransactionalStorage
from levelset.testing.contracts.assertions import expect, raises, take

__all__ = [
    "TRANSACTION_CONTRACT",
    "a_claim_belongs_to_the_first_writer",
    "a_guard_at_another_revision_refuses_the_write",
    "a_listener_gets_each_change_before_the_writer_gets_its_result",
    "a_release_removes_its_key_with_the_write",
    "a_watch_sees_the_changes_of_a_transaction",
    "of_many_claimants_exactly_one_wins",
]


class _Both(Storage, TransactionalStorage, Protocol):
    """A storage with transactions."""


async def a_claim_belongs_to_the_first_writer(storage: _Both) -> None:
    first = await storage.transact("/a", b"1", expected=0, conditions=Conditions(claims={"/claim": b"a"}))
    with raises(Mismatch) as lost:
        await storage.transact("/b", b"1", expected=0, conditions=Conditions(claims={"/claim": b"b"}))
    expect(
        (lost.error.key, lost.error.current and lost.error.current.value), ("/claim", b"a"), "the reason of the refusal"
    )
    expect(await storage.get("/b"), None, "the object of the writer that lost")
    found = await storage.get("/a")
    expect(found, first.after, "the object of the writer that won")
    expect(storage.revision, found and found.revision, "the newest revision is that of the object")


async def a_guard_at_another_revision_refuses_the_write(storage: _Both) -> None:
    guard = await storage.put("/guard", b"1", expected=0)
    conditions = Conditions(guards={"/guard": guard.revision, "/none": 0})
    await storage.transact("/a", b"1", expected=0, conditions=conditions)
    newer = await storage.put("/guard", b"2", expected=guard.revision)
    with raises(Mismatch) as lost:
        await storage.transact("/b", b"1", expected=0, conditions=conditions)
    expect((lost.error.key, lost.error.current), ("/guard", newer), "the reason of the refusal")
    await storage.delete("/guard", expected=None)
    with raises(Mismatch) as lost:
        await storage.transact("/b", b"1", expected=0, conditions=conditions)
    expect((lost.error.key, lost.error.current), ("/guard", None), "the reason when the key is gone")
    with raises(Mismatch) as lost:
        await storage.transact("/a", b"2", expected=0, conditions=Conditions(guards={"/x": 1}))
    expect(lost.error.key, "/a", "the key of the write itself is named first")


async def a_release_removes_its_key_with_the_write(storage: _Both) -> None:
    made = await storage.transact("/a", b"1", expected=0, conditions=Conditions(claims={"/one": b"", "/two": b""}))
    change = Conditions(claims={"/three": b""}, releases=["/one", "/absent"])
    await storage.transact("/a", b"2", expected=made.revision, conditions=change)
    found = [await storage.get(key) is not None for key in ("/one", "/two", "/three")]
    expect(found, [False, True, True], "the claims after the change")
    removed = await storage.transact("/a", None, expected=None, conditions=Conditions(releases=["/two", "/three"]))
    expect((removed.after, await storage.count("/")), (None, 0), "what is left after the deletion")
    with raises(NotFound):
        await storage.transact("/a", None, expected=None, conditions=Conditions(releases=["/two"]))


async def of_many_claimants_exactly_one_wins(storage: _Both) -> None:
    async def attempt(number: int) -> bool:
        claims = Conditions(claims={"/claim": b"%d" % number})
        try:
            await storage.transact(f"/{number}", b"", expected=0, conditions=claims)
        except Mismatch as error:
            expect(error.key, "/claim", "the key that another writer has")
            return False
        return True

    won = await asyncio.gather(*map(attempt, range(20)))
    expect(won.count(True), 1, "the number of writers with the claim")
    expect(await storage.count("/"), 2, "the number of keys: an object and its claim")


async def a_watch_sees_the_changes_of_a_transaction(storage: _Both) -> None:
    start = storage.revision
    async with storage.watch("/", after=start) as watch:
        await storage.transact("/a", b"1", expected=0, conditions=Conditions(claims={"/claim": b"a"}))
        changes = await take(watch, 2)
    expect(sorted(change.key for change in changes), ["/a", "/claim"], "the changed keys")
    revisions = [change.revision for change in changes]
    expect(revisions, sorted(revisions), "the order of the changes")


async def a_listener_gets_each_change_before_the_writer_gets_its_result(storage: _Both) -> None:
    changes: list[Change] = []
    end = storage.listen(changes.append)
    made = await storage.put("/a", b"1", expected=0)
    expect([(one.before, one.after) for one in changes], [(None, made)], "what the listener got of a put")
    removed = await storage.delete("/a", expected=None)
    expect(changes[1:], [removed], "what the listener got of a deletion")
    await storage.transact("/a", b"2", expected=0, conditions=Conditions(claims={"/claim": b"a"}))
    expect(sorted(change.key for change in changes[2:]), ["/a", "/claim"], "what the listener got of a transaction")
    end()
    await storage.put("/b", b"", expected=0)
    expect(len(changes), 4, "what the listener got after the end")


TRANSACTION_CONTRACT = (
    a_claim_belongs_to_the_first_writer,
    a_guard_at_another_revision_refuses_the_write,
    a_release_removes_its_key_with_the_write,
    of_many_claimants_exactly_one_wins,
    a_watch_sees_the_changes_of_a_transaction,
    a_listener_gets_each_change_before_the_writer_gets_its_result,
)
