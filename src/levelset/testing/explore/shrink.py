"""Shrinks a failing plan: fewer disturbances first, then weaker and shorter ones."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Final

from levelset.testing.explore.faults.plan import CrashAfter, Disturbance, Hold, Plan, Relist, StaleRestart
from levelset.testing.explore.records.run_result import Finding, RunResult

__all__ = ["shrink"]

_MOST: Final = 40
_SHORT: Final = (1.0, 2.0, 4.0, 10.0, 30.0)


def shrink(failed: RunResult, play: Callable[[Plan], RunResult], *, most: int = _MOST) -> RunResult:
    """The run of the shortest plan found that breaks the same rule as the first finding of this one.

    `play` runs a plan; it is called at most `most` times. The order is fixed, so that the same failure shrinks to the
    same plan wherever it is found.
    """
    best, left = failed, most
    tried = {failed.plan.id}
    is_better = True
    while is_better:
        is_better = False
        for plan in _smaller(best.plan):
            if plan.id in tried or left == 0:
                continue
            tried.add(plan.id)
            left -= 1
            played = play(plan)
            if _breaks_same(played.findings, failed.findings):
                best, is_better = played, True
                break
    return best


def _breaks_same(found: tuple[Finding, ...], wanted: tuple[Finding, ...]) -> bool:
    return bool(wanted) and wanted[0].rule in {one.rule for one in found}


def _smaller(plan: Plan) -> Iterator[Plan]:
    """All plans that are a step smaller, the smallest first; never the empty one."""
    if len(plan) > 1:
        for index in range(len(plan)):
            yield Plan((plan.disturbances[index],))
        for index in range(len(plan)):
            yield plan.without(index)
    for index, one in enumerate(plan):
        for weaker in _weaker(one):
            yield Plan((*plan.disturbances[:index], weaker, *plan.disturbances[index + 1 :]))


def _weaker(one: Disturbance) -> Iterator[Disturbance]:
    match one:
        case StaleRestart():
            yield CrashAfter(one.at)
            yield from (replace(one, back=back) for back in range(1, one.back))
        case Relist():
            yield Hold(one.kind, one.change)
        case Hold():
            yield from (replace(one, seconds=seconds) for seconds in _SHORT if seconds < one.seconds)
        case _:
            return
