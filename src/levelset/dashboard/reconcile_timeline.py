"""The timeline of an object's reconciles, newest first: when, why, how long, with which result, and what was written.

Reconciles that only poll are collapsed: those that were requeued by themselves, changed nothing and did not fail.
"""

from collections.abc import Iterable
from typing import Any, Final

from levelset.dashboard.activity import Activity
from levelset.runtime.controller.actions import Outcome
from levelset.runtime.controller.running_controller import RunningController
from levelset.runtime.manager.admin import wall_time

__all__ = ["collapse_polls", "entry_of", "timeline_of"]

MOST_ENTRIES: Final = 50
_POLL_REASONS: Final = frozenset({"requeued", "bulk"})
_QUIET: Final = frozenset({"done", "requeued"})


def timeline_of(
    controllers: Iterable[RunningController[Any]], name: str, namespace: str | None, activity: Activity | None
) -> list[dict[str, Any]]:
    """The last reconciles of an object by all its controllers, newest first, polls collapsed."""
    mine = [
        (one.at, entry_of(controller.name, one, activity))
        for controller in controllers
        for one in controller.history
        if one.ref.name == name and one.ref.namespace == namespace
    ]
    mine.sort(key=lambda one: one[0])
    return collapse_polls(entry for _, entry in mine)[-MOST_ENTRIES:][::-1]


def entry_of(controller: str, outcome: Outcome[Any], activity: Activity | None) -> dict[str, Any]:
    """One reconcile."""
    writes = [] if activity is None else activity.writes_of(controller, outcome)
    kinds = {one.kind for one in outcome.reasons}
    is_poll = outcome.result in _QUIET and not writes and bool(kinds) and kinds <= _POLL_REASONS
    return {
        "controller": controller,
        "result": outcome.result,
        "reasons": [str(one) for one in outcome.reasons],
        "error": None if outcome.error is None else f"{type(outcome.error).__name__}: {outcome.error}",
        "next": str(outcome.action),
        "attempt": outcome.attempt,
        "seconds": outcome.seconds,
        "waited": outcome.waited,
        "at": wall_time(outcome.at),
        "first": wall_time(outcome.at),
        "times": 1,
        "isPoll": is_poll,
        "writes": writes,
    }


def collapse_polls(entries: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Joins neighbouring polls of one controller into one entry, with their number and the time of the first."""
    found: list[dict[str, Any]] = []
    for one in entries:
        last = found[-1] if found else None
        if last is not None and last["isPoll"] and one["isPoll"] and last["controller"] == one["controller"]:
            found[-1] = {**one, "times": last["times"] + 1, "first": last["first"]}
        else:
            found.append(one)
    return found
