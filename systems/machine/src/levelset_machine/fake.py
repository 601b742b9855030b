"""FakeMachine: a Runner and Prober for tests, whose programs are scripted and run in the time of the event loop.

```python
fake = FakeMachine()
fake.program("web", prints=["hello"], ready_after=2.0)
fake.program("job", exits=3, after=5.0)
```

It stands for the machine, not for the program that uses it: when a controller is killed in a test and started again,
the runs still exist, unless `crash` has ended them.
"""

import asyncio
import signal as signals
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Final
from urllib.parse import urlsplit

from levelset.aio import timing
from levelset_machine.logs import LogSink
from levelset_machine.probes import (
    Check,
    ExecCheck,
    HttpCheck,
    ProbeResult,
    TcpCheck,
    exit_code_result,
    http_status_result,
)
from levelset_machine.process import CannotStart, Command, Ended, Identity, Run, StopFailed, ends_within

__all__ = ["FakeMachine", "FakeProgram", "FakeRun"]

_START: Final = datetime(2026, 1, 1, tzinfo=UTC)
_KILLED: Final = 128 + signals.SIGKILL
_AFTER_GRACE: Final = 9.0
_ANY_PROGRAM: Final = "*"


@dataclass(frozen=True, kw_only=True)
class FakeProgram:
    """What a fake program does: its output, its exit, and its answers to probes and signals."""

    exits: tuple[int, ...] = ()
    """The exit codes of the first start, the second, and so on, the last one for all others; empty: it never exits."""
    after: float = 0.0
    """Seconds from its start to its exit."""
    prints: tuple[tuple[float, str], ...] = ()
    """Lines of output, each with the seconds after its start."""
    ready: bool = True
    ready_after: float = 0.0
    """Seconds from its start until it is ready."""
    hangs: bool = False
    """Whether probes time out."""
    answers: Mapping[str, int] = field(default_factory=dict[str, int])
    """HTTP statuses by path, whether it is ready or not."""
    ports: tuple[int, ...] | None = None
    """The ports on which it listens; None for all."""
    ignores_term: bool = False
    stops_in: float = 0.0
    """Seconds from the signal to its exit."""
    stop_code: int | None = None
    """Its exit code after a signal; None for 128 plus the signal's number."""
    unstoppable: bool = False

    def code(self, start: int) -> int | None:
        """The exit code of its n-th start, counted from 0; None if it does not exit."""
        return self.exits[min(start, len(self.exits) - 1)] if self.exits else None


class FakeRun:
    """A run of a FakeMachine."""

    def __init__(
        self, identity: Identity, command: Command, program: FakeProgram, sinks: tuple[LogSink, ...], began: float
    ) -> None:
        self.identity = identity
        self.command = command
        self.program = program
        self.is_persistent = False
        self.is_ready: bool | None = None
        """Overrides whether it is ready; None leaves that to its program."""
        self.signals = list[int]()
        """The signals that it was sent."""
        self.sinks = sinks
        self._began = began
        self._ended: Ended | None = None
        self._waiters = set[asyncio.Future[Ended]]()

    def __repr__(self) -> str:
        return f"<fake process {self.identity.pid}: {' '.join(self.command.argv)}>"

    @property
    def ended(self) -> Ended | None:
        """How it ended; None while it runs."""
        return self._ended

    async def wait(self) -> Ended:
        """Returns when it has ended."""
        if self._ended is not None:
            return self._ended
        waiter: asyncio.Future[Ended] = asyncio.get_running_loop().create_future()
        self._waiters.add(waiter)
        try:
            return await waiter
        finally:
            self._waiters.discard(waiter)

    def is_ready_at(self, time: float) -> bool:
        """Whether it is ready at this time of the event loop."""
        if self.is_ready is not None:
            return self.is_ready
        return self.program.ready and time >= self._began + self.program.ready_after

    def print(self, text: str) -> None:
        """Writes a line to its output."""
        if self._ended is None:
            self.sinks[0].write(f"{text}\n".encode(errors="surrogateescape"))

    def finish(self, ended: Ended) -> None:
        """Ends it and its logs."""
        self._ended = ended
        for sink in self.sinks:
            sink.close()
        for waiter in self._waiters:
            if not waiter.done():
                waiter.set_result(ended)
        self._waiters.clear()


