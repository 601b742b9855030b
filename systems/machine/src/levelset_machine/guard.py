"""Keeps a small process beside this one, which ends what we have started if we are killed without a chance to do so."""

import asyncio
import logging
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Final

from levelset_machine.exits import ExitWatch
from levelset_machine.identity import Identity, identity_of

__all__ = ["Guard"]

_LAUNCH: Final = (
    # The package without its __init__, and without what is installed: the guard needs four small files of it.
    "import sys, types\n"
    "package = types.ModuleType('levelset_machine')\n"
    "package.__path__ = [sys.argv[1]]\n"
    "sys.modules['levelset_machine'] = package\n"
    "from levelset_machine.guarding import main\n"
    "main(sys.argv[2:])\n"
)
_FIRST_DELAY: Final = 0.05
_LONGEST_DELAY: Final = 5.0
_PATIENCE: Final = 15.0
_log: Final = logging.getLogger(__name__)


class Guard:
    """The other end of the pipe to the guard process. That one is started with the first process it has to know of."""

    def __init__(self, token: str) -> None:
        self._token = token
        self._known = dict[int, Identity]()
        self._child: subprocess.Popen[bytes] | None = None
        self._watch: ExitWatch | None = None
        self._pipe: _Pipe | None = None
        self._again: asyncio.TimerHandle | None = None
        self._delay = _FIRST_DELAY
        self._began = 0.0
        self._is_closing = False
        self._gone: asyncio.Future[None] | None = None

    @property
    def identity(self) -> Identity | None:
        """The guard process that is there now."""
        return None if self._watch is None else self._watch.identity

    def begin(self) -> None:
        """Makes sure that there is a guard process: before the first one is born that it has to guard."""
        if self._child is None and self._again is None and not self._is_closing:
            self._start()

    def watch(self, identity: Identity) -> None:
        """From now on this process ends when we do."""
        self._known[identity.pid] = identity
        self._tell(_plus(identity))

    def forget(self, identity: Identity) -> None:
        """This process has ended."""
        if self._known.get(identity.pid) == identity:
            del self._known[identity.pid]
            self._tell(b"-%d\n" % identity.pid)

    async def close(self, *, is_tidy: bool) -> None:
        """Lets the guard end what is left, and waits for it; `is_tidy` says that there is nothing left."""
        self._is_closing = True
        if self._again is not None:
            self._again.cancel()
        if self._pipe is None or self._child is None:
            return
        self._gone = asyncio.get_running_loop().create_future()
        self._pipe.close(b"bye\n" if is_tidy else b"")
        try:
            async with asyncio.timeout(_PATIENCE):
                await self._gone
        except TimeoutError:
            _log.warning("the guard process does not end; it is killed")
            self._child.kill()
            await self._gone

    def _start(self) -> None:
        self._again = None
        if self._is_closing:
            return
        me = identity_of(os.getpid())
        words = [self._token, str(os.getpid()), str(0 if me is None else me.started)]
        try:
            self._child, end = _launch(words)
            self._pipe = _Pipe(end)
            self._watch = ExitWatch(self._child.pid, self._ended, _has_ended(self._child))
        except OSError as error:
            _log.warning("the guard process cannot be started", extra={"error": str(error)})
            self._abandon()
            self._start_later()
            return
        self._began = asyncio.get_running_loop().time()
        self._tell(b"".join(_plus(one) for one in self._known.values()))

    def _abandon(self) -> None:
        """Takes a start back that went halfway."""
        if self._pipe is not None:
            self._pipe.close(b"")
        if self._child is not None:
            self._child.kill()
            self._child.wait()
        self._pipe = self._child = None

    def _start_later(self) -> None:
        loop = asyncio.get_running_loop()
        if loop.time() - self._began > 2 * _LONGEST_DELAY:  # it did well for a while
            self._delay = _FIRST_DELAY
        self._again = loop.call_later(self._delay, self._start)
        self._delay = min(self._delay * 2, _LONGEST_DELAY)

    def _ended(self) -> None:
        if self._child is None or self._child.poll() is None or self._pipe is None or self._watch is None:
            return
        self._pipe.close(b"")
        self._watch.close()
        self._child = self._pipe = self._watch = None
        if self._gone is not None and not self._gone.done():
            self._gone.set_result(None)
        if not self._is_closing:
            _log.warning("the guard process was killed; another one is started")
            self._start_later()

    def _tell(self, data: bytes) -> None:
        if self._pipe is not None:
            self._pipe.write(data)


class _Pipe:
    """The writing end of a pipe, which keeps what does not fit yet."""

    def __init__(self, end: int) -> None:
        self._end: int | None = end
        self._kept = bytearray()
        self._loop = asyncio.get_running_loop()
        os.set_blocking(end, False)

    def write(self, data: bytes) -> None:
        """Sends these bytes, some of them later if need be."""
        self._kept += data
        self._flush()

    def close(self, last: bytes) -> None:
        """Sends these bytes if there is room for them, and ends the pipe."""
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
            while self._kept:
                del self._kept[: os.write(self._end, self._kept)]
            self._loop.remove_writer(self._end)
        except BlockingIOError:
            self._loop.add_writer(self._end, self._flush)
        except OSError:  # the guard is gone, which is noticed where its end is watched
            self._kept.clear()
            self._loop.remove_writer(self._end)


def _launch(words: list[str]) -> tuple[subprocess.Popen[bytes], int]:
    """A guard process, and the writing end of its pipe."""
    folder = str(Path(__file__).parent)
    theirs, ours = os.pipe()
    try:
        child = subprocess.Popen(  # noqa: S603  (our own words)
            [sys.executable, "-I", "-S", "-c", _LAUNCH, folder, *words],
            stdin=theirs,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
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


def _plus(identity: Identity) -> bytes:
    return b"+%d %d\n" % (identity.pid, identity.started)
