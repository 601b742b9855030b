r"""Keeps what programs write, and shows it again: all of it or a part, then and now, and as it comes.

```python
store = LogStore(folder)
sink = store.open("web-1")
sink.write(b"hello\n")
async for chunk in store.read("web-1", LogOptions(follow=True, timestamps=True)):
    ...
```
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from levelset.errors import ConfigError, NotFound
from levelset_machine.logfiles import Bytes, FileBytes, MemoryBytes, open_bytes, remove_files
from levelset_machine.loglines import Line, Pieces, keep_line, stamp
from levelset_machine.logoptions import LogOptions
from levelset_machine.logreading import BLOCK, Lines, begin, last_number
from levelset_machine.logselect import Selection

__all__ = ["LogSink", "LogStore"]

_POLL: Final = 0.2
"""Seconds between looks at a file that another process writes by itself."""


class _Log:
    """One log: its bytes, who writes to it, and who waits for more."""

    def __init__(self, key: str, content: Bytes, now: Callable[[], datetime], ended: Callable[[], None]) -> None:
        self.key = key
        self.content = content
        self.writers = 0
        self._now = now
        self._ended = ended
        self._number = 0 if content.is_raw else last_number(content)
        size = content.size()
        # A program that was killed may have left half a line.
        self._is_open = size > 0 and content.peek(size - 1, 1) != b"\n"
        self._waiting = set[asyncio.Future[None]]()

    def keep(self, lines: list[Line]) -> None:
        """Adds lines, with their numbers and the time; wakes those who follow."""
        if not lines:
            return
        time = stamp(self._now())  # once for all of them: a program may write a lot
        kept = [b"\n"] if self._is_open else []
        kept += [keep_line(number, time, line.text) for number, line in enumerate(lines, self._number + 1)]
        self._number += len(lines)
        if lines[-1].is_open:
            kept[-1] = kept[-1].removesuffix(b"\n")
        self._is_open = lines[-1].is_open
        self.append(b"".join(kept))

    def append(self, data: bytes) -> None:
        """Adds bytes as they are; wakes those who follow."""
        self.content.append(data)
        self.wake()

    def leave(self) -> None:
        """Somebody writes no longer; when nobody does, the log ends for those who follow."""
        self.writers -= 1
        if self.writers == 0:
            self._ended()
            self.wake()

    def wake(self) -> None:
        """Lets those look again who wait."""
        for waiter in self._waiting:
            if not waiter.done():
                waiter.set_result(None)
        self._waiting.clear()

    async def wait_beyond(self, source: Bytes, offset: int) -> None:
        """Returns when there is more than `offset` bytes, or nobody writes any more."""
        while self.writers > 0 and source.size() <= offset:
            waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiting.add(waiter)
            try:
                await asyncio.wait([waiter], timeout=_POLL if source.is_raw else None)
            finally:
                self._waiting.discard(waiter)


class LogSink:
    """Takes what is to be logged. Whoever has it closes it, or hands it to a run, which does."""

    def __init__(self, log: _Log) -> None:
        self._log = log
        self._pieces = Pieces()
        self._is_closed = False
        log.writers += 1

    @property
    def key(self) -> str:
        """The log that it writes to."""
        return self._log.key

    @property
    def is_closed(self) -> bool:
        """Whether it takes nothing any more."""
        return self._is_closed

    def write(self, data: bytes) -> None:
        """Takes some bytes, cut wherever; a line is in the log when its end has come. Ignored after `close`."""
        if self._is_closed or not data:
            return
        if self._log.content.is_raw:
            self._log.append(data)
        else:
            self._log.keep([_closed(piece) for piece in self._pieces.add(data)])

    def raw(self) -> int:
        """A file descriptor for a program that writes by itself, and goes on when this one has ended.

        It is the sink's, and closed with it. The log then holds what the program writes, and neither numbers nor times.
        """
        content = self._log.content
        if not isinstance(content, FileBytes):
            raise ConfigError(f"the log {self.key!r} is in memory; a persistent process needs a LogStore with a folder")
        if not content.is_raw and content.size() > 0:
            raise ConfigError(f"the log {self.key!r} has numbered lines; a persistent process needs one of its own")
        if not content.is_raw:
            content.make_raw()
        return content.descriptor

    def close(self) -> None:
        """Adds what no line feed has ended, and lets go; the log ends when the last sink is closed."""
        if self._is_closed:
            return
        self._is_closed = True
        self._log.keep(list(self._pieces.end()))
        self._log.leave()


class LogStore:
    """Logs by their keys, in the files of a folder; or in memory if there is no folder."""

    def __init__(self, folder: Path | str | None = None, *, now: Callable[[], datetime] | None = None) -> None:
        self._folder = None if folder is None else Path(folder)
        self._now = now or _utc_now
        self._logs = dict[str, _Log]()
        if self._folder is not None:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)

    def open(self, key: str) -> LogSink:
        """Somewhere to write to. A log that is there already goes on, also when another sink is writing to it."""
        log = self._logs.get(key)
        if log is None:
            content = MemoryBytes() if self._folder is None else open_bytes(self._folder, key, make=True)
            if content is None:
                raise ConfigError(f"the file of the log {key!r} vanished while it was opened; open it again")
            log = self._logs[key] = _Log(key, content, self._now, lambda: self._close(key, content))
        return LogSink(log)

    def read(self, key: str, options: LogOptions | None = None) -> AsyncIterator[bytes]:
        """Some of a log, in chunks of whole lines where possible; see LogOptions.

        Following ends when all sinks are closed and all was read. A log that is removed meanwhile is read to its end.
        Raises NotFound if there is no such log.
        """
        return self._reading(key, options or LogOptions())

    def has(self, key: str) -> bool:
        """Whether there is such a log."""
        if key in self._logs or self._folder is None:
            return key in self._logs
        found = open_bytes(self._folder, key, make=False)
        if found is not None:
            found.close()
        return found is not None

    def path(self, key: str) -> Path | None:
        """The file of a log; None if it is in memory, or if there is none."""
        found = None if self._folder is None else open_bytes(self._folder, key, make=False)
        if found is None:
            return None
        found.close()
        return found.path

    def remove(self, key: str) -> None:
        """Forgets a log; it is no error if there is none. Sinks and readers that have it may go on with it."""
        self._logs.pop(key, None)
        if self._folder is not None:
            remove_files(self._folder, key)

    async def _reading(self, key: str, options: LogOptions) -> AsyncIterator[bytes]:
        log = self._logs.get(key)
        if log is not None:
            source = log.content.another()
        else:
            stored = None if self._folder is None else open_bytes(self._folder, key, make=False)
            if stored is None:
                raise NotFound(f"there is no log {key!r}")
            source = stored
        try:
            async for chunk in _chunks(source, log if options.follow else None, options):
                yield chunk
        finally:
            source.close()

    def _close(self, key: str, content: Bytes) -> None:
        """Lets go of a file that nobody writes any more; memory is kept until it is removed."""
        if self._folder is None:
            return
        content.close()
        log = self._logs.get(key)
        if log is not None and log.content is content:
            del self._logs[key]


async def _chunks(source: Bytes, log: _Log | None, options: LogOptions) -> AsyncIterator[bytes]:
    """What is there; and, if there is a log to follow, what comes until it ends."""
    selection = Selection(options)
    offset, before = await begin(source, options.tail)
    lines = Lines(is_raw=source.is_raw, before=before)
    is_over = False
    while not is_over:
        # Asked before the size is: what is written in between is not lost.
        is_over = log is None or log.writers == 0
        end = source.size()
        while offset < end and not selection.is_full:
            data = await source.read(offset, min(BLOCK, end - offset))
            if not data:  # a full disk: what was begun there was taken back
                break
            offset += len(data)
            if chunk := selection.write(lines.add(data)):
                yield chunk
        if selection.is_full:
            return
        if log is not None:
            await log.wait_beyond(source, offset)
    if chunk := selection.write(lines.end()):
        yield chunk


def _closed(piece: Line) -> Line:
    """A piece of a line that is too long is a line of its own."""
    return Line(piece.text)


def _utc_now() -> datetime:
    return datetime.now(UTC)
