"""Runs the command line tool of an engine: with a limit of time and of output, and never longer than it is wanted."""

import asyncio
import os
import tempfile
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from subprocess import PIPE
from typing import IO, Final

from levelset.aio import timing
from levelset_dcp.engines.arguments import Invocation
from levelset_dcp.engines.child import Child
from levelset_dcp.engines.errors import EngineTimedOut, Incomplete, RuntimeNotHealthy
from levelset_dcp.engines.interface import CALL, Sink
from levelset_dcp.engines.refusals import explain

__all__ = ["Answer", "Tail", "Tool", "pump"]

_CHUNK: Final = 65536
_MOST: Final = 32 * 1024 * 1024
"""Bytes of an answer: an engine with a thousand containers prints less."""
_KEPT: Final = 16384
"""Bytes of what was said at the end."""


@dataclass(frozen=True, slots=True)
class Answer:
    """How a command has ended, and what it has printed."""

    code: int
    out: str
    err: str


class Tail:
    """A sink that keeps the end, and hands everything on to another one."""

    def __init__(self, onward: Sink | None = None, *, most: int = _KEPT) -> None:
        self._onward = onward
        self._most = most
        self._data = b""

    @property
    def text(self) -> str:
        """What came last."""
        return self._data.decode(errors="replace")

    def write(self, data: bytes) -> None:
        """Takes some bytes."""
        self._data = (self._data + data)[-self._most :]
        if self._onward is not None:
            self._onward.write(data)


class _All:
    """A sink that keeps everything, up to a limit."""

    def __init__(self, onward: Sink | None) -> None:
        self._onward = onward
        self._size = 0
        self._chunks: list[bytes] = []

    @property
    def text(self) -> str:
        return b"".join(self._chunks).decode(errors="replace")

    def write(self, data: bytes) -> None:
        self._size += len(data)
        if self._size > _MOST:
            raise Incomplete(f"the tool has printed more than {_MOST} bytes; what came after was not read")
        self._chunks.append(data)
        if self._onward is not None:
            self._onward.write(data)


class Tool:
    """A command line tool, such as `docker`."""

    def __init__(self, program: str, *, env: Mapping[str, str] | None = None) -> None:
        self.program = program
        self._env = dict(os.environ if env is None else env)

    async def run(
        self,
        what: Invocation,
        *,
        asked: str,
        limit: float = CALL,
        given: bytes | None = None,
        out: Sink | None = None,
        err: Sink | None = None,
    ) -> Answer:
        """Runs it to its end and gives what it has printed; raises what it has said if its code is not 0."""
        answer = await self.try_run(what, asked=asked, limit=limit, given=given, out=out, err=err)
        if answer.code != 0:
            raise explain(asked, answer.code, answer.err or answer.out[-_KEPT:])
        return answer

    async def try_run(
        self,
        what: Invocation,
        *,
        asked: str,
        limit: float | None = CALL,
        given: bytes | None = None,
        out: Sink | None = None,
        err: Sink | None = None,
    ) -> Answer:
        """Runs it to its end, whatever that is; `given` is what it reads. EngineTimedOut after `limit` seconds."""
        printed, said = _All(out), Tail(err)
        try:
            async with timing.within(limit), self.started(what, given=given) as child:
                await asyncio.gather(pump(child.out, printed), pump(child.err, said))
                code = await child.wait()
        except TimeoutError as error:
            raise EngineTimedOut(f"{asked}: {self.program} did not answer within {limit:g} s") from error
        return Answer(code, printed.text, said.text)

    @asynccontextmanager
    async def started(
        self, what: Invocation, *, given: bytes | None = None, out: int = PIPE, err: int = PIPE
    ) -> AsyncGenerator[Child, None]:
        """A run of it, ended when the block is left; raises RuntimeNotHealthy if there is no such program."""
        child = await self._born(lambda: self._start(what, given, out, err))
        try:
            await child.listen()
            yield child
        finally:
            await child.end()

    async def _born(self, start: Callable[[], Child]) -> Child:
        """Starts it in a thread, as that takes some milliseconds; what nobody waits for any more is ended at once."""
        birth = asyncio.get_running_loop().run_in_executor(None, start)
        try:
            return await asyncio.shield(birth)
        except asyncio.CancelledError:
            with suppress(RuntimeNotHealthy):
                await (await birth).end()
            raise

    def _start(self, what: Invocation, given: bytes | None, out: int, err: int) -> Child:
        words, env = (self.program, *what.words), {**self._env, **what.env}
        try:
            if given is None:
                return Child(words, env, given=None, out=out, err=err)
            with _file_of(given) as file:
                return Child(words, env, given=file, out=out, err=err)
        except (FileNotFoundError, PermissionError, NotADirectoryError) as error:
            raise RuntimeNotHealthy(f"there is no program {self.program!r} on PATH; install it") from error
        except (OSError, ValueError) as error:
            raise RuntimeNotHealthy(f"{self.program} cannot be started: {error}") from error


async def pump(stream: asyncio.StreamReader | None, sink: Sink) -> None:
    """Hands on what a stream has, until it ends."""
    while stream is not None and (data := await stream.read(_CHUNK)):
        sink.write(data)


def _file_of(given: bytes) -> IO[bytes]:
    """A nameless file: the tool reads as much of it as it likes, and nobody has to wait."""
    file = tempfile.TemporaryFile(buffering=0)  # noqa: SIM115  (handed to the tool)
    file.write(given)
    file.seek(0)
    return file
