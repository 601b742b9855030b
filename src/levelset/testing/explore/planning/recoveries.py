"""Plans that are derived from disturbed runs: a second fault in the recovery from the first one.

Runs are ranked by the number of states that no run before has reached; a state is that of all objects at a revision,
without times, uids and versions.
"""

import heapq
from collections.abc import Iterator, Sequence
from itertools import islice, pairwise
from typing import Final

from levelset.testing.explore.faults.disturbance import OUTSIDE
from levelset.testing.explore.faults.environment_faults import NamespaceDeleted, SpecChanged, ThirdParty
from levelset.testing.explore.faults.plan import CrashAfter, LostResponse, Plan
from levelset.testing.explore.records.run_result import Run
from levelset.testing.explore.records.trace import Step

__all__ = ["Recoveries", "deeper_plans"]

_DEEPEST: Final = 3
"""The maximum number of disturbances in a plan."""
_STEPS: Final = 4
"""How many steps of a recovery are disturbed."""


class Recoveries:
    """Collects disturbed runs, and derives plans with one more fault from the most promising of them."""

    def __init__(self) -> None:
        self.states: set[int] = set()
        """All states that were reached."""
        self._waiting: list[tuple[int, int, list[Plan]]] = []
        self._number = 0
        self._known: set[str] = set()

    def add(self, plan: Plan, states: frozenset[int], deeper: Sequence[Plan]) -> int:
        """Adds a disturbed run with its `deeper_plans`; returns the number of states that it was the first to reach."""
        new = len(states - self.states)
        self.states |= states
        plans = [one for one in deeper if one.id not in self._known] if new else []
        if plans:
            self._known.update(one.id for one in plans)
            self._number += 1
            # More new states first; of equal ones the run with fewer disturbances, then the earlier one.
            heapq.heappush(self._waiting, (len(plan) - new * _DEEPEST, self._number, plans))
        return new

    def take(self) -> Iterator[Plan]:
        """The next plan, if there is one."""
        if self._waiting:
            _, _, plans = self._waiting[0]
            yield plans.pop(0)
            if not plans:
                heapq.heappop(self._waiting)


def deeper_plans(run: Run, baseline: Run) -> Iterator[Plan]:
    """The plan of a run with a fault at each of the first steps that only this run has, or has in another order."""
    if len(run.plan) >= _DEEPEST or any(
        isinstance(one, NamespaceDeleted | SpecChanged | ThirdParty) for one in run.plan
    ):
        return
    usual = {one.name for one in baseline.trace}
    pairs = set(pairwise(one.name for one in _actions(baseline)))
    done = _actions(run)
    other = [two for one, two in pairwise(done) if (one.name, two.name) not in pairs or two.name not in usual]
    steps = dict.fromkeys(one.name for one in other if not one.disturbance)
    for at in islice(steps, _STEPS):
        yield Plan((*run.plan, CrashAfter(at)))
        yield Plan((*run.plan, LostResponse(at)))


def _actions(run: Run) -> list[Step]:
    """The writes and the calls to the outside of reconciles."""
    calls = (one for one in run.trace if one.act == "call" and one.cause is not None)
    return [one for one in calls if one.is_write or one.name.verb == OUTSIDE]
