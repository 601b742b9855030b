"""The timeline of an object's reconciles, newest first: when, why, how long, with which result, and what was written.

Reconciles that only repeat the one before are collapsed: polls, which were requeued by themselves and changed nothing,
and failures with the same error.
"""

from collections.abc import Iterable, Mapping, Sequence
from heapq import nlargest
from typing import Any, Final

from levelset.dashboard.activity import Activity
from levelset.dashboard.request_spans import RequestSpan, request_view
from levelset.dashboard.views import kind_text
from levelset.runtime.controller.actions import Outcome
from levelset.runtime.controller.reconcile_history import collapse_repeats, is_poll
from levelset.runtime.controller.running_controller import RunningController
from levelset.runtime.manager.admin import wall_time

__all__ = ["collapsed", "entry_of", "last_reconciles", "timeline_of"]

MOST_ENTRIES: Final = 50
MOST_SHOWN: Final = 100
_MOST_SPANS: Final = 50


def timeline_of(
    controllers: Iterable[RunningController[Any]], name: str, namespace: str | None, activity: Activity | None
) -> list[dict[str, Any]]:
    """The last reconciles of an object by all its controllers, newest first, repeats collapsed."""
    mine = [
        (one.at, entry_of(controller.name, one, activity))
        for controller in controllers
        for one in controller.history
        if one.ref.name == name and one.ref.namespace == namespace
    ]
    mine.sort(key=lambda one: one[0])
    return collapsed(entry for _, entry in mine)


def collapsed(entries: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Entries that are oldest first as the page shows them: newest first, repeats collapsed, at most so many."""
    return collapse_repeats(entries)[-MOST_ENTRIES:][::-1]


def last_reconciles(
    controllers: Mapping[str, RunningController[Any]], activity: Activity | None
) -> list[dict[str, Any]]:
    """The last reconciles of all controllers, newest first: with the spans that are known without tracing."""
    all_ = [(name, one) for name, controller in controllers.items() for one in controller.history[-MOST_SHOWN:]]
    newest = nlargest(MOST_SHOWN, all_, key=lambda one: one[1].at)
    requests_of = None if activity is None else activity.requests_of()
    return [_with_spans(name, one, [] if requests_of is None else requests_of(name, one)) for name, one in newest]


def _with_spans(controller: str, outcome: Outcome[Any], requests: Sequence[RequestSpan]) -> dict[str, Any]:
    """A reconcile with its spans; each begins so many seconds after the request was due."""
    due = outcome.at - outcome.seconds - outcome.waited
    spans = [
        {"name": "in the queue", "from": 0.0, "seconds": outcome.waited},
        {"name": "reconcile", "from": outcome.waited, "seconds": outcome.seconds},
        *(request_view(one, due, outcome.at) for one in requests[:_MOST_SPANS]),
    ]
    return {
        "controller": controller,
        "object": {"kind": kind_text(outcome.ref.gvk), "name": outcome.ref.name, "namespace": outcome.ref.namespace},
        "result": outcome.result,
        "at": wall_time(outcome.at),
        "reasons": [str(one) for one in outcome.reasons],
        "error": None if outcome.error is None else f"{type(outcome.error).__name__}: {outcome.error}",
        "waited": outcome.waited,
        "seconds": outcome.seconds,
        "is_poll": is_poll((one.kind for one in outcome.reasons), outcome.result) and not requests,
        "spans": spans,
        "moreRequests": max(0, len(requests) - _MOST_SPANS),
    }


def entry_of(controller: str, outcome: Outcome[Any], activity: Activity | None) -> dict[str, Any]:
    """One reconcile."""
    writes = [] if activity is None else activity.writes_of(controller, outcome)
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
        "is_poll": not writes and is_poll((one.kind for one in outcome.reasons), outcome.result),
        "writes": writes,
    }
