import asyncio
import gc
import threading
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from levelset.apiserver.resources.served_resource import ServedResource
from levelset.apiserver.resources.server_state import ServerState
from levelset.apiserver.verbs import commit
from levelset.apiserver.verbs.commit import WriteResult
from levelset.storage import Mismatch, SqliteStorage
from tests.apiserver.support.server_state import HeldStorage, make_state, widget


class Writes:
    """A state whose storage commits in groups, with the events of its listeners and what asyncio complains about."""

    def __init__(self, storage: SqliteStorage) -> None:
        self.storage = storage
        self.state, self.served = make_state(storage=storage)
        self.events: list[Any] = []
        self.state.listeners.append(lambda _, before, after: self.events.append((before is None, after)))
        self.complaints: list[Any] = []
        asyncio.get_running_loop().set_exception_handler(lambda _, context: self.complaints.append(context))

    def put(self, name: str) -> "asyncio.Task[WriteResult]":
        return asyncio.ensure_future(put(self.state, self.served, name))


async def put(state: ServerState, served: ServedResource, name: str) -> WriteResult:
    return await commit.write(state, served, served.key("x", name), widget(name))


@pytest.fixture
async def writes(tmp_path: Path) -> AsyncIterator[Writes]:
    async with await SqliteStorage.open(tmp_path / "data.db") as storage:
        yield Writes(storage)


async def test_writes_of_disconnected_clients_still_notify_listeners(writes: Writes) -> None:
    item = (await writes.put("a")).item
    assert item is not None
    ending = widget(deletionTimestamp="2026-01-01T00:00:00Z")
    remove = commit.write(writes.state, writes.served, item.key, ending, item=item, old=widget())
    tasks: list[asyncio.Future[Any]] = [writes.put("b"), asyncio.ensure_future(remove)]
    await asyncio.sleep(0)
    for task in tasks:
        task.cancel()
    ends = await asyncio.gather(*tasks, return_exceptions=True)
    assert [type(end) for end in ends] == [asyncio.CancelledError] * 2
    (_, first), (_, second), removal = writes.events
    assert [one["metadata"]["resourceVersion"] for one in (first, second)] == ["1", "2"]
    assert removal == (False, None)


async def test_a_write_that_is_cancelled_several_times_ends_after_its_commit(writes: Writes) -> None:
    gate = threading.Event()
    writes.storage._writer.submit(lambda _: gate.wait(), lambda _: None)
    write = writes.put("a")
    for _ in range(3):
        await asyncio.sleep(0)
        write.cancel()
    assert (write.done(), writes.events) == (False, [])
    gate.set()
    with pytest.raises(asyncio.CancelledError):
        await write
    assert (writes.storage.revision, len(writes.events)) == (1, 1)


async def test_a_timeout_during_a_commit_is_a_timeout_after_it(writes: Writes) -> None:
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0):
            await put(writes.state, writes.served, "a")
    assert len(writes.events) == 1


async def test_a_failed_write_of_a_disconnected_client_is_silent_and_notifies_no_listener(writes: Writes) -> None:
    winner = writes.storage.start_write(writes.served.key("x", "a"), b"{}", expected=0)
    write = writes.put("a")
    await asyncio.sleep(0)
    write.cancel()
    with pytest.raises(asyncio.CancelledError):
        await write
    del write
    gc.collect()
    assert (winner.done(), writes.events, writes.complaints) == (True, [], [])


@pytest.mark.parametrize("outcome", ["committed", "refused", "cancelled"])
async def test_unique_values_are_reserved_until_the_write_ends(outcome: str) -> None:
    storage = HeldStorage()
    state, served = make_state(storage=storage)
    if outcome == "refused":
        await put(state, served, "a")
    log: list[str] = []

    def reserve(tree: Any) -> Any:
        log.append("reserved")
        return lambda: log.append("released")

    state.reservers[served.prefix] = reserve
    state.listeners.append(lambda *_: log.append("notified"))
    held = storage.hold(served.key("x", "a"))
    write = asyncio.ensure_future(put(state, served, "a"))
    await asyncio.sleep(0)
    assert log == ["reserved"]
    if outcome == "cancelled":
        write.cancel()
    held.set()
    [end] = await asyncio.gather(write, return_exceptions=True)
    assert type(end) is {"committed": WriteResult, "refused": Mismatch, "cancelled": asyncio.CancelledError}[outcome]
    assert log == ["reserved", *(["notified"] if outcome == "committed" else []), "released"]
