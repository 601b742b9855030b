"""The life of a manager: members start by phase, the first failure ends it all, and the end goes backwards in time."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from levelset.aio import Crashed, timing
from levelset.aio.interruption import Interruption
from levelset.errors import LeaseLost
from levelset.manager.members import Member
from levelset.manager.phases import Phase, Roster

__all__ = ["Life"]

_log: Final = logging.getLogger("levelset.manager")

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
