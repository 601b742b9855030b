"""A machine that runs nothing: what programs do is told by a test, and time is that of the event loop.

```python
pretend = PretendMachine()
pretend.program("web", prints=["hello"], ready_after=2.0)
pretend.program("job", exits=3, after=5.0)
```

It is a Runner and a Prober. It stands for the machine and not for the program that uses it: when a controller is
killed in a test and started again, the runs are still there, unless `crash` says that they are not.
"""

import asyncio
import signal as signals
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Final
from urllib.parse import urlsplit

from levelset.aio import timing
from levelset_machine.command import CannotStart, Command
from levelset_machine.identity import Identity
from levelset_machine.logs import LogSink
from levelset_machine.pretend_programs import PretendProgram, PretendRun
from levelset_machine.probes import Check, ExecCheck, HttpCheck, TcpCheck, Verdict, judge_code, judge_status
from levelset_machine.runner import Ended, Run, StopFailed

__all__ = ["PretendMachine"]

_START: Final = datetime(2026, 1, 1, tzinfo=UTC)
_KILLED: Final = 128 + signals.SIGKILL
_AFTER_GRACE: Final = 9.0
_EVERYTHING: Final = "*"


class PretendMachine:
    """Pretends to run programs, and to ask them how they are.

    `now` is the time of day; by default 2026 begins when the loop's clock shows 0, as in tests in virtual time.
    """

    def __init__(self, *, now: Callable[[], datetime] | None = None, redirects_succeed: bool = False) -> None:
        self._now = now or _virtual_now
        self._redirects_succeed = redirects_succeed
        self._programs = dict[str | tuple[str, ...], PretendProgram]()
        self._starts = dict[str | tuple[str, ...], int]()
        self.runs = list[PretendRun]()
        """All that was ever started, in this order."""

    @property
    def running(self) -> list[PretendRun]:
        """What runs now, the eldest first."""
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
        """Says what a program does; see PretendProgram. What runs already goes on as it was told.

        It is found by its whole command if `name` is one, else by its first word; `*` stands for all others. Several
        codes in `exits` are for the first start, the second, and so on. With `after` alone it exits with 0 then.
        """
        if exits is None:
            exits = () if after is None else 0
        self._programs[name if isinstance(name, str) else tuple(name)] = PretendProgram(
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

    def start(
        self, command: Command, *, out: LogSink, err: LogSink | None = None, persistent: bool = False
    ) -> PretendRun:
        """Pretends to start a program; CannotStart if nobody has told what it does."""
        loop = asyncio.get_running_loop()
        name, program = self._script(command)
        count = len(self.runs) + 1
        run = PretendRun(
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
        """Sends a signal to a run, and kills it after `grace` seconds."""
        mine = self._find(run.identity)
        if mine is None or mine.ended is not None:
            return
        loop, program = asyncio.get_running_loop(), mine.program
        mine.signals.append(signal)
        if not program.ignores_term and not program.unstoppable:
            code = 128 + signal if program.stop_code is None else program.stop_code
            # The signal was sent, whatever becomes of who waits here.
            loop.call_later(program.stops_in, self.exit, mine, code)
        if await _ends_within(mine, grace):
            return
        mine.signals.append(signals.SIGKILL)
        if not program.unstoppable:
            self.exit(mine, _KILLED)
        elif not await _ends_within(mine, _AFTER_GRACE):
            raise StopFailed(f"{mine!r} was killed, but is still running: the test says so", (mine.identity,))

    def adopt(self, identity: Identity) -> PretendRun | None:
        """The run with this identity, if it is still there."""
        run = self._find(identity)
        return None if run is None or run.ended is not None else run

    def now(self) -> datetime:
        """The time of day, in UTC."""
        return self._now()

    def exit(self, run: Run, code: int = 0) -> None:
        """Ends a run now; nothing happens if it has ended."""
        mine = self._find(run.identity)
        if mine is not None and mine.ended is None:
            mine.finish(Ended(code, self.now()))

    def crash(self) -> None:
        """Ends all runs that are not persistent, as a guard does when the program that it belongs to is killed."""
        for run in self.running:
            if not run.is_persistent:
                self.exit(run, _KILLED)

    async def probe(self, check: Check, *, timeout: float) -> Verdict:  # noqa: ASYNC109  (the words of Prober)
        """What the run that is asked would answer; it is found by its POD_IP, and by the ports of its program."""
        if isinstance(check, ExecCheck):
            return await self._run(check.command, timeout)
        host, port = _target(check)
        run = self._listening(host, port)
        if run is None:
            return Verdict("Failure", f"{host}:{port} cannot be reached: nobody listens there")
        if run.program.hangs:
            await timing.sleep(timeout)
            return Verdict("Failure", f"{host}:{port} did not answer within {timeout:g} s")
        is_ready = run.is_ready_at(timing.now())
        if isinstance(check, HttpCheck):
            usual = 200 if is_ready else 503
            status = run.program.answers.get(urlsplit(check.url).path or "/", usual)
            return judge_status(status, redirects_succeed=self._redirects_succeed)
        if is_ready:
            return Verdict("Success", f"{host}:{port} takes connections")
        return Verdict("Failure", f"{host}:{port} cannot be reached: it is not ready")

    async def _run(self, command: Command, seconds: float) -> Verdict:
        """A command as a check: it is not among the runs, and only its exit code counts."""
        try:
            name, program = self._script(command)
        except CannotStart as error:
            return Verdict("Failure", str(error))
        start = self._starts[name] = self._starts.get(name, -1) + 1
        code = program.code(start)
        is_late = code is None or program.after > seconds
        await timing.sleep(seconds if is_late else program.after)
        printed = " ".join(line for _, line in program.prints)
        return judge_code(command.program, None if is_late else code, seconds=seconds, printed=printed)

    def _script(self, command: Command) -> tuple[str | tuple[str, ...], PretendProgram]:
        for name in (tuple(command.argv), command.program, _EVERYTHING):
            if name in self._programs:
                return name, self._programs[name]
        raise CannotStart(
            f"cannot start {command.program!r}: there is no such program; tell what it does: "
            f"`pretend.program({command.program!r})`"
        )

    def _find(self, identity: Identity) -> PretendRun | None:
        # They are numbered in the order of their starts.
        place = identity.started - 1
        found = self.runs[place] if 0 <= place < len(self.runs) else None
        return found if found is not None and found.identity == identity else None

    def _listening(self, host: str, port: int) -> PretendRun | None:
        """Who was told this address, and among those who was told this port before who takes any."""
        near = [run for run in self.running if run.command.env.get("POD_IP", host) == host]
        exact = [run for run in near if run.program.ports is not None and port in run.program.ports]
        return next(iter([*exact, *(run for run in near if run.program.ports is None)]), None)


def _target(check: HttpCheck | TcpCheck) -> tuple[str, int]:
    if not isinstance(check, HttpCheck):
        return check.host, check.port
    parts = urlsplit(check.url)
    return parts.hostname or "", parts.port or (443 if parts.scheme == "https" else 80)


async def _ends_within(run: Run, seconds: float) -> bool:
    try:
        async with timing.within(seconds):
            await run.wait()
    except TimeoutError:
        return False
    return True


def _virtual_now() -> datetime:
    return _START + timedelta(seconds=timing.now())
