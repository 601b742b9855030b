"""Runs the command line tool of an engine, with limits on time and output."""

import asyncio
import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from subprocess import PIPE
from typing import IO, Final

from msgspec import Struct

from levelset.aio import timing
from levelset_dcp.engines.cli.arguments import Invocation
from levelset_dcp.engines.cli.error_mapping import map_error
from levelset_dcp.engines.errors import EngineTimedOut, Incomplete, RuntimeNotHealthy
from levelset_dcp.engines.interface import CALL, Sink

__all__ = ["Child", "Tail", "Tool", "ToolResult", "exit_code", "pump"]

_GRACE: Final = 2.0
_FIRST_POLL: Final = 0.001
_LONGEST_POLL: Final = 0.05
_LINE: Final = 1024 * 1024
_CHUNK: Final = 65536
_MAX_OUTPUT: Final = 32 * 1024 * 1024
"""The maximum output in bytes; an engine with a thousand containers prints less."""
_TAIL_BYTES: Final = 16384
"""The retained end of stderr in bytes."""


class Child:
    """A running subprocess whose output is read as it comes; raises OSError or ValueError if it cannot be started.

    `out` and `err` are the arguments of Popen. `end` must be called in any case. asyncio's own subprocesses can be
    cancelled while they are being created, and then wait for pipes that are never closed.
    """

    def __init__(
        self, args: Sequence[str], env: Mapping[str, str], *, stdin: IO[bytes] | None, out: int, err: int
    ) -> None:
        self._process = subprocess.Popen(  # noqa: S603  (runs the engine's own tool)
            args,
            env=env,
            stdin=subprocess.DEVNULL if stdin is None else stdin,
            stdout=out,
            stderr=err,
            start_new_session=True,
            bufsize=0,
        )
        self._pipes: list[_PipeReader] = []
        self.out: asyncio.StreamReader | None = None
        self.err: asyncio.StreamReader | None = None

    @property
    def is_done(self) -> bool:
        """Whether all its output was read, or it has exited."""
        return self._process.poll() is not None or all(one is None or one.at_eof() for one in (self.out, self.err))

    def listen(self) -> None:
        """Opens `out` and `err` for reading, if they are pipes."""
        self.out = self._open(self._process.stdout)
        self.err = self._open(self._process.stderr)

    async def wait(self) -> int:
        """Waits for the exit code; 128+N if signal N has terminated it."""
        pause = _FIRST_POLL
        # Its output has ended, so the exit follows at once.
        while (code := self._process.poll()) is None:
            await timing.sleep(pause)
            pause = min(2 * pause, _LONGEST_POLL)
        return exit_code(code)

    async def end(self) -> None:
        """Terminates the process group: SIGTERM first, SIGKILL after a grace period."""
        try:
            if self._process.poll() is None:
                self._send(signal.SIGTERM)
                await self._wait_grace()
        finally:
            if self._process.poll() is None:
                self._send(signal.SIGKILL)
            for pipe in self._pipes:
                pipe.close()
            for file in (self._process.stdout, self._process.stderr):
                if file is not None:  # `listen` was not called; closing twice is harmless
                    file.close()
            await self.wait()

    def _open(self, file: IO[bytes] | None) -> asyncio.StreamReader | None:
        if file is None:
            return None
        reader = asyncio.StreamReader(limit=_LINE)
        self._pipes.append(_PipeReader(file, reader))
        return reader

    async def _wait_grace(self) -> None:
        with suppress(TimeoutError):
            async with timing.within(_GRACE):
                await self.wait()

    def _send(self, number: int) -> None:
        """Sends a signal to the process group."""
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, number)


class _PipeReader(asyncio.ReadTransport):
    """Reads a pipe into a stream, and closes it at its end.

    uvloop's own transport closes the descriptor twice, the second time perhaps under another thread's file.
    """

    def __init__(self, file: IO[bytes], reader: asyncio.StreamReader) -> None:
        super().__init__()
        os.set_blocking(file.fileno(), False)
        self._file = file
        self._reader = reader
        self._loop = asyncio.get_running_loop()
        reader.set_transport(self)
        self.resume_reading()

    def pause_reading(self) -> None:
        """Stops reading."""
        if not self._file.closed:
            self._loop.remove_reader(self._file.fileno())

    def resume_reading(self) -> None:
        """Reads on."""
        if not self._file.closed:
            self._loop.add_reader(self._file.fileno(), self._read)

    def is_closing(self) -> bool:
        """Whether the pipe is closed."""
        return self._file.closed

    def close(self) -> None:
        """Closes the pipe, which ends the stream."""
        if not self._file.closed:
            self.pause_reading()
            self._file.close()
            self._reader.feed_eof()

    def _read(self) -> None:
        try:
            data = os.read(self._file.fileno(), _CHUNK)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if data:
            self._reader.feed_data(data)
        else:
            self.close()


def exit_code(code: int) -> int:
    """128+N if signal N has terminated it, as in shells."""
    return code if code >= 0 else 128 - code


