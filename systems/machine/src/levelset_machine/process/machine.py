"""Runs processes on this machine, and ends them with all their descendants.

```python
async with Machine() as machine:
    run = machine.start(Command(argv=("sleep", "60"), env=dict(os.environ)), out=logs.open("sleep"))
    await machine.stop(run)
```
"""

import asyncio
import contextlib
import resource
import signal as signals
import subprocess
import threading
import weakref
from collections.abc import Generator
from datetime import UTC, datetime
from types import TracebackType
from typing import Final, Self

from levelset_machine.logs import LogSink
from levelset_machine.process.command import CannotStart, Command, cannot_start
from levelset_machine.process.guard import Guard
from levelset_machine.process.marker import MARKER, inherited_marker, new_token, read_limit_marker, run_marker
from levelset_machine.process.orphans import MachineFile, end_orphans
from levelset_machine.process.process_run import ExitWatch, ProcessRun
from levelset_machine.process.runner import Identity, Run, StopFailed, is_alive
from levelset_machine.process.session import Session
from levelset_machine.process.streams import FileStreams, PipeStreams, Pump, Streams
from levelset_machine.process.table import read_entry
from levelset_machine.process.terminal import Terminal
from levelset_machine.process.termination import SharedTable, stop_run

__all__ = ["Machine"]

_FILE_LIMIT: Final = 65536
_INHERITED: Final = (signals.SIGINT, signals.SIGQUIT, signals.SIGHUP)
_ADOPTED_PERIOD: Final = 2.0
_left_running: Final = list[subprocess.Popen[bytes]]()
"""Persistent processes of closed machines: referenced here, or Popen's finalizer would warn that they still run."""


class Machine:
    """Runs processes; on leaving its block, all that are not persistent are stopped.

    If this program is killed before that, a guard process stops them within seconds, unless `guard` is False; if both
    are killed at once, the next machine of this user does.
    """

    def __init__(self, *, guard: bool = True, grace: float = 6.0) -> None:
        """`grace` is the grace period, in seconds, for processes that are stopped on leaving the block."""
        self._token = new_token()
        self._guard = Guard(self._token) if guard else None
        self._file = MachineFile(self._token) if guard else None
        self._grace = grace
        self._runs = dict[Identity, ProcessRun]()
        self._count = 0
        self._tables = SharedTable()
        self._is_closing = False
        self._pumps = weakref.WeakSet[Pump]()

    @property
    def running(self) -> list[Run]:
        """The runs that have not ended, the oldest first."""
        return list(self._runs.values())

    @property
    def guard(self) -> Identity | None:
        """The guard process; None before the first start."""
        return None if self._guard is None else self._guard.identity

    def now(self) -> datetime:
        """The current time, in UTC."""
        return datetime.now(UTC)

    def start(self, command: Command, *, out: LogSink, err: LogSink | None = None, persistent: bool = False) -> Run:
        """Starts a process as the leader of a new session; see Runner."""
        return self._start(command, FileStreams(out, err) if persistent else PipeStreams(out, err))

    def start_on(self, terminal: Terminal, command: Command) -> Run:
        """Starts a process on a terminal; it is never persistent. See Terminal."""
        run = self._start(command, terminal.streams())
        run.when_ended(lambda end: terminal.exited(end.code))
        return run

    def start_session(self, session: Session, command: Command) -> Run:
        """Starts a process whose streams the caller reads and writes; it is never persistent. See Session."""
        session.prepare()
        return self._start(command, session)

    async def stop(self, run: Run, *, grace: float = 6.0, signal: int = signals.SIGTERM) -> None:
        """Ends a run and all that it has started; see Runner."""
        mine = run if isinstance(run, ProcessRun) else self._adopted(run.identity)
        if mine is not None:
            await stop_run(mine, self._tables, grace=grace, signal=signal)

    def adopt(self, identity: Identity) -> Run | None:
        """The run of any process of the machine, or the existing one if this machine started it; see Runner."""
        return self._adopted(identity)

    async def __aenter__(self) -> Self:
        if self._file is not None:
            await asyncio.to_thread(end_orphans)
            await asyncio.to_thread(self._file.open)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._is_closing = True
        failures = list[StopFailed]()
        try:
            async with asyncio.TaskGroup() as group:
                for run in list(self._runs.values()):
                    if not run.is_persistent:
                        group.create_task(self._stop_last(run, failures), name=f"stop {run.identity.pid}")
        finally:
            for run in list(self._runs.values()):
                self._detach(run)
            if self._guard is not None:
                await self._guard.close(is_tidy=not failures)
            if self._file is not None:
                await asyncio.to_thread(self._file.close)
            for pump in list(self._pumps):
                pump.close()
        if failures:
            raise failures[0]

    async def _stop_last(self, run: ProcessRun, failures: list[StopFailed]) -> None:
        try:
            await self.stop(run, grace=self._grace)
        except StopFailed as failure:  # the other runs are stopped all the same
            failures.append(failure)

    def _start(self, command: Command, streams: Streams) -> ProcessRun:
        if self._is_closing:
            raise CannotStart(f"cannot start {command.program!r}: its Machine is being stopped")
        _raise_file_limit()
        marker = self._marker(streams)
        try:
            child = _spawn(command, marker, streams)
        except (OSError, ValueError) as error:
            streams.close()
            raise cannot_start(command, error) from error
        return self._begin(command, child, marker, streams)

    def _marker(self, streams: Streams) -> str:
        """The marker of the next run; that of a persistent one has a token of its own, which no guard looks for."""
        if streams.is_persistent:
            return run_marker(new_token(), 1)
        self._count += 1
        if self._guard is not None:
            self._guard.begin()
        return run_marker(self._token, self._count)

    def _begin(self, command: Command, child: "subprocess.Popen[bytes]", marker: str, streams: Streams) -> ProcessRun:
        """Watches a process that was just started; kills it if that is impossible."""
        run = ProcessRun(self.now, child=child, marker=marker, is_persistent=streams.is_persistent)
        try:
            watch = ExitWatch(child.pid, lambda: self._ended(run), lambda: child.poll() is not None)
        except OSError as error:
            child.kill()
            child.wait()
            streams.close()
            raise cannot_start(command, error) from error
        pumps = streams.pump()
        self._pumps.update(pumps)
        run.begin(watch, pumps)
        self._runs[run.identity] = run
        if self._guard is not None and not run.is_persistent:
            self._guard.watch(run.identity)
        return run

    def _adopted(self, identity: Identity) -> ProcessRun | None:
        known = self._runs.get(identity)
        if known is not None:
            return known
        run = ProcessRun(self.now, child=None, marker=_adopted_marker(identity), is_persistent=True)
        try:
            watch = ExitWatch(
                identity.pid, lambda: self._ended(run), lambda: not is_alive(identity), period=_ADOPTED_PERIOD
            )
        except ProcessLookupError:
            return None
        if watch.identity != identity or not is_alive(identity):
            watch.close()
            return None
        run.begin(watch, ())
        self._runs[identity] = run
        return run

    def _ended(self, run: ProcessRun) -> None:
        run.finish()
        self._runs.pop(run.identity, None)
        if self._guard is not None:
            self._guard.forget(run.identity)

    def _detach(self, run: ProcessRun) -> None:
        """Stops watching a process that goes on."""
        self._runs.pop(run.identity, None)
        child = run.detach()
        if child is not None:
            _left_running.append(child)


