"""One SQLite file as storage: reads from memory, writes in groups, each acknowledged when it is in the file.

A write is checked against the newest accepted version of its key, gets the next revision and waits in the group that
gathers while the writer thread commits the one before. When a group is in the file, it becomes visible to reads and
watches as a whole, and its writers get their answers. If it fails, it never happened, nor what was built upon it.
"""

import asyncio
import os
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Self

from levelset.errors import NotFound, ServerFailed
from levelset.storage.history import Limits
from levelset.storage.interface import Change, FutureRevision, Item, Mismatch
from levelset.storage.ledger import planned_delete, planned_put
from levelset.storage.reading import LedgerReads
from levelset.storage.sqlite_file import Durability, open_file, write_group
from levelset.storage.sqlite_writer import Writer

__all__ = ["SqliteStorage"]

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
        self._swept = contents.swept
        self._head = self.revision
        # The newest accepted version of each key that is not in the file yet, and the group it is in.
        self._pending: dict[str, tuple[Change, _Group]] = {}
        self._gathering = _Group()
        self._flying: _Group | None = None
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
        change = await self._write(key, partial(planned_put, key=key, value=value, expected=expected))
        assert change.after is not None  # a put's change always has one
        return change.after

    async def delete(self, key: str, *, expected: int | None) -> Change:
        """As `Storage.delete`; returns when the deletion is in the file."""
        return await self._write(key, partial(planned_delete, key=key, expected=expected))

    async def compact(self, revision: int) -> None:
        """As `Storage.compact`; returns when the file knows it, the rows go little by little."""
        if revision > self.revision:
            raise FutureRevision(revision, self.revision)
        if revision <= self.compacted:
            return
        self._check_open(f"history up to {revision} was not compacted")
        group = self._gathering
        group.compacted = max(group.compacted, revision)
        await self._join(group)

    async def close(self) -> None:
        """Finishes the writes under way, ends all watches, and releases the file."""
        self._closed = True
        while self._flying is not None or self._gathering.answers:
            await (self._flying or self._gathering).wait_over()
        await super().close()
        if self._stopped is None:
            self._stopped = asyncio.get_running_loop().create_future()
            self._writer.stop(self._reporter(lambda _: _resolve(self._stopped)))
        await asyncio.shield(self._stopped)

    async def _write(self, key: str, plan: Callable[..., Change]) -> Change:
        while True:
            self._check_open(f"{key!r} was not written")
            change, group = self._pending.get(key, (None, None))
            current = self._ledger.items.get(key) if change is None else change.after
            try:
                change = plan(current, revision=self._head + 1)
                break
            except (Mismatch, NotFound):
                if group is None:
                    raise
            # What this write lost against is not visible yet, and may still fail. Answering now would send the
            # loser to read the old version and lose again, for ever if it never lets go of the loop.
            await group.wait_over()
        self._head = change.revision
        group = self._gathering
        group.changes.append(change)
        self._pending[key] = (change, group)
        await self._join(group)
        return change

    async def _join(self, group: "_Group") -> None:
        """Waits until the group is in the file; cancelling the wait does not take the write back."""
        if not group.answers:
            self._launch_soon()
        answer: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        group.answers.append(answer)
        await answer

    def _launch_soon(self) -> None:
        # At the end of this turn of the loop, so that all who write in it share one commit.
        asyncio.get_running_loop().call_soon(self._launch)

    def _launch(self) -> None:
        """Hands the gathered group to the writer, unless it still has one; that one's landing launches the next."""
        compacted = max(self.compacted, self._gathering.compacted)
        sweeping = compacted > self._swept
        if self._flying is not None or not (self._gathering.answers or (sweeping and not self._closed)):
            return
        group, self._gathering = self._gathering, _Group()
        self._flying = group
        group.compacted = compacted
        group.swept = min(compacted, self._swept + _SWEEP) if sweeping else self._swept
        work = partial(write_group, changes=group.changes, compacted=compacted, sweep_to=group.swept if sweeping else 0)
        self._writer.submit(work, self._reporter(partial(self._land, group)))

    def _land(self, group: "_Group", error: BaseException | None) -> None:
        self._flying = None
        if error is None:
            self._reveal(group)
            self._launch_soon()
        else:
            self._take_back(group, error)

    def _reveal(self, group: "_Group") -> None:
        for change in group.changes:
            self._ledger.commit(change)
            if self._pending[change.key][0] is change:
                del self._pending[change.key]
        self._swept = group.swept
        history = self._ledger.history
        history.compact(group.compacted)
        history.forget_older(self._clock())
        group.finish(None)

    def _take_back(self, group: "_Group", error: BaseException) -> None:
        """Fails a group and the one that gathered behind it, whose writes were checked against it."""
        behind, self._gathering = self._gathering, _Group()
        self._pending.clear()
        self._head = self.revision
        for one in (group, behind):
            one.finish(error, self.path)

    def _check_open(self, consequence: str) -> None:
        if self._closed:
            raise ServerFailed(f"the storage {self.path} is closed: {consequence}")

    def _reporter(self, land: Callable[[BaseException | None], None]) -> Callable[[BaseException | None], None]:
        """What the writer thread calls: brings the outcome to the loop, if that is still there."""
        loop = asyncio.get_running_loop()

        def report(error: BaseException | None) -> None:
            with suppress(RuntimeError):
                loop.call_soon_threadsafe(land, error)

        return report


class _Group:
    """Writes that go into the file together, and those who wait for it.

    It has no bound of its own: each waiting writer adds one change.
    """

    __slots__ = ("answers", "changes", "compacted", "swept", "watching")

    def __init__(self) -> None:
        self.changes: list[Change] = []
        self.answers: list[asyncio.Future[None]] = []
        self.watching: list[asyncio.Future[None]] = []
        self.compacted = 0
        self.swept = 0

    async def wait_over(self) -> None:
        """Waits until the group has landed, well or not."""
        over: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.watching.append(over)
        await over

    def finish(self, error: BaseException | None, path: Path | None = None) -> None:
        for answer in self.answers:
            if answer.done():
                continue
            if error is None:
                answer.set_result(None)
            else:
                answer.set_exception(_failure(path, error))
        for over in self.watching:
            _resolve(over)


def _resolve(future: asyncio.Future[None] | None) -> None:
    if future is not None and not future.done():
        future.set_result(None)


def _failure(path: Path | None, error: BaseException) -> ServerFailed:
    failure = ServerFailed(f"{path} could not be written: {error}; nothing was changed, free some space or try again")
    failure.__cause__ = error
    return failure
