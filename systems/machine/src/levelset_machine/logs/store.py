r"""LogStore: writes the output of programs to logs, and reads it in whole or in part, or follows it.

```python
store = LogStore(folder)
sink = store.open("web-1")
sink.write(b"hello\n")
async for chunk in store.read("web-1", LogOptions(follow=True, timestamps=True)):
    ...
```
"""

import asyncio
import os
from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from levelset.errors import ConfigError, NotFound
from levelset_machine.logs.content import Content, LogRotation, LogSource, MemoryContent
from levelset_machine.logs.file_content import SUFFIX, FileContent, file_stem, open_numbered, remove_numbered
from levelset_machine.logs.lines import Line, LineSplitter, encode_line, stamp
from levelset_machine.logs.options import LogOptions
from levelset_machine.logs.raw_content import RAW_SUFFIX, RawContent, open_raw, remove_raw
from levelset_machine.logs.reader import chunks_of, last_number

__all__ = ["LogSink", "LogStore"]

_TRIM: Final = 0.25
"""Seconds between checks whether a raw file has become too large."""
_POLL: Final = 0.2
"""Seconds between checks of the size of a raw file, to which another process writes directly."""


class _Log:
    """One log: its content, the number of its writers, and the readers that follow it."""

    def __init__(
        self, key: str, content: Content, now: Callable[[], datetime], ended: "Callable[[_Log], None]"
    ) -> None:
        self.key = key
        self.content = content
        self.writers = 0
        self._now = now
        self._ended = ended
        self._trimming: asyncio.TimerHandle | None = None
        self._trim_job: asyncio.Future[None] | None = None
        self._number = 0 if content.is_raw else last_number(content)
        size = content.size()
        # A program that was killed may have left an unfinished line.
        self._is_open = size > content.start and content.peek(size - 1, 1) != b"\n"
        self._waiters = set[asyncio.Future[None]]()
        if isinstance(content, RawContent):
            self._trim_after(0.0)

    def make_raw(self, rotation: LogRotation) -> RawContent:
        """Has a program write to the file of this log directly; raises ConfigError if that is impossible."""
        match self.content:
            case RawContent() as content:
                return content
            case FileContent() as content if content.size() == 0:
                made = self.content = RawContent.made_of(content.descriptor, content.path, rotation)
                self._trim_after(_TRIM)
                return made
            case FileContent():
                raise ConfigError(f"the log {self.key!r} has numbered lines; a persistent process needs one of its own")
            case _:
                raise ConfigError(
                    f"the log {self.key!r} is in memory; a persistent process needs a LogStore with a folder"
                )

    def add_lines(self, lines: list[Line]) -> None:
        """Appends lines with their numbers and the time; wakes the followers."""
        if not lines:
            return
        time = stamp(self._now())  # once per batch: formatting a time per line is slow for chatty programs
        stored = [b"\n"] if self._is_open else []
        stored += [encode_line(number, time, line.text) for number, line in enumerate(lines, self._number + 1)]
        self._number += len(lines)
        if lines[-1].is_open:
            stored[-1] = stored[-1].removesuffix(b"\n")
        self._is_open = lines[-1].is_open
        self.append(b"".join(stored))

    def append(self, data: bytes) -> None:
        """Appends raw bytes; wakes the followers."""
        self.content.append(data)
        self.wake()

    def remove_writer(self) -> None:
        """One writer less; with the last one, the log ends for its followers."""
        self.writers -= 1
        if self.writers == 0:
            self._trim_last()
            self._ended(self)
            self.wake()

    def wake(self) -> None:
        """Wakes the followers."""
        for waiter in self._waiters:
            if not waiter.done():
                waiter.set_result(None)
        self._waiters.clear()

    def _trim_after(self, seconds: float) -> None:
        """Checks the size of a raw file from time to time; without an event loop, only when it is opened again."""
        try:
            self._trimming = asyncio.get_running_loop().call_later(seconds, self._trim)
        except RuntimeError:
            self._trimming = None

    def _trim(self) -> None:
        self._start_trim()
        self._trim_after(_TRIM)

    def _trim_last(self) -> None:
        if self._trimming is not None:
            self._trimming.cancel()
            self._start_trim()

    def _start_trim(self) -> None:
        """Drops the oldest lines in a thread, on a descriptor of its own, so that the log may be closed meanwhile."""
        is_running = self._trim_job is not None and not self._trim_job.done()
        if isinstance(self.content, RawContent) and self.content.is_full and not is_running:
            loop = asyncio.get_running_loop()
            self._trim_job = loop.run_in_executor(None, _trim_and_close, self.content.reopen())

    @property
    def is_over(self) -> bool:
        """Whether no writer is left."""
        return self.writers == 0

    async def wait_beyond(self, source: LogSource, offset: int) -> None:
        """Returns when there are more than `offset` bytes, or no writer is left."""
        while self.writers > 0 and source.size() <= offset:
            waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiters.add(waiter)
            try:
                await asyncio.wait([waiter], timeout=_POLL if source.is_raw else None)
            finally:
                self._waiters.discard(waiter)


