"""One SQLite file as storage: reads from memory, writes in groups, each acknowledged when it is in the file.

A write is checked against the newest accepted version of its key, gets the next revision and waits in the group that
gathers in this turn of the loop, or while the group before is being written. When a group is in the file, it becomes
visible to reads and watches as a whole, and its writers get their answers. If it fails, it never happened, nor what was
built upon it.
"""

import asyncio
import os
import sqlite3
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Self, TypeVar

from levelset.errors import NotFound, ServerFailed
from levelset.storage.history import Limits
from levelset.storage.interface import Change, FutureRevision, Item, Landing, Mismatch
from levelset.storage.landing import Group
from levelset.storage.ledger import planned_delete, planned_put
from levelset.storage.reading import LedgerReads
from levelset.storage.sqlite_file import Durability, open_file, write_group
from levelset.storage.sqlite_log import Log, Way
from levelset.storage.sqlite_writer import Work, Writer

__all__ = ["SqliteStorage"]

T = TypeVar("T")

_ENOUGH = 64  # writes in a group: more of them make none of them cheaper
_ALONE = 8  # groups of one in a row: more are to be expected
_SWEEP = 1_000  # rows removed per commit: compaction must not hold up the writes behind it


class SqliteStorage(LedgerReads):
    """A `Storage` in one file, which is opened (and made) by the constructor; raises `ConfigError`.

    `durability="normal"` survives the end of the process, however violent; a power failure may take the last moments.
    `"full"` survives that too, and waits for the disk with every group of writes.

    ```python
    async with SqliteStorage("levelset.db") as storage:
        made = await storage.put("/registry/core/pods/default/a", b"{}", expected=0)
    ```

    The constructor reads the whole file and blocks; on a running loop, `await SqliteStorage.open(path)`.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        durability: Durability = "normal",
        history_changes: int = 100_000,
        history_bytes: int = 64 * 1024 * 1024,
        history_age: float | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.path = Path(path)
        connection, contents = open_file(self.path, durability)
        super().__init__(
            items=contents.items,
            changes=contents.changes,
            compacted=contents.compacted,
            limits=Limits(changes=history_changes, bytes=history_bytes, age=history_age),
        )
        self._clock = clock
        self._writer = Writer(connection, name=f"levelset storage {self.path.name}")
        self._log = Log(self.path, is_synced=durability == "full")
        if durability == "full":
            self._writer.submit(self._log.reserve, lambda _: None)
        self._swept = contents.swept
        self._head = self.revision
        # The newest accepted version of each key that is not in the file yet, and the group it is in.
        self._pending: dict[str, tuple[Change, Group]] = {}
        self._gathering = Group()
        self._flying: Group | None = None
        self._solitary = 1  # groups of one, one after the other
        self._wrote_this_turn = False
        self._stopped: asyncio.Future[None] | None = None

    @classmethod
    async def open(
        cls,
        path: str | os.PathLike[str],
        *,
        durability: Durability = "normal",
        history_changes: int = 100_000,
        history_bytes: int = 64 * 1024 * 1024,
        history_age: float | None = None,
    ) -> Self:
        """The storage, its file opened and read in a thread, so that the loop does not wait for it."""
        opened = partial(
            cls,
            path,
            durability=durability,
            history_changes=history_changes,
            history_bytes=history_bytes,
            history_age=history_age,
        )
        return await asyncio.to_thread(opened)

    async def put(self, key: str, value: bytes, *, expected: int | None) -> Item:
        """As `Storage.put`; returns when the value is in the file."""
        landing: asyncio.Future[Change] = asyncio.get_running_loop().create_future()
        self._write(key, partial(planned_put, key=key, value=value, expected=expected), landing)
        change = await landing
        assert change.after is not None  # a put's change always has one
        return change.after

    async def delete(self, key: str, *, expected: int | None) -> Change:
        """As `Storage.delete`; returns when the deletion is in the file."""
        landing: asyncio.Future[Change] = asyncio.get_running_loop().create_future()
        self._write(key, partial(planned_delete, key=key, expected=expected), landing)
        return await landing

    def put_landing(self, key: str, value: bytes, *, expected: int | None) -> Landing:
        """As `LandingWriter.put_landing`."""
        landing = Landing()
        self._write(key, partial(planned_put, key=key, value=value, expected=expected), landing)
        return landing

    def delete_landing(self, key: str, *, expected: int | None) -> Landing:
        """As `LandingWriter.delete_landing`."""
        landing = Landing()
        self._write(key, partial(planned_delete, key=key, expected=expected), landing)
        return landing

    async def compact(self, revision: int) -> None:
        """As `Storage.compact`; returns when the file knows it, the rows go little by little."""
        if revision > self.revision:
            raise FutureRevision(revision, self.revision)
        if revision <= self.compacted:
            return
        if self._closed:
            raise self._refusal(f"history up to {revision} was not compacted")
        group = self._gathering
        group.compacted = max(group.compacted, revision)
        landing: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._join(group, landing, None)
        await landing

    async def close(self) -> None:
        """Finishes the writes under way, ends all watches, and releases the file."""
        self._closed = True
        while self._flying is not None or self._gathering.landings:
            await (self._flying or self._gathering).wait_over()
        await super().close()
        if self._stopped is None:
            self._stopped = asyncio.get_running_loop().create_future()
            self._writer.stop(self._reporter(lambda _: _resolve(self._stopped)))
        await asyncio.shield(self._stopped)

    def _write(self, key: str, plan: Callable[..., Change], landing: asyncio.Future[Change]) -> None:
        """Begins a write; cancelling the wait for its landing does not take it back. Raises `Mismatch`, `NotFound`."""
        if self._closed:
            raise self._refusal(f"{key!r} was not written")
        pending = self._pending.get(key)
        current = self._ledger.items.get(key) if pending is None else pending[0].after
        try:
            change = plan(current, revision=self._head + 1)
        except (Mismatch, NotFound):
            if pending is None:
                raise
            # What this write lost against is not visible yet, and may still fail. Answering now would send the
            # loser to read the old version and lose again, for ever if it never lets go of the loop.
            pending[1].when_over(partial(self._write_again, key, plan, landing))
            return
        self._head = change.revision
        group = self._gathering
        group.changes.append(change)
        self._pending[key] = (change, group)
        self._join(group, landing, change)

    def _write_again(self, key: str, plan: Callable[..., Change], landing: asyncio.Future[Change]) -> None:
        if landing.done():  # nobody waits for it any more
            return
        try:
            self._write(key, plan, landing)
        except Exception as error:  # noqa: BLE001 - it is for whoever waits
            landing.set_exception(error)

    def _join(self, group: Group, landing: asyncio.Future[T], outcome: T) -> None:
        group.landings.append((landing, outcome))
        if len(group.landings) > 1:
            return
        if self._solitary < _ALONE or self._wrote_this_turn or self._way(group) is Way.THERE:
            self._launch_soon()
        else:
            self._launch_now()

    def _way(self, group: Group) -> Way:
        """How a group can be written now; only the thread can while it is busy, or has rows to remove."""
        if self._flying is not None or self.compacted > self._swept or group.compacted or not self._writer.is_idle:
            return Way.THERE
        return self._log.way(group.changes)

    def _launch_now(self) -> None:
        """Writes for somebody who has been alone for a while, without waiting for others until the turn ends.

        But once in a turn: who writes again and again without a pause must let the loop go on in between.
        """
        self._wrote_this_turn = True
        asyncio.get_running_loop().call_soon(self._end_turn)
        self._launch()

    def _end_turn(self) -> None:
        self._wrote_this_turn = False

    def _launch_soon(self) -> None:
        # At the end of this turn of the loop, so that all who write in it share one commit.
        asyncio.get_running_loop().call_soon(self._gather, 0)

    def _gather(self, seen: int) -> None:
        """Launches the group when a turn of the loop brings no more to it; who writes alone need not wait for that."""
        size = len(self._gathering.landings)
        if seen < size < _ENOUGH and (size > 1 or not self._solitary):
            asyncio.get_running_loop().call_soon(self._gather, size)
        else:
            self._launch()

    def _launch(self) -> None:
        """Has the gathered group written, unless another one still is; that one's landing launches the next."""
        compacted = max(self.compacted, self._gathering.compacted)
        sweeping = compacted > self._swept
        if self._flying is not None or not (self._gathering.landings or (sweeping and not self._closed)):
            return
        group, self._gathering = self._gathering, Group()
        way = self._way(group)
        self._solitary = 0 if len(group.landings) > 1 else self._solitary + 1
        group.compacted = compacted
        group.swept = min(compacted, self._swept + _SWEEP) if sweeping else self._swept
        work = partial(write_group, changes=group.changes, compacted=compacted, sweep_to=group.swept if sweeping else 0)
        self._flying = group
        match way:
            case Way.HERE:
                self._write_here(work, group)
            case Way.WAITING:
                self._write_waiting(work, group)
            case Way.THERE:
                there = partial(self._write_there, work, group.changes)
                self._writer.submit(there, self._reporter(partial(self._land, group)))

    def _write_here(self, work: Work, group: Group) -> None:
        """Writes at once: it takes less time than telling the thread to."""
        began = time.perf_counter()
        error = self._writer.run_here(work)
        self._log.grow(group.changes, time.perf_counter() - began)
        self._land(group, error)

    def _write_waiting(self, work: Work, group: Group) -> None:
        """Has the thread write and waits for it, but not for long."""
        began = time.perf_counter()
        report = self._reporter(partial(self._land, group))
        job = self._writer.submit_waiting(work, report, patience=self._log.patience(group.changes))
        self._log.grow(group.changes, time.perf_counter() - began)
        if job is not None:
            self._land(group, job.error)

    def _write_there(self, work: Work, changes: Sequence[Change], connection: sqlite3.Connection) -> None:
        work(connection)
        self._log.tend(connection, changes)

    def _land(self, group: Group, error: BaseException | None) -> None:
        self._flying = None
        if error is None:
            self._reveal(group)
            if self._gathering.landings or self.compacted > self._swept:
                self._launch_soon()
        else:
            self._take_back(group, error)

    def _reveal(self, group: Group) -> None:
        for change in group.changes:
            self._ledger.commit(change)
            if self._pending[change.key][0] is change:
                del self._pending[change.key]
        self._swept = group.swept
        history = self._ledger.history
        history.compact(group.compacted)
        history.forget_older(self._clock())
        group.finish(None, self.path)

    def _take_back(self, group: Group, error: BaseException) -> None:
        """Fails a group and the one that gathered behind it, whose writes were checked against it."""
        behind, self._gathering = self._gathering, Group()
        self._pending.clear()
        self._head = self.revision
        for one in (group, behind):
            one.finish(error, self.path)

    def _refusal(self, consequence: str) -> ServerFailed:
        return ServerFailed(f"the storage {self.path} is closed: {consequence}")

    def _reporter(self, land: Callable[[BaseException | None], None]) -> Callable[[BaseException | None], None]:
        """What the writer thread calls: brings the outcome to the loop, if that is still there."""
        loop = asyncio.get_running_loop()

        def report(error: BaseException | None) -> None:
            with suppress(RuntimeError):
                loop.call_soon_threadsafe(land, error)

        return report


def _resolve(future: asyncio.Future[None] | None) -> None:
    if future is not None and not future.done():
        future.set_result(None)
