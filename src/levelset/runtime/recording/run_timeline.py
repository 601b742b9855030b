"""The timeline of a recorded run: its steps in their order, each as a tree, and the state of the manager after it."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from levelset.runtime.recording.entries import Batch, Begin, Entry, Leader, ScopeEntry, Stop, WatchFailed, entry_text
from levelset.runtime.recording.recorded_history import (
    FAILED,
    RecordedReconcile,
    controllers_of,
    read_named,
    reconcile_tree,
    recorded_reconciles,
    start_of,
    status_of,
    wall_time_of,
)

__all__ = ["RunStep", "RunTimeline"]

_CHANGES: Final = {1: "listed", 3: "added or changed", 4: "deleted"}
_MOST_OBJECTS: Final = 100


@dataclass(frozen=True, slots=True)
class RunStep:
    """One step of a run: the position of its entry, and the reconcile that begins with it, if it is one."""

    position: int
    entry: Entry
    reconcile: RecordedReconcile | None = None

    @property
    def is_failure(self) -> bool:
        """Whether it is a failed reconcile, or a watch that failed."""
        if self.reconcile is not None and self.reconcile.end is not None:
            return self.reconcile.end.result in FAILED
        return isinstance(self.entry, WatchFailed)


class RunTimeline:
    """The steps of a recording: reconciles, what informers saw, failed watches, elections and the end."""

    def __init__(self, entries: Sequence[Entry]) -> None:
        self._entries = entries
        self._start = start_of(entries)
        self._controllers = {one.name: one for one in controllers_of(entries)}
        self._kinds = {one.number: one.kind for one in entries if isinstance(one, ScopeEntry)}
        reconciles = iter(recorded_reconciles(entries))
        self.steps: Sequence[RunStep] = [
            RunStep(position, entry, next(reconciles) if isinstance(entry, Begin) else None)
            for position, entry in enumerate(entries)
            if isinstance(entry, Begin | Batch | WatchFailed | Leader | Stop)
        ]

    def tree(self, place: int) -> dict[str, Any]:
        """A step: when it was and what it was; a reconcile as in `reconciles_in`."""
        step = self.steps[place]
        entry = step.entry
        found: dict[str, Any] = {"at": entry.at / 1e6, "time": wall_time_of(self._start, entry.at)}
        match entry:
            case Begin():
                known = self._controllers.get(entry.controller)
                more = {} if known is None or step.reconcile is None else reconcile_tree(step.reconcile, known)
                return {**found, "what": "reconcile", "text": entry_text(entry), **more}
            case Batch():
                return {**found, "what": "changes", "text": self._batch_text(entry), "objects": _objects_of(entry)}
            case WatchFailed():
                kind = self._kinds.get(entry.scope, "objects")
                return {**found, "what": "failed watch", "text": f"the watch of {kind}", "error": entry.error}
            case Leader():
                return {
                    **found,
                    "what": "leader",
                    "text": f"{'became' if entry.is_leader else 'is no longer'} the leader",
                }
            case _:
                return {**found, "what": "end", "text": entry.reason if isinstance(entry, Stop) else entry_text(entry)}

    def state_after(self, place: int) -> dict[str, Any]:
        """The state of the manager before the next step, as `status_of`."""
        is_last = place + 1 >= len(self.steps)
        return status_of(self._entries if is_last else self._entries[: self.steps[place + 1].position])

    def next_failure(self, place: int) -> int | None:
        """The next step after this one that failed."""
        return next((one for one in range(place + 1, len(self.steps)) if self.steps[one].is_failure), None)

    def _batch_text(self, batch: Batch) -> str:
        count = sum(one.code in _CHANGES for one in batch.events)
        return f"{self._kinds.get(batch.scope, 'objects')}: {count} seen"


def _objects_of(batch: Batch) -> list[dict[str, str]]:
    """The first objects of a batch, and what happened to each."""
    found: list[dict[str, str]] = []
    for event in batch.events:
        if event.code in _CHANGES and len(found) < _MOST_OBJECTS:
            metadata = read_named(event.raw).metadata
            name = f"{metadata.namespace}/{metadata.name}".removeprefix("/")
            found.append({"object": name, "what": _CHANGES[event.code]})
    return found