class ToolResult(Struct, frozen=True):
    """The exit code and the output of a command."""

    code: int
    out: str
    err: str


class Tail:
    """A sink that retains the end of the output, and forwards everything to another sink."""

    def __init__(self, forward: Sink | None = None, *, limit: int = _TAIL_BYTES) -> None:
        self._forward = forward
        self._limit = limit
        self._data = b""

    @property
    def text(self) -> str:
        """The retained text."""
        return self._data.decode(errors="replace")

    def write(self, data: bytes) -> None:
        """Appends bytes."""
        self._data = (self._data + data)[-self._limit :]
        if self._forward is not None:
            self._forward.write(data)


class _Buffer:
    """A sink that retains the whole output, up to a limit."""

    def __init__(self, forward: Sink | None) -> None:
        self._forward = forward
        self._size = 0
        self._chunks: list[bytes] = []

    @property
    def text(self) -> str:
        return b"".join(self._chunks).decode(errors="replace")

    def write(self, data: bytes) -> None:
        self._size += len(data)
        if self._size > _MAX_OUTPUT:
            raise Incomplete(f"the output of the tool has more than {_MAX_OUTPUT} bytes")
        self._chunks.append(data)
        if self._forward is not None:
            self._forward.write(data)


class Tool:
    """A command line tool, such as `docker`."""

    def __init__(self, program: str, *, env: Mapping[str, str] | None = None) -> None:
        self.program = program
        self._env = dict(os.environ if env is None else env)

    @property
    def path(self) -> str | None:
        """The file that would be run; None if there is none on the PATH."""
        return shutil.which(self.program, path=os.pathsep.join(os.get_exec_path(self._env)))

    async def run(
        self,
        invocation: Invocation,
        *,
        operation: str,
        limit: float = CALL,
        stdin: bytes | None = None,
        out: Sink | None = None,
        err: Sink | None = None,
    ) -> ToolResult:
        """Runs it to its end and returns its output; raises the mapped error if the exit code is not 0."""
        result = await self.try_run(invocation, operation=operation, limit=limit, stdin=stdin, out=out, err=err)
        if result.code != 0:
            raise map_error(operation, result.code, result.err or result.out[-_TAIL_BYTES:])
        return result

    async def try_run(
        self,
        invocation: Invocation,
        *,
        operation: str,
        limit: float | None = CALL,
        stdin: bytes | None = None,
        out: Sink | None = None,
        err: Sink | None = None,
    ) -> ToolResult:
        """Runs it to its end, with any exit code; `stdin` is its input. EngineTimedOut after `limit` seconds."""
        stdout, stderr = _Buffer(out), Tail(err)
        try:
            async with timing.within(limit), self.started(invocation, stdin=stdin) as child:
                await asyncio.gather(pump(child.out, stdout), pump(child.err, stderr))
                code = await child.wait()
        except TimeoutError as error:
            raise EngineTimedOut(f"{operation}: {self.program} did not answer within {limit:g} s") from error
        return ToolResult(code, stdout.text, stderr.text)

    @asynccontextmanager
    async def started(
        self, invocation: Invocation, *, stdin: bytes | None = None, out: int = PIPE, err: int = PIPE
    ) -> AsyncGenerator[Child, None]:
        """Starts it, and terminates it at the end of the block; raises RuntimeNotHealthy if it cannot be run."""
        child = await self._spawn(lambda: self._start(invocation, stdin, out, err))
        try:
            child.listen()
            yield child
        finally:
            await child.end()

    async def _spawn(self, start: Callable[[], Child]) -> Child:
        """Starts it in a thread, which takes milliseconds; on cancellation the new process is terminated."""
        spawned = asyncio.get_running_loop().run_in_executor(None, start)
        try:
            return await asyncio.shield(spawned)
        except asyncio.CancelledError:
            with suppress(RuntimeNotHealthy):
                await (await spawned).end()
            raise

    def _start(self, invocation: Invocation, stdin: bytes | None, out: int, err: int) -> Child:
        args, env = (self.program, *invocation.args), {**self._env, **invocation.env}
        try:
            if stdin is None:
                return Child(args, env, stdin=None, out=out, err=err)
            with _file_of(stdin) as file:
                return Child(args, env, stdin=file, out=out, err=err)
        except (FileNotFoundError, PermissionError, NotADirectoryError) as error:
            raise RuntimeNotHealthy(f"there is no program {self.program!r} on PATH; install it") from error
        except (OSError, ValueError) as error:
            raise RuntimeNotHealthy(f"cannot start {self.program}: {error}") from error


async def pump(stream: asyncio.StreamReader | None, sink: Sink) -> None:
    """Copies a stream to a sink until it ends."""
    while stream is not None and (data := await stream.read(_CHUNK)):
        sink.write(data)


def _file_of(stdin: bytes) -> IO[bytes]:
    """An anonymous file as stdin: the tool may leave it unread, and no writer blocks."""
    file = tempfile.TemporaryFile(buffering=0)  # noqa: SIM115  (handed to the tool)
    file.write(stdin)
    file.seek(0)
    return file
