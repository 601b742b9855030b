"""The guard of a Machine: starts the guard process, reports processes to it, and restarts it if it is killed.

The guard process (see `guard_main`) ends what this program has started if this program is killed before it can.
"""

import asyncio
import logging
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Final

from levelset_machine.process.process_run import ExitWatch
from levelset_machine.process.runner import Identity, identity_of

__all__ = ["Guard"]

_LAUNCH: Final = (
    # Imports guard_main without running any __init__ and without site-packages: it needs three files only, and
    # importing the package would cost every guard process the memory and start-up time of levelset.
    "import sys, types\n"
    "for name, path in (('levelset_machine', []), ('levelset_machine.process', [sys.argv[1]])):\n"
    "    package = sys.modules[name] = types.ModuleType(name)\n"
    "    package.__path__ = path\n"
    "from levelset_machine.process.guard_main import main\n"
    "main(sys.argv[2:])\n"
)
_FIRST_DELAY: Final = 0.05
_LONGEST_DELAY: Final = 5.0
_CLOSE_TIMEOUT: Final = 15.0
_log: Final = logging.getLogger(__name__)


class Guard:
    """The manager's end of the pipe to the guard process, which is started with the first process to guard."""

    def __init__(self, token: str) -> None:
        self._token = token
        self._guarded = dict[int, Identity]()
        self._child: subprocess.Popen[bytes] | None = None
        self._watch: ExitWatch | None = None
        self._pipe: _Pipe | None = None
        self._restart: asyncio.TimerHandle | None = None
        self._delay = _FIRST_DELAY
        self._began = 0.0
        self._is_closing = False
        self._exited: asyncio.Future[None] | None = None

    @property
    def identity(self) -> Identity | None:
        """The current guard process; None if there is none."""
        return None if self._watch is None else self._watch.identity

    def begin(self) -> None:
        """Starts the guard process if there is none; call it before the first process to guard is started."""
        if self._child is None and self._restart is None and not self._is_closing:
            self._start()

    def watch(self, identity: Identity) -> None:
        """Has the guard end this process when this program is gone."""
        self._guarded[identity.pid] = identity
        self._send(_added(identity))

    def forget(self, identity: Identity) -> None:
        """Removes a process that has ended."""
        if self._guarded.get(identity.pid) == identity:
            del self._guarded[identity.pid]
            self._send(b"-%d\n" % identity.pid)

    async def close(self, *, is_tidy: bool) -> None:
        """Has the guard end what is left, and waits for its exit; `is_tidy` means that nothing is left."""
        self._is_closing = True
        if self._restart is not None:
            self._restart.cancel()
        if self._pipe is None or self._child is None:
            return
        self._exited = asyncio.get_running_loop().create_future()
        self._pipe.close(b"bye\n" if is_tidy else b"")
        try:
            async with asyncio.timeout(_CLOSE_TIMEOUT):
                await self._exited
        except TimeoutError:
            _log.warning("guard process does not exit; killing it")
            self._child.kill()
            await self._exited

    def _start(self) -> None:
        self._restart = None
        if self._is_closing:
            return
        me = identity_of(os.getpid())
        arguments = [self._token, str(os.getpid()), str(0 if me is None else me.started)]
        try:
            self._child, end = _launch(arguments)
            self._pipe = _Pipe(end)
            self._watch = ExitWatch(self._child.pid, self._ended, _has_ended(self._child))
        except OSError as error:
            _log.warning("guard process cannot be started; retrying", extra={"error": str(error)})
            self._abandon()
            self._start_later()
            return
        self._began = asyncio.get_running_loop().time()
        self._send(b"".join(_added(one) for one in self._guarded.values()))

    def _abandon(self) -> None:
        """Undoes a start that failed halfway."""
        if self._pipe is not None:
            self._pipe.close(b"")
        if self._child is not None:
            self._child.kill()
            self._child.wait()
        self._pipe = self._child = None

    def _start_later(self) -> None:
        loop = asyncio.get_running_loop()
        if loop.time() - self._began > 2 * _LONGEST_DELAY:  # the last one ran long enough: this is not a crash loop
            self._delay = _FIRST_DELAY
        self._restart = loop.call_later(self._delay, self._start)
        self._delay = min(self._delay * 2, _LONGEST_DELAY)

    def _ended(self) -> None:
        if self._child is None or self._child.poll() is None or self._pipe is None or self._watch is None:
            return
        self._pipe.close(b"")
        self._watch.close()
        self._child = self._pipe = self._watch = None
        if self._exited is not None and not self._exited.done():
            self._exited.set_result(None)
        if not self._is_closing:
            _log.warning("guard process was killed; starting another one")
            self._start_later()

    def _send(self, data: bytes) -> None:
        if self._pipe is not None:
            self._pipe.write(data)


class _Pipe:
    """The writing end of a pipe, which buffers what the pipe cannot take yet."""

    def __init__(self, end: int) -> None:
        self._end: int | None = end
        self._buffer = bytearray()
        self._loop = asyncio.get_running_loop()
        os.set_blocking(end, False)

    def write(self, data: bytes) -> None:
        """Writes these bytes now, or when the pipe can take them."""
        self._buffer += data
        self._flush()

    def close(self, last: bytes) -> None:
        """Writes these bytes if the pipe can take them now, and closes it."""
        if self._end is None:
            return
        self.write(last)
        self._loop.remove_writer(self._end)
        os.close(self._end)
        self._end = None

    def _flush(self) -> None:
        if self._end is None:
            return
        try:
            while self._buffer:
                del self._buffer[: os.write(self._end, self._buffer)]
            self._loop.remove_writer(self._end)
        except BlockingIOError:
            self._loop.add_writer(self._end, self._flush)
        except OSError:  # the guard process is gone: its ExitWatch handles that
            self._buffer.clear()
            self._loop.remove_writer(self._end)


def _launch(arguments: list[str]) -> tuple[subprocess.Popen[bytes], int]:
    """Starts a guard process; returns it and the writing end of its pipe."""
    folder = str(Path(__file__).parent)
    theirs, ours = os.pipe()
    try:
        child = subprocess.Popen(  # noqa: S603  (our own arguments)
            [sys.executable, "-I", "-S", "-c", _LAUNCH, folder, *arguments],
            stdin=theirs,
            stdout=subprocess.DEVNULL,
            cwd="/",
            env={},
            start_new_session=True,
        )
    except BaseException:
        os.close(ours)
        raise
    finally:
        os.close(theirs)
    return child, ours


def _has_ended(child: "subprocess.Popen[bytes]") -> Callable[[], bool]:
    return lambda: child.poll() is not None


def _added(identity: Identity) -> bytes:
    return b"+%d %d\n" % (identity.pid, identity.started)
