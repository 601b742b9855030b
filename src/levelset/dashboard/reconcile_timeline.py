"""The timeline of an object's reconciles, newest first: when, why, how long, with which result, and what was written.

Reconciles that only poll are collapsed: those that were requeued by themselves, changed nothing and did not fail.
"""

from collections.abc import Iterable, Mapping
from heapq import nlargest
from typing import Any, Final

from levelset.dashboard.activity import Activity
from levelset.dashboard.views import kind_text
from levelset.runtime.controller.actions import Outcome
from levelset.runtime.controller.running_controller import RunningController
from levelset.runtime.manager.admin import wall_time

__all__ = ["collapse_polls", "entry_of", "last_reconciles", "timeline_of"]

MOST_ENTRIES: Final = 50
MOST_SHOWN: Final = 100
_MOST_SPANS: Final = 50
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


def last_reconciles(
    controllers: Mapping[str, RunningController[Any]], activity: Activity | None
) -> list[dict[str, Any]]:
    """The last reconciles of all controllers, newest first: with the spans that are known without tracing."""
    all_ = [(name, one) for name, controller in controllers.items() for one in controller.history[-MOST_SHOWN:]]
    newest = nlargest(MOST_SHOWN, all_, key=lambda one: one[1].at)
    return [_with_spans(name, one, activity) for name, one in newest]


def _with_spans(controller: str, outcome: Outcome[Any], activity: Activity | None) -> dict[str, Any]:
    """A reconcile with its spans; each begins so many seconds after the request was due."""
    due = outcome.at - outcome.seconds - outcome.waited
    writes = [] if activity is None else activity.made_in(controller, outcome)
    spans = [
        {"name": "in the queue", "from": 0.0, "seconds": outcome.waited},
        {"name": "reconcile", "from": outcome.waited, "seconds": outcome.seconds},
        *(
            {
                "name": f"wrote {one.write.gvk.kind} {one.write.name}",
                "from": one.at - due,
                "seconds": 0.0,
            }
            for one in writes[:_MOST_SPANS]
        ),
    ]
    return {
        "controller": controller,
        "object": {"kind": kind_text(outcome.ref.gvk), "name": outcome.ref.name, "namespace": outcome.ref.namespace},
        "result": outcome.result,
        "at": wall_time(outcome.at),
        "reasons": [str(one) for one in outcome.reasons],
        "error": None if outcome.error is None else f"{type(outcome.error).__name__}: {outcome.error}",
        "seconds": outcome.waited + outcome.seconds,
        "spans": spans,
    }


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
