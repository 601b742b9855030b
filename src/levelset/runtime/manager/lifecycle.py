"""The life of a manager: members start by phase, the first failure ends it all, and the end goes backwards in time.

One thing that a manager runs: a task with a name, an end that somebody hears of, and a way to stop it.

What starts before what, and stops after what: the order of a manager's life, without doing any of it.

Servers come first, so that whoever asks how we are gets an answer while caches fill, and webhooks before caches,
since the first list may need a conversion. What only a leader may do comes last. Stopping goes the other way round.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from enum import IntEnum
from typing import Any, Final

from levelset.aio import Crashed, Unstopped, timing
from levelset.aio.supervisor import Interruption
from levelset.errors import ConfigError, LeaseLost

__all__ = ["Life", "Member", "Phase", "Roster", "Work"]

Work = Callable[[], Coroutine[Any, Any, object]]
"""Makes the coroutine that is run: a coroutine function."""

_FIRM: Final = 5.0


class Member:
    """Runs `work` in a task from `start` until it ends or is stopped.

    `ask_to_stop`, if there is one, is the polite way: it is given the seconds that are left, and returns when the work
    is done. Without it, to stop is to cancel at once; cleaning up has as long as is left. `ended` hears of an error
    that was not our doing; that of a member that is being stopped comes back from `stop`.
    """

    def __init__(self, name: str, work: Work, *, ended: Callable[["Member", Exception], None]) -> None:
        self.name = name
        self._work = work
        self._ended = ended
        self._task: asyncio.Task[object] | None = None
        self._is_stopped = self._has_failed = False

    @property
    def is_running(self) -> bool:
        """Whether it has been started and has not ended."""
        return self._task is not None and not self._task.done()

    def start(self) -> None:
        """Starts it; once."""
        self._task = asyncio.get_running_loop().create_task(self._work(), name=f"manager/{self.name}")
        self._task.add_done_callback(self._note_end)

    async def ask_to_stop(self, within: float | None) -> None:
        """The polite way; nothing unless a kind of member has one."""

    async def stop(self, within: float | None) -> None:
        """Returns when it has ended; raises what it failed with meanwhile, or Unstopped if it ignores its cancellation.

        None is as long as it takes.
        """
        self._is_stopped = True
        task = self._task
        if task is None:
            return
        until = timing.deadline(within)
        try:
            if not task.done():
                await self.ask_to_stop(within)
        finally:
            task.cancel()
            await self._wait_end(task, timing.remaining(until))
        if not self._has_failed and not task.cancelled() and isinstance(error := task.exception(), Exception):
            raise error

    async def _wait_end(self, task: "asyncio.Task[object]", left: float | None) -> None:
        seconds = None if left is None else max(left, _FIRM)
        await asyncio.wait([task], timeout=seconds)
        if not task.done():
            raise Unstopped("manager", [self.name], seconds or 0.0)

    def cancel(self) -> None:
        """Ends it at once, without waiting for it."""
        self._is_stopped = True
        if self._task is not None:
            self._task.cancel()

    def _note_end(self, task: "asyncio.Task[object]") -> None:
        if task.cancelled():
            if not self._is_stopped:
                self._ended(self, RuntimeError(f"{self.name} was cancelled, but not by its manager"))
            return
        error = task.exception()
        if error is None or self._is_stopped:
            return
        error.add_note(f"in {self.name!r} of the manager")
        # KeyboardInterrupt and SystemExit go their own way through the loop.
        if isinstance(error, Exception):
            self._has_failed = True
            self._ended(self, error)


class Phase(IntEnum):
    """The stages of a manager's start, in their order."""

    SERVERS = 0
    """Health and metrics."""

    WEBHOOKS = 1
    """What the API server itself asks."""

    CACHES = 2
    """The clusters and all that is declared there."""

    OTHERS = 3
    """What every replica does, leader or not."""

    WARM_UP = 4
    """The caches of what will run once we lead, so that a takeover is quick."""

    LEADERS = 5
    """What only the leader does; begins with the election."""


class Roster:
    """Who takes part, under which name and in which phase; and whether it may start now.

    `reached` is the last phase that has been begun, None before the start.
    """

    def __init__(self) -> None:
        self._members: dict[str, Phase] = {}
        self.reached: Phase | None = None
        self.is_stopping = False

    def __contains__(self, name: str) -> bool:
        return name in self._members

    def add(self, name: str, phase: Phase) -> bool:
        """Takes a member in, and says whether it is to be started at once; ConfigError for a name that is taken."""
        if self.is_stopping:
            raise ConfigError(f"cannot add {name!r}: the manager is stopping; make another one")
        if not name:
            raise ConfigError("what runs in a manager needs a name: it is what logs and metrics call it")
        if name in self._members:
            raise ConfigError(f"there is a {name!r} in this manager already; give one of them another name")
        self._members[name] = phase
        return self.reached is not None and phase <= self.reached

    def remove(self, name: str) -> None:
        """Forgets a member; nothing if there is none of that name."""
        self._members.pop(name, None)

    def begin(self, phase: Phase) -> list[str]:
        """Begins the next phase, and gives those to start in it, in the order in which they came."""
        if self.is_stopping:
            return []
        expected = Phase.SERVERS if self.reached is None else Phase(self.reached + 1)
        if phase is not expected:
            raise RuntimeError(f"phase {phase.name} cannot begin now: {expected.name} comes first")
        self.reached = phase
        return self._of(phase)

    def stop(self) -> list[tuple[Phase, list[str]]]:
        """Refuses newcomers from now on; gives who is to be stopped, phase by phase, in the order of stopping."""
        self.is_stopping = True
        last_first = [(phase, self._of(phase)[::-1]) for phase in reversed(Phase)]
        return [(phase, names) for phase, names in last_first if names]

    def _of(self, phase: Phase) -> list[str]:
        return [name for name, when in self._members.items() if when is phase]


