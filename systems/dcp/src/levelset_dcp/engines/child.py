"""One run of a program whose output is read as it comes; born at once, and gone for certain when it is ended.

asyncio's own subprocesses can be cancelled while they are half there, and then wait for pipes that nobody closes.
"""

import asyncio
import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import IO, Final

from levelset.aio import timing

__all__ = ["Child", "exit_code"]

_GRACE: Final = 2.0
_FIRST_LOOK: Final = 0.001
_LONGEST_LOOK: Final = 0.05
_LINE: Final = 1024 * 1024


class Child:
    """A program that runs; raises OSError or ValueError if it cannot be started.

    `out` and `err` are those of Popen. Whatever happens after its birth, `end` has to be called.
    """

    def __init__(
        self, words: Sequence[str], env: Mapping[str, str], *, given: IO[bytes] | None, out: int, err: int
    ) -> None:
        self._process = subprocess.Popen(  # noqa: S603  (to run what it is told is what it is for)
            words,
            env=env,
            stdin=subprocess.DEVNULL if given is None else given,
            stdout=out,
            stderr=err,
            start_new_session=True,
            bufsize=0,
        )
        self._pipes: list[asyncio.ReadTransport] = []
        self.out: asyncio.StreamReader | None = None
        self.err: asyncio.StreamReader | None = None

    @property
    def is_done(self) -> bool:
        """Whether all its output was read, or it has ended."""
        return self._process.poll() is not None or all(one is None or one.at_eof() for one in (self.out, self.err))

    async def listen(self) -> None:
        """Makes `out` and `err` readable, where they are pipes."""
        self.out = await self._open(self._process.stdout)
        self.err = await self._open(self._process.stderr)

    async def wait(self) -> int:
        """How it has ended, when it has; 128+N if signal N has ended it."""
        pause = _FIRST_LOOK
        # Its output has ended by now, so that it is about to.
        while (code := self._process.poll()) is None:
            await timing.sleep(pause)
            pause = min(2 * pause, _LONGEST_LOOK)
        return exit_code(code)

    async def end(self) -> None:
        """Sees to it that nothing of it is left: it is asked to end first, and killed soon after."""
        try:
            if self._process.poll() is None:
                self._send(signal.SIGTERM)
                await self._wait_a_little()
        finally:
            if self._process.poll() is None:
                self._send(signal.SIGKILL)
            for pipe in self._pipes:
                pipe.close()
            for file in (self._process.stdout, self._process.stderr):
                if file is not None:  # as it was not listened to; closing it twice is fine
                    file.close()
            await self.wait()

    async def _open(self, file: IO[bytes] | None) -> asyncio.StreamReader | None:
        if file is None:
            return None
        loop = asyncio.get_running_loop()
        reader = asyncio.StreamReader(limit=_LINE, loop=loop)
        pipe, _ = await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader, loop=loop), file)
        self._pipes.append(pipe)
        return reader

    async def _wait_a_little(self) -> None:
        with suppress(TimeoutError):
            async with timing.within(_GRACE):
                await self.wait()

    def _send(self, number: int) -> None:
        """To all that it has started, as far as they are still with it."""
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, number)


def exit_code(code: int) -> int:
    """128+N if signal N has ended it, as shells have it."""
    return code if code >= 0 else 128 - code