class LogSink:
    """The writing end of a log. Its owner closes it, or passes it to a run, which does."""

    def __init__(self, log: _Log, rotation: LogRotation) -> None:
        self._log = log
        self._rotation = rotation
        self._splitter = LineSplitter()
        self._is_closed = False
        log.writers += 1

    @property
    def key(self) -> str:
        """The key of the log that it writes to."""
        return self._log.key

    @property
    def is_closed(self) -> bool:
        """Whether it was closed; writes are ignored then."""
        return self._is_closed

    def write(self, data: bytes) -> None:
        """Writes bytes, which may end inside a line; a line is readable once it is complete. Ignored after `close`."""
        if self._is_closed or not data:
            return
        if self._log.content.is_raw:
            self._log.append(data)
        else:
            self._log.add_lines([_as_line(piece) for piece in self._splitter.add(data)])

    def raw(self) -> int:
        """A file descriptor for a program that writes directly, and may outlive this one.

        The sink owns it and closes it. The log then holds the program's unprocessed output, without numbers and times.
        """
        return self._log.make_raw(self._rotation).descriptor

    def close(self) -> None:
        """Writes an unfinished line, and closes the sink; the log ends when its last sink is closed."""
        if self._is_closed:
            return
        self._is_closed = True
        self._log.add_lines(list(self._splitter.end()))
        self._log.remove_writer()


class LogStore:
    """Logs by key: in files of a folder, or in memory if no folder is given; `rotation` bounds the size of each.

    With `preserve` the files stay: `remove` does nothing.
    """

    def __init__(
        self,
        folder: Path | str | None = None,
        *,
        now: Callable[[], datetime] | None = None,
        rotation: LogRotation | None = None,
        preserve: bool = False,
    ) -> None:
        self._preserves = preserve
        self._folder = None if folder is None else str(folder)
        self._now = now or _utc_now
        self._rotation = rotation or LogRotation()
        self._logs = dict[str, _Log]()
        if self._folder is not None:
            Path(self._folder).mkdir(mode=0o700, parents=True, exist_ok=True)

    def open(self, key: str) -> LogSink:
        """Opens a log for writing. An existing log is continued, also while another sink writes to it."""
        log = self._logs.get(key)
        if log is None:
            content = MemoryContent(self._rotation) if self._folder is None else self._open_file(key, create=True)
            if content is None:
                raise ConfigError(f"the file of the log {key!r} vanished while it was opened; open it again")
            log = self._logs[key] = _Log(key, content, self._now, self._close)
        return LogSink(log, self._rotation)

    def read(self, key: str, options: LogOptions | None = None) -> AsyncIterator[bytes]:
        """Reads a log in chunks, of whole lines where possible; see LogOptions.

        Following ends when all sinks are closed and everything was read. A log that is removed meanwhile is read to its
        end. Lines that a rotation drops before a slow reader has read them are replaced by one line that says how many
        they were. Raises NotFound if there is no such log.
        """
        return self._chunks_of(key, options or LogOptions())

    def has(self, key: str) -> bool:
        """Whether the log exists."""
        return key in self._logs or self.path(key) is not None

    def path(self, key: str) -> Path | None:
        """The current file of a log; None if it is in memory or does not exist."""
        if self._folder is None:
            return None
        stem = file_stem(self._folder, key)
        found = next((stem + suffix for suffix in (SUFFIX, RAW_SUFFIX) if os.path.exists(stem + suffix)), None)  # noqa: PTH110  (text)
        return None if found is None else Path(found)

    def remove(self, key: str) -> None:
        """Removes a log with all its files, if it exists. Its open sinks and readers stay usable."""
        if self._preserves:
            return
        log = self._logs.pop(key, None)
        if log is not None:
            log.content.remove()
        if self._folder is not None:
            stem = file_stem(self._folder, key)
            if not remove_raw(stem):
                remove_numbered(stem)

    async def _chunks_of(self, key: str, options: LogOptions) -> AsyncIterator[bytes]:
        log = self._logs.get(key)
        source = self._stored(key) if log is None else log.content.reopen()
        try:
            async for chunk in chunks_of(source, log if options.follow else None, options):
                yield chunk
        finally:
            source.close()

    def _stored(self, key: str) -> LogSource:
        """The content of a log that has no writers."""
        stored = self._open_file(key, create=False)
        if stored is None:
            raise NotFound(f"there is no log {key!r}")
        try:
            return stored.reopen()
        finally:
            stored.close()

    def _open_file(self, key: str, *, create: bool) -> FileContent | RawContent | None:
        if self._folder is None:
            return None
        stem = file_stem(self._folder, key)
        return open_raw(stem, self._rotation) or open_numbered(stem, self._rotation, create=create)

    def _close(self, log: _Log) -> None:
        """Closes the file of a log without writers; a log in memory stays until it is removed."""
        if self._folder is None:
            return
        log.content.close()
        if self._logs.get(log.key) is log:
            del self._logs[log.key]


def _as_line(piece: Line) -> Line:
    """A piece of a line that is too long, as a line of its own."""
    return Line(piece.text)


def _trim_and_close(content: RawContent) -> None:
    try:
        content.trim()
    finally:
        content.close()


def _utc_now() -> datetime:
    return datetime.now(UTC)
