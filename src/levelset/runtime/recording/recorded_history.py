"""Reads recordings as the admin API reads a running manager, and finds where two of them part."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import msgspec

from levelset.errors import NotFound
from levelset.objects.ref import GroupVersionKind, Ref
from levelset.runtime.controller.actions import Action
from levelset.runtime.controller.reconcile_history import count_repeats, is_poll
from levelset.runtime.controller.request import Reason
from levelset.runtime.recording.entries import (
    Answer,
    Batch,
    Begin,
    ControllerEntry,
    End,
    Entry,
    Leader,
    Request,
    ScopeEntry,
    Spawn,
    Start,
    Stop,
    WatchFailed,
    entry_text,
)

__all__ = [
    "FAILED",
    "RecordedReconcile",
    "controllers_of",
    "read_named",
    "reconcile_tree",
    "reconciles_in",
    "recorded_reconciles",
    "runs_part_at",
    "start_of",
    "status_of",
    "wall_time_of",
]

_READS: Final = frozenset({"GET", "HEAD"})
_MAX_ERRORS: Final = 5
FAILED: Final = frozenset({"failed", "timed_out", "gave_up"})
"""The results of reconciles that count as failures."""


@dataclass(slots=True)
class RecordedReconcile:
    """One reconcile of a recording: its number from 1, its beginning, its requests with statuses, and its end."""

    number: int
    begin: Begin
    end: End | None = None
    requests: list[tuple[Request, int | None]] = field(default_factory=list[tuple[Request, int | None]])

    @property
    def ended_at(self) -> int:
        """Microseconds from the start to its end, as running managers show it; to its beginning if it has none."""
        return (self.begin if self.end is None else self.end).at

    def lines(self) -> Sequence[str]:
        """What it did, for comparison with another run: requests with their answers, and the result."""
        made = [f"{entry_text(one)} -> {status or 'no response'}" for one, status in self.requests]
        return [*made, "does not end" if self.end is None else entry_text(self.end)]


def recorded_reconciles(entries: Sequence[Entry]) -> Sequence[RecordedReconcile]:
    """All reconciles of a recording, in the order in which they began."""
    found: list[RecordedReconcile] = []
    by_task: dict[int, RecordedReconcile] = {}
    by_request: dict[int, tuple[RecordedReconcile, int]] = {}
    for entry in entries:
        match entry:
            case Begin():
                by_task[entry.task] = RecordedReconcile(len(found) + 1, entry)
                found.append(by_task[entry.task])
            case Spawn() if entry.task in by_task:
                by_task[entry.child] = by_task[entry.task]
            case Request() if entry.task in by_task:
                one = by_task[entry.task]
                by_request[entry.number] = one, len(one.requests)
                one.requests.append((entry, None))
            case Answer() if entry.number in by_request:
                one, place = by_request.pop(entry.number)
                one.requests[place] = one.requests[place][0], entry.status
            case End() if entry.task in by_task:
                by_task[entry.task].end = entry
            case _:
                pass
    return found


def reconciles_in(
    entries: Sequence[Entry], kind: str, name: str, namespace: str | None = None
) -> Sequence[dict[str, Any]]:
    """The reconciles of an object, as `levelset why` shows them; NotFound names the kinds of the recording."""
    controllers = controllers_of(entries)
    known = {one.name: one for one in controllers if kind.lower() in _names_of(one)}
    if not known:
        there = ", ".join(sorted({one.kind for one in controllers})) or "nothing"
        raise NotFound(f"no controller of this recording reconciles {kind} (it has {there})")
    start = start_of(entries)
    return [
        {
            "at": one.begin.at / 1e6,
            "time": wall_time_of(start, one.ended_at),
            "number": one.number,
            **reconcile_tree(one, known[one.begin.controller]),
        }
        for one in recorded_reconciles(entries)
        if one.begin.controller in known and _is_named(one.begin.key, name, namespace)
    ]


def status_of(entries: Sequence[Entry]) -> dict[str, Any]:
    """The state at the end of a recording, as `levelset status` shows that of a running manager."""
    start, reconciles = start_of(entries), recorded_reconciles(entries)
    leader = [one.is_leader for one in entries if isinstance(one, Leader)]
    return {
        "pid": f"recorded {start.wall}",
        "is_leader": bool(leader and leader[-1]) or start.is_partial,
        "seconds": entries[-1].at / 1e6,
        "end": entries[-1].reason if isinstance(entries[-1], Stop) else "cut off: the process was killed, or runs",
        "controllers": [_controller_tree(one, reconciles, start) for one in controllers_of(entries)],
        "watches": list(_watches(entries)),
    }


def runs_part_at(one: Sequence[Entry], other: Sequence[Entry]) -> tuple[str, Sequence[str], Sequence[str]] | None:
    """Where two runs part, as the object and what each did in the first reconcile that differs; None if nowhere.

    Reconciles are compared object by object, in order: between objects the order may differ in runs that are the same.
    """
    first, second = _by_object(one), _by_object(other)
    parted: list[tuple[int, str, Sequence[str], Sequence[str]]] = []
    for key in {**first, **second}:
        mine, theirs = first.get(key, ()), second.get(key, ())
        for place in range(max(len(mine), len(theirs))):
            left = mine[place].lines() if place < len(mine) else ("is not reconciled",)
            right = theirs[place].lines() if place < len(theirs) else ("is not reconciled",)
            if left != right:
                at = (mine[place] if place < len(mine) else theirs[place]).begin.at
                parted.append((at, f"{' for '.join(key)}, reconcile {place + 1} of it", left, right))
                break
    return min(parted)[1:] if parted else None


def start_of(entries: Sequence[Entry]) -> Start:
    """The first entry of a recording."""
    start = entries[0]
    assert isinstance(start, Start), "the first entry of a recording"
    return start


def wall_time_of(start: Start, at: int) -> str:
    """The time of day of an entry, to the millisecond, in UTC."""
    try:
        moment = datetime.fromisoformat(start.wall) + timedelta(microseconds=at)
    except (ValueError, OverflowError):
        return start.wall  # written by a program that is not ours
    return moment.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _by_object(entries: Sequence[Entry]) -> Mapping[tuple[str, str], Sequence[RecordedReconcile]]:
    found: dict[tuple[str, str], list[RecordedReconcile]] = {}
    for one in recorded_reconciles(entries):
        found.setdefault((one.begin.controller, one.begin.key), []).append(one)
    return found


def controllers_of(entries: Sequence[Entry]) -> Sequence[ControllerEntry]:
    """The controllers of a recording."""
    return list({one.name: one for one in entries if isinstance(one, ControllerEntry)}.values())


def _names_of(controller: ControllerEntry) -> set[str]:
    kind = controller.kind.lower()
    return {kind, f"{kind}s", controller.name.lower()}


def _is_named(key: str, name: str, namespace: str | None) -> bool:
    place, _, last = key.rpartition("/")
    return last == name and namespace in {None, place}


def reconcile_tree(one: RecordedReconcile, controller: ControllerEntry) -> dict[str, Any]:
    """A reconcile as the admin API shows one."""
    begin, end = one.begin, one.end
    action = Action(None if end is None else end.after)
    return {
        "controller": begin.controller,
        "object": f"{controller.kind}/{begin.key}",
        "result": "not ended" if end is None else end.result,
        "reasons": [str(Reason(each.kind, _ref(each.about))) for each in begin.reasons],
        "requests": one.lines()[:-1],
        "error": None if end is None else end.error,
        "next": str(action),
        "attempt": begin.attempt,
        "seconds": 0.0 if end is None else end.seconds,
        "waited": 0.0 if end is None else end.waited,
        "is_poll": end is not None
        and all(made.method in _READS for made, _ in one.requests)
        and is_poll((each.kind for each in begin.reasons), end.result),
    }


def _controller_tree(
    controller: ControllerEntry, reconciles: Sequence[RecordedReconcile], start: Start
) -> dict[str, Any]:
    own = [one for one in reconciles if one.begin.controller == controller.name]
    last = {one.begin.key: one for one in own}
    failed = [one for one in own if one.end is not None and one.end.result in FAILED]
    return {
        "name": controller.name,
        "kind": controller.kind,
        "is_ready": True,
        "running": sum(one.end is None for one in own),
        "ready": 0,
        "delayed": sum(one.end is not None and one.end.after is not None for one in last.values()),
        "reconciles": len(own),
        "failing": sum(one in failed for one in last.values()),
        "errors": [
            {**reconcile_tree(one, controller), "at": wall_time_of(start, one.ended_at), "count": count}
            for one, count in count_repeats(reversed(failed), _error_of, _MAX_ERRORS)
        ],
    }


def _error_of(one: RecordedReconcile) -> tuple[str, str | None]:
    """What makes two errors the same."""
    return one.begin.key, None if one.end is None else one.end.error


def _watches(entries: Sequence[Entry]) -> Iterator[dict[str, Any]]:
    scopes = {one.number: one for one in entries if isinstance(one, ScopeEntry)}
    events: Counter[int] = Counter()
    last: dict[int, int] = {}
    errors: dict[int, str] = {}
    objects: dict[int, set[str]] = {number: set() for number in scopes}
    for one in entries:
        if isinstance(one, WatchFailed):
            errors[one.scope] = one.error
        elif isinstance(one, Batch):
            errors.pop(one.scope, None)
            last[one.scope] = one.at
            events[one.scope] += sum(event.code in {1, 3, 4} for event in one.events)
            _count(objects[one.scope], one)
    for number, scope in scopes.items():
        gvk = GroupVersionKind(scope.group, scope.version, scope.kind)
        yield {
            "name": f"{gvk}{f' in {scope.namespace}' if scope.namespace else ''}",
            "is_ready": number in last,
            "objects": len(objects[number]),
            "events": events[number],
            "lag": (entries[-1].at - last[number]) / 1e6 if number in last else None,
            "error": errors.get(number),
        }


class _Metadata(msgspec.Struct, frozen=True, gc=False):
    name: str = ""
    namespace: str = ""


class _Named(msgspec.Struct, frozen=True, gc=False):
    metadata: _Metadata = _Metadata()


read_named: Final = msgspec.json.Decoder(_Named).decode
"""The name and namespace of an object as JSON."""


def _count(objects: set[str], batch: Batch) -> None:
    for event in batch.events:
        code, raw = event.code, event.raw
        if code == 0:
            objects.clear()
        elif code != 2:
            metadata = read_named(raw).metadata
            (objects.discard if code == 4 else objects.add)(f"{metadata.namespace}/{metadata.name}")


def _ref(about: tuple[str, str, str, str | None, str] | None) -> Ref[Any] | None:
    return None if about is None else Ref(GroupVersionKind(*about[:3]), about[4], about[3])
