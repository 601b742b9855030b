"""A log file that another program writes: read with the same options as our own logs, and followed by its size.

```python
with ForeignLogFile.open(path) as file:
    async for chunk in file.read(LogOptions(follow=True), over=over):
        ...
```

Its lines may be stored ones, with number and time, or plain text; the first one decides.
"""

import asyncio
import errno
import os
import stat
from collections.abc import AsyncIterator
from types import TracebackType
from typing import Final, Self

from levelset.errors import BadRequest, NotFound
from levelset_machine.logs.content import LogSource
from levelset_machine.logs.lines import Line, decode_line
from levelset_machine.logs.options import LogOptions
from levelset_machine.logs.reader import chunks_of

__all__ = ["ForeignLogFile"]

_FLAGS: Final = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY
_POLL: Final = 0.2
"""Seconds between checks of the size."""
_PREFIX: Final = 64


class ForeignLogFile:
    """An open log file of another program, for one reader."""

    def __init__(self, descriptor: int) -> None:
        """Takes the open file over; `open` is for all others."""
        self._content = _Content(descriptor)

    @classmethod
    def open(cls, path: str) -> Self:
        """Opens a file by its absolute path; NotFound if there is none, BadRequest if it must not be read. Blocks.

        Only a regular file of this user is read: its name is data, and may be that of a link, a device or a pipe.
        """
        if not os.path.isabs(path):  # noqa: PTH117  (text)
            raise BadRequest(f"the log file {path!r} has no absolute path")
        try:
            descriptor = os.open(path, _FLAGS)
        except FileNotFoundError as error:
            raise NotFound(f"there is no log file {path}") from error
        except (OSError, ValueError) as error:
            is_link = isinstance(error, OSError) and error.errno == errno.ELOOP
            cause = "it is a link" if is_link else getattr(error, "strerror", None) or str(error)
            raise BadRequest(f"the log file {path!r} cannot be read: {cause}") from error
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode) or found.st_uid != os.geteuid():
            os.close(descriptor)
            raise BadRequest(f"the log file {path!r} is not read: it is no regular file of the server's user")
        return cls(descriptor)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def read(self, options: LogOptions, *, over: asyncio.Event) -> AsyncIterator[bytes]:
        """Reads it in chunks; with `follow` until `over` is set and everything was read."""
        return chunks_of(self._content, _Polled(over) if options.follow else None, options)

    def close(self) -> None:
        """Closes the file."""
        self._content.close()


class _Content:
    """The bytes of the file, none of which are ever dropped."""

    start = 0
    lines_before = 0

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        head = os.pread(descriptor, _PREFIX, 0).partition(b"\n")[0]
        self.is_raw = bool(head) and not decode_line(Line(head), 1).time

    def size(self) -> int:
        """The offset after the last byte."""
        return os.fstat(self._descriptor).st_size

    async def read(self, offset: int, size: int) -> bytes:
        """Reads up to `size` bytes at `offset`, in a thread: a disk may block."""
        return await asyncio.to_thread(os.pread, self._descriptor, size, offset)

    def close(self) -> None:
        """Closes the file."""
        os.close(self._descriptor)


class _Polled:
    """The growth of a file that is over when an event says so."""

    def __init__(self, over: asyncio.Event) -> None:
        self._over = over

    @property
    def is_over(self) -> bool:
        """Whether nothing more is written."""
        return self._over.is_set()

    async def wait_beyond(self, source: LogSource, offset: int) -> None:
        """Returns when the file has more than `offset` bytes, or is over."""
        while not self._over.is_set() and source.size() <= offset:
            try:
                async with asyncio.timeout(_POLL):
                    await self._over.wait()
            except TimeoutError:
                continue