_log: Final = logging.getLogger("levelset.runtime.manager")

Step = Callable[[], Awaitable[object]]


class Life:
    """Owns the members of a manager from the first to the last.

    `before_caches` are awaited when all work has ended, before clusters are closed; `at_last` when everything has. What
    they raise is kept with the other errors. `grace` is how long work may go on when the end has come; None is as long
    as it takes.
    """

    def __init__(self, *, grace: float | None) -> None:
        self.grace = grace
        self.members: dict[str, Member] = {}
        self.errors: list[Exception] = []
        self.before_caches: list[Step] = []
        self.at_last: list[Step] = []
        self.stop_wanted = asyncio.Event()
        self._roster = Roster()
        self._helpers: list[Member] = []
        self._block = Interruption()
        self._stopping: asyncio.Task[None] | None = None
        self._until: float | None = None
        self.is_forgiven = False
        """Whether the cancellation that ended the block was ours, and is over."""

    @property
    def reached(self) -> Phase | None:
        """The phase that has been begun last."""
        return self._roster.reached

    def enter(self) -> None:
        """Begins the block that a failure interrupts."""
        self._block.enter()

    def join(self, member: Member, phase: Phase) -> bool:
        """Takes a member in; whether it is to be started now. ConfigError as `Roster.add`."""
        is_due = self._roster.add(member.name, phase)
        self.members[member.name] = member
        return is_due

    def leave(self, name: str) -> None:
        """Forgets a member, which has been stopped."""
        self._roster.remove(name)
        self.members.pop(name, None)

    def begin(self, phase: Phase) -> Sequence[Member]:
        """Begins a phase; gives the members to start in it, none once the end has begun."""
        return [self.members[name] for name in self._roster.begin(phase)]

    def help(self, name: str, work: Callable[[], Awaitable[object]]) -> None:
        """Runs something of the manager's own; what fails there ends everything, too."""

        async def run() -> object:
            return await work()

        member = Member(name, run, ended=self.note_failure)
        self._helpers.append(member)
        member.start()

    def note_failure(self, member: Member, error: Exception) -> None:
        """A member has failed: everything stops, without grace if the reason is that we lead no longer."""
        self.errors.append(error)
        _log.error("a part of the manager has failed", extra={"part": member.name, "error": str(error)})
        if isinstance(error, LeaseLost):
            self.hurry()
        self.begin_stop()
        self._block.interrupt()

    def hurry(self) -> None:
        """Ends without grace: whatever works is cancelled at once."""
        self.begin_stop()
        self.grace, self._until = 0.0, timing.now()
        for phase, names in self._roster.stop():
            for name in names if phase >= Phase.OTHERS else ():
                self.members[name].cancel()

    def begin_stop(self) -> None:
        """Begins the end, unless it has begun."""
        if self._stopping is None:
            self._until = timing.deadline(self.grace)
            self.stop_wanted.set()
            self._roster.stop()
            self._stopping = asyncio.get_running_loop().create_task(self._wind_down(), name="manager/stopping")

    async def wait_over(self) -> None:
        """Returns when the end, which has begun, is over."""
        assert self._stopping is not None, "begin_stop comes first"
        await asyncio.wait([self._stopping])

    @property
    def _is_over(self) -> bool:
        return self._stopping is not None and self._stopping.done()

    async def finish(self, error: BaseException | None) -> None:
        """Leaves the block: returns when all is over, or raises what happened."""
        self.is_forgiven = self._block.leave() and isinstance(error, asyncio.CancelledError)
        self.begin_stop()
        cancelled: asyncio.CancelledError | None = None
        while not self._is_over:
            try:
                await self.wait_over()
            except asyncio.CancelledError as again:
                cancelled = again
                self.hurry()
        if self.errors:
            first = [error] if isinstance(error, Exception) else []
            raise Crashed(f"{len(self.errors)} parts of the manager failed", [*first, *self.errors])
        if cancelled is not None:
            raise cancelled

    async def _wind_down(self) -> None:
        batches = self._roster.stop()
        first, last = self._split_helpers()
        await self._stop(first)
        for phase, names in batches:
            if phase >= Phase.OTHERS:
                await self._stop([self.members[name] for name in names if name in self.members])
        await self._step(self.before_caches)
        for phase, names in batches:
            if phase < Phase.OTHERS:
                await self._stop([self.members[name] for name in names if name in self.members])
        await self._stop(last)
        await self._step(self.at_last)

    def _split_helpers(self) -> tuple[Sequence[Member], Sequence[Member]]:
        """Those that start others end first; the election goes on until nothing is left that needs the Lease."""
        last = [one for one in self._helpers if one.name == "election"]
        return [one for one in self._helpers if one not in last], last

    async def _stop(self, members: Sequence[Member]) -> None:
        left = timing.remaining(self._until)
        outcomes = await asyncio.gather(*(one.stop(left) for one in members), return_exceptions=True)
        self.errors += [one for one in outcomes if isinstance(one, Exception)]

    async def _step(self, steps: Sequence[Step]) -> None:
        for step in steps:
            try:
                await step()
            except Exception as error:  # noqa: BLE001 -- raised at the end, with all others
                self.errors.append(error)
