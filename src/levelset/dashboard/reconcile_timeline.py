"""The timeline of an object's reconciles, newest first: when, why, how long, with which result, and what was written.

Reconciles that only repeat the one before are collapsed: polls, which were requeued by themselves and changed nothing,
and failures with the same error.
"""

from collections.abc import Hashable, Iterable, Mapping, Sequence
from heapq import nlargest
from typing import Any, Final

from levelset.dashboard.activity import Activity
from levelset.dashboard.request_spans import RequestSpan, request_view
from levelset.dashboard.views import kind_text
from levelset.runtime.controller.actions import Outcome
from levelset.runtime.controller.reconcile_history import collapse_repeats, is_poll
from levelset.runtime.controller.running_controller import RunningController
from levelset.runtime.manager.admin import wall_time

__all__ = ["collapse_by_object", "collapsed", "entry_of", "last_reconciles", "timeline_of"]

MOST_ENTRIES: Final = 50
MOST_SHOWN: Final = 100
_MOST_READ: Final = 1_000
"""The reconciles of each controller, and of all together, that are read to show the last ones."""
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
    controllers: Mapping[str, RunningController[Any]], activity: Activity | None, *, has_polls: bool = False
) -> list[dict[str, Any]]:
    """The last reconciles of all controllers, newest first: with the spans that are known without tracing.

    Repeats are collapsed, so that what polls does not take the place of everything else; not with `has_polls`.
    """
    all_ = [(name, one) for name, controller in controllers.items() for one in controller.history[-_MOST_READ:]]
    newest = nlargest(MOST_SHOWN if has_polls else _MOST_READ, all_, key=lambda one: one[1].at)
    requests_of = _no_requests if activity is None else activity.requests_of()
    if has_polls:
        return [_with_spans(name, one, requests_of(name, one)) for name, one in newest]
    found = collapse_by_object([_sketch(name, one, requests_of(name, one)) for name, one in newest])[:MOST_SHOWN]
    return [
        {
            **_with_spans(one["controller"], one["outcome"], requests_of(one["controller"], one["outcome"])),
            "times": one["times"],
            "first": wall_time(one["first"]),
        }
        for one in found
    ]


def collapse_by_object(newest: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Reconciles of many objects, newest first, of which the repeats are collapsed for each object."""
    by_object: dict[Hashable, list[dict[str, Any]]] = {}
    for one in reversed(newest):
        about = one["object"]
        key = about if isinstance(about, str) else tuple(about.values())
        by_object.setdefault((one["controller"], one.get("manager"), key), []).append(one)
    found = [one for some in by_object.values() for one in collapse_repeats(some)]
    return sorted(found, key=lambda one: one["at"], reverse=True)


def _sketch(controller: str, outcome: Outcome[Any], requests: Sequence[RequestSpan]) -> dict[str, Any]:
    """What decides whether a reconcile repeats the one before."""
    has_written = any(one.is_write for one in requests)
    return {
        "controller": controller,
        "object": outcome.ref.key,
        "result": outcome.result,
        "error": _error(outcome),
        "reasons": outcome.reasons,
        "next": str(outcome.action),
        "is_poll": _is_poll(outcome) and not has_written,
        "writes": has_written,
        "at": outcome.at,
        "outcome": outcome,
    }


def _no_requests(_: str, __: Outcome[Any]) -> list[RequestSpan]:
    return []


def _is_poll(outcome: Outcome[Any]) -> bool:
    return is_poll((one.kind for one in outcome.reasons), outcome.result)


def _error(outcome: Outcome[Any]) -> str | None:
    return None if outcome.error is None else f"{type(outcome.error).__name__}: {outcome.error}"


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
        "error": _error(outcome),
        "waited": outcome.waited,
        "seconds": outcome.seconds,
        "next": str(outcome.action),
        "is_poll": _is_poll(outcome) and not any(one.is_write for one in requests),
        "times": 1,
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
        "error": _error(outcome),
        "next": str(outcome.action),
        "attempt": outcome.attempt,
        "seconds": outcome.seconds,
        "waited": outcome.waited,
        "at": wall_time(outcome.at),
        "is_poll": not writes and _is_poll(outcome),
        "writes": writes,
    }
