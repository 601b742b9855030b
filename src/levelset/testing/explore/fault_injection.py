"""Carries out a plan: knows which disturbance waits for which step or change, and what it does when that comes."""

import asyncio
from collections.abc import Callable
from random import Random
from typing import Final

from levelset.client.transport.interface import Answer, Call, Hook, Send
from levelset.testing import faults
from levelset.testing.call_info import about
from levelset.testing.explore.plans import (
    At,
    Conflict,
    CrashDuring,
    Disturbance,
    Hold,
    LostAnswer,
    Plan,
    Refusal,
    Reorder,
    Skip,
    Slow,
)
from levelset.testing.watch_control import LateWatches, Watches

__all__ = ["CUT_OFF", "Disturbing", "carry_out"]

CUT_OFF: Final = 30.0
"""For how many seconds a leader that another one takes over from reaches nobody."""
_LAG: Final = 0.05
"""How much later the events of a kind come that is seen last, in seconds; looks begin at most so much later."""


class Disturbing:
    """The disturbances of one run; each comes once.

    `watches` are those of all processes. Whatever comes of a disturbance beyond the wire (a crash, a cut) is left to
    whoever runs the processes: `take` says that its moment is there.
    """

    def __init__(self, plan: Plan, watches: Watches) -> None:
        self.came: dict[Disturbance, None] = {}
        """Those whose moment has come, in order."""
        self._plan = plan
        self._watches = watches
        self._at: dict[At, Disturbance] = {}
        self._points: dict[tuple[At, int], Disturbance] = {}
        self._changes: dict[tuple[str, int], list[Hold | Skip]] = {}
        for one in plan:
            self._file(one)

    def _file(self, one: Disturbance) -> None:
        match one:
            case CrashDuring(at, point):
                self._points[at, point] = one
            case Hold(kind, change) | Skip(kind, change):
                self._changes.setdefault((kind, change), []).append(one)
            case _ if one.step is not None:
                self._at[one.step] = one
            case _:
                self.came[one] = None  # holds for the whole run

    @property
    def missed(self) -> tuple[str, ...]:
        """The disturbances whose moment has not come."""
        return tuple(one.id for one in self._plan if one not in self.came)

    def take(self, at: At) -> Disturbance | None:
        """What is to happen at this call."""
        found = self._at.pop(at, None)
        if found is not None:
            self.came[found] = None
        return found

    def take_point(self, at: At, point: int) -> Disturbance | None:
        """What is to happen at this point of a look."""
        if not self._points:
            return None
        found = self._points.pop((at, point), None)
        if found is not None:
            self.came[found] = None
        return found

    def notice_change(self, kind: str, change: int, revision: int) -> list[Disturbance]:
        """An object of a kind has changed, for the how many-th time: its events may be kept back from now on."""
        found = self._changes.pop((kind, change), [])
        for one in found:
            self.came[one] = None
            self._keep_back(kind, revision, one.seconds, is_listed_anew=isinstance(one, Skip))
        return list(found)

    def keep_back_all(self, revision: int, seconds: float) -> None:
        """Keeps back whatever happened after a revision."""
        held = self._watches.hold(lambda event: event.revision > revision)
        asyncio.get_running_loop().call_later(seconds, held.release)

    def wire_hooks(self) -> list[Hook]:
        """What stands between each process and the server for the whole run."""
        kinds = [one.what for one in self._plan if isinstance(one, Reorder) and one.what != "workers"]
        return [LateWatches(_LAG, _is_about(kind)) for kind in kinds]

    def delay(self) -> Callable[[], float] | None:
        """How much later looks begin, if they do."""
        for one in self._plan:
            if isinstance(one, Reorder) and one.what == "workers":
                chance = Random(one.number)  # noqa: S311 -- it has to be the same each time
                return lambda: chance.random() * _LAG
        return None

    def _keep_back(self, kind: str, revision: int, seconds: float, *, is_listed_anew: bool) -> None:
        held = self._watches.hold(lambda event: event.kind == kind and event.revision >= revision)

        def release() -> None:
            if is_listed_anew:
                self._watches.expire(kind)
            held.release()

        asyncio.get_running_loop().call_later(seconds, release)


def _is_about(kind: str) -> Callable[[Call], bool]:
    return lambda call: about(call).kind == kind


async def carry_out(what: Disturbance, call: Call, send: Send) -> Answer:
    """Does to a call what needs nobody but the wire."""
    match what:
        case Conflict():
            return await faults.answer_conflict(call, send)
        case Refusal(_, code):
            return await faults.answer_status(code)(call, send)
        case LostAnswer():
            return await faults.lose_answer(call, send)
        case Slow(_, seconds):
            return await faults.delay_call(before=seconds)(call, send)
        case _:
            return await send(call)