class FakeMachine:
    """A fake Runner and Prober: its programs behave as `program` has defined.

    `now` is its clock; by default 2026-01-01 is time 0 of the event loop, for tests in virtual time.
    """

    def __init__(self, *, now: Callable[[], datetime] | None = None, redirects_succeed: bool = False) -> None:
        self._now = now or _virtual_now
        self._redirects_succeed = redirects_succeed
        self._programs = dict[str | tuple[str, ...], FakeProgram]()
        self._starts = dict[str | tuple[str, ...], int]()
        self.runs = list[FakeRun]()
        """All runs in the order of their start, also those that have ended."""

    @property
    def running(self) -> list[FakeRun]:
        """The runs that have not ended, the oldest first."""
        return [run for run in self.runs if run.ended is None]

    def program(
        self,
        name: str | Sequence[str],
        *,
        exits: int | Sequence[int] | None = None,
        after: float | None = None,
        prints: Sequence[str | tuple[float, str]] = (),
        ready: bool = True,
        ready_after: float = 0.0,
        hangs: bool = False,
        answers: Mapping[str, int] | None = None,
        ports: Sequence[int] | None = None,
        ignores_term: bool = False,
        stops_in: float = 0.0,
        stop_code: int | None = None,
        unstoppable: bool = False,
    ) -> None:
        """Defines what a program does; see FakeProgram. Existing runs are not affected.

        `name` is a whole argv or the first word of one; the argv takes precedence, and `*` matches all others. Several
        codes in `exits` are for the first start, the second, and so on. With `after` alone it exits with 0.
        """
        if exits is None:
            exits = () if after is None else 0
        self._programs[name if isinstance(name, str) else tuple(name)] = FakeProgram(
            exits=(exits,) if isinstance(exits, int) else tuple(exits),
            after=after or 0.0,
            prints=tuple((0.0, line) if isinstance(line, str) else line for line in prints),
            ready=ready,
            ready_after=ready_after,
            hangs=hangs,
            answers=dict(answers or {}),
            ports=None if ports is None else tuple(ports),
            ignores_term=ignores_term,
            stops_in=stops_in,
            stop_code=stop_code,
            unstoppable=unstoppable,
        )

    def start(self, command: Command, *, out: LogSink, err: LogSink | None = None, persistent: bool = False) -> FakeRun:
        """Starts a fake run; raises CannotStart if its program is not defined."""
        loop = asyncio.get_running_loop()
        name, program = self._program_of(command)
        count = len(self.runs) + 1
        run = FakeRun(
            Identity(1000 + count, count), command, program, (out,) if err is None else (out, err), loop.time()
        )
        run.is_persistent = persistent
        self.runs.append(run)
        for delay, line in program.prints:
            if delay > 0:
                loop.call_later(delay, run.print, line)
            else:
                run.print(line)
        start = self._starts[name] = self._starts.get(name, -1) + 1
        code = program.code(start)
        if code is not None:
            loop.call_later(program.after, self.exit, run, code)
        return run

    async def stop(self, run: Run, *, grace: float = 6.0, signal: int = signals.SIGTERM) -> None:
        """Signals a run, and kills it after `grace` seconds; raises StopFailed for an unstoppable program."""
        mine = self._find(run.identity)
        if mine is None or mine.ended is not None:
            return
        loop, program = asyncio.get_running_loop(), mine.program
        mine.signals.append(signal)
        if not program.ignores_term and not program.unstoppable:
            code = 128 + signal if program.stop_code is None else program.stop_code
            # Scheduled, not awaited: the signal takes effect even if this call is cancelled.
            loop.call_later(program.stops_in, self.exit, mine, code)
        if await ends_within(mine, grace):
            return
        mine.signals.append(signals.SIGKILL)
        if not program.unstoppable:
            self.exit(mine, _KILLED)
        elif not await ends_within(mine, _AFTER_GRACE):
            raise StopFailed(f"{mine!r} was killed, but is still running: its program is unstoppable", (mine.identity,))

    def adopt(self, identity: Identity) -> FakeRun | None:
        """The run with this identity; None if it has ended."""
        run = self._find(identity)
        return None if run is None or run.ended is not None else run

    def now(self) -> datetime:
        """The current time, in UTC."""
        return self._now()

    def exit(self, run: Run, code: int = 0) -> None:
        """Ends a run now; does nothing if it has ended."""
        mine = self._find(run.identity)
        if mine is not None and mine.ended is None:
            mine.finish(Ended(code, self.now()))

    def crash(self) -> None:
        """Ends all runs that are not persistent, as the guard process does when the manager is killed."""
        for run in self.running:
            if not run.is_persistent:
                self.exit(run, _KILLED)

    async def probe(self, check: Check, *, timeout: float) -> ProbeResult:  # noqa: ASYNC109  (the signature of Prober)
        """The result for the run that listens at the target, by its POD_IP and the ports of its program."""
        if isinstance(check, ExecCheck):
            return await self._run(check.command, timeout)
        host, port = _target(check)
        run = self._listening(host, port)
        if run is None:
            return ProbeResult("Failure", f"{host}:{port} cannot be reached: connection refused")
        if run.program.hangs:
            await timing.sleep(timeout)
            return ProbeResult("Failure", f"{host}:{port} did not answer within {timeout:g} s")
        is_ready = run.is_ready_at(timing.now())
        if isinstance(check, HttpCheck):
            usual = 200 if is_ready else 503
            status = run.program.answers.get(urlsplit(check.url).path or "/", usual)
            return http_status_result(status, redirects_succeed=self._redirects_succeed)
        if is_ready:
            return ProbeResult("Success", f"{host}:{port} accepts connections")
        return ProbeResult("Failure", f"{host}:{port} cannot be reached: the program is not ready")

    async def _run(self, command: Command, seconds: float) -> ProbeResult:
        """The result of an ExecCheck; the command is not added to the runs."""
        try:
            name, program = self._program_of(command)
        except CannotStart as error:
            return ProbeResult("Failure", str(error))
        start = self._starts[name] = self._starts.get(name, -1) + 1
        code = program.code(start)
        is_late = code is None or program.after > seconds
        await timing.sleep(seconds if is_late else program.after)
        printed = " ".join(line for _, line in program.prints)
        return exit_code_result(command.program, None if is_late else code, seconds=seconds, printed=printed)

    def _program_of(self, command: Command) -> tuple[str | tuple[str, ...], FakeProgram]:
        for name in (tuple(command.argv), command.program, _ANY_PROGRAM):
            if name in self._programs:
                return name, self._programs[name]
        raise CannotStart(
            f"cannot start {command.program!r}: there is no such program; define it with "
            f"`fake.program({command.program!r})`"
        )

    def _find(self, identity: Identity) -> FakeRun | None:
        # `started` is the 1-based position in `runs`.
        position = identity.started - 1
        found = self.runs[position] if 0 <= position < len(self.runs) else None
        return found if found is not None and found.identity == identity else None

    def _listening(self, host: str, port: int) -> FakeRun | None:
        """The run with this POD_IP; one whose program names the port takes precedence over one with any port."""
        local = [run for run in self.running if run.command.env.get("POD_IP", host) == host]
        exact = [run for run in local if run.program.ports is not None and port in run.program.ports]
        return next(iter([*exact, *(run for run in local if run.program.ports is None)]), None)


def _target(check: HttpCheck | TcpCheck) -> tuple[str, int]:
    if not isinstance(check, HttpCheck):
        return check.host, check.port
    parts = urlsplit(check.url)
    return parts.hostname or "", parts.port or (443 if parts.scheme == "https" else 80)


def _virtual_now() -> datetime:
    return _START + timedelta(seconds=timing.now())