def _spawn(command: Command, marker: str, streams: Streams) -> "subprocess.Popen[bytes]":
    if not command.argv:
        raise ValueError("empty argv")
    env = {name: value for name, value in command.env.items() if name != MARKER}
    if not streams.is_persistent:
        env[MARKER] = marker
    _left_running[:] = [child for child in _left_running if child.poll() is None]
    argv, (stdin, out, err) = streams.words(command), streams.open()
    try:
        with _default_signals(), inherited_marker(marker):
            return subprocess.Popen(  # noqa: S603  (running commands of the caller is its purpose)
                argv, stdin=stdin, stdout=out, stderr=err, env=env, cwd=command.cwd, start_new_session=True
            )
    finally:
        streams.release()


def _adopted_marker(identity: Identity) -> str:
    """The marker of a process that leads its session, as the root process of a run does; empty for any other."""
    entry = read_entry(identity.pid)
    is_root = entry is not None and entry.started == identity.started and entry.session == identity.pid
    return read_limit_marker(identity.pid) if is_root else ""


@contextlib.contextmanager
def _default_signals() -> Generator[None, None, None]:
    """Resets ignored signals for the child: shells start background jobs with SIGINT ignored, and that is inherited.

    Such a child could not be interrupted from its terminal.
    """
    ignored: list[signals.Signals] = []
    if threading.current_thread() is threading.main_thread():
        ignored = [one for one in _INHERITED if signals.getsignal(one) is signals.SIG_IGN]
    for one in ignored:
        signals.signal(one, signals.SIG_DFL)
    try:
        yield
    finally:
        for one in ignored:
            signals.signal(one, signals.SIG_IGN)


def _raise_file_limit() -> None:
    """Raises the limit of open files up to the hard limit: each process needs two or three."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _FILE_LIMIT if hard == resource.RLIM_INFINITY else min(hard, _FILE_LIMIT)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        with contextlib.suppress(OSError, ValueError):  # the current limit stays
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
