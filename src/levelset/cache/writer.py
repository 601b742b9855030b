"""The one who writes into a store: events go in, changes come out."""

from collections.abc import Iterator, Sequence
from typing import Any, Final, Generic, TypeVar

from levelset.cache.buckets import Buckets
from levelset.cache.changes import Change
from levelset.cache.indexed import Report
from levelset.cache.keys import key_of
from levelset.cache.readiness import Readiness
from levelset.cache.reporting import report_error
from levelset.cache.table import Table
from levelset.client.kinds import View
from levelset.errors import BadObject
from levelset.objects.kept import Kept
from levelset.watching.events import Apply, Delete, Init, InitApply, InitDone, Told

__all__ = ["SLICE", "Writer"]

K = TypeVar("K")

SLICE = 500
"""The most events, or objects, between two moments at which others may run: a millisecond or two."""

_OBJECTS: Final = {Kept}


class Writer(Generic[K]):
    """Keeps a store in step with a watch; there is one for each store.

    Between Init and InitDone objects go into a buffer while readers see the old ones; InitDone swaps both at once. The
    changes that it brings are told with the deletes first, each with the object that has gone, then the new and changed
    objects in the order of the list; an object of the same version is no change. Later an event that is older than
    what is here already changes nothing; a complete list is believed even then, since servers do get restored.
    """

    __slots__ = ("_readiness", "_report", "_table", "_view")

    def __init__(self, table: Table, view: View[K], readiness: Readiness, *, report: Report = report_error) -> None:
        self._table = table
        self._view = view
        self._readiness = readiness
        self._report = report

    def apply(self, events: Sequence[Told[Any]]) -> list[Change[K]]:
        """Takes in the events, in order, and gives what they have changed."""
        return [change for changes in self.slices(events) for change in changes]

    def slices(self, events: Sequence[Told[Any]]) -> Iterator[list[Change[K]]]:
        """Takes in the events, in order, and gives what they have changed bit by bit; some bits are empty.

        The store has what a bit tells when the bit is given. Between two bits the caller may let others run, and must
        not write anything else.
        """
        for start in range(0, len(events), SLICE):
            some = events[start : start + SLICE] if len(events) > SLICE else events
            changes: list[Change[K]] = []
            if len(some) > 1 and set(map(type, some)) == _OBJECTS:  # nothing but objects: what a busy watch brings
                self._take(some, changes)  # type: ignore[arg-type]
                yield self._next_step(changes)
                continue
            for event in some:
                kind = type(event)
                if kind is Kept:
                    self._take((event,), changes)  # type: ignore[arg-type]
                elif kind is Apply:
                    self._refuse(self._table.put((event.item.kept,), self._view, changes))  # type: ignore[union-attr]
                elif kind is InitApply:
                    self._refuse(self._table.put_fresh((event.item.kept,)))  # type: ignore[union-attr]
                elif kind is Delete:
                    self._drop(event.item.kept, changes)  # type: ignore[union-attr]
                elif isinstance(event, Init):
                    self._table.start()
                elif isinstance(event, InitDone):
                    if changes:
                        yield self._next_step(changes)
                        changes = []
                    yield from self._swap(event)
            yield self._next_step(changes)

    def close(self, cause: Exception | None = None) -> None:
        """Says that nothing more will be written; whoever still waits for the store to be ready gets NotReady."""
        self._readiness.close(cause)

    def _next_step(self, changes: list[Change[K]]) -> list[Change[K]]:
        if changes:
            self._table.step += 1
        return changes

    def _take(self, objects: Sequence[Kept], changes: list[Change[K]]) -> None:
        """Takes in mere objects: within a list of everything they are there, else they came or changed."""
        table = self._table
        nameless = table.put(objects, self._view, changes) if table.fresh is None else table.put_fresh(objects)
        if nameless:
            self._refuse(nameless)

    def _drop(self, kept: Kept, changes: list[Change[K]]) -> None:
        key = key_of(kept)
        before = self._table.drop(key, kept)
        if before is not None:
            self._table.resource_version = kept.resource_version
            changes.append(Change(key, before, None, self._view))

    def _refuse(self, nameless: int) -> None:
        for _ in range(nameless):
            self._report(f"the store of {self._view.gvk}", BadObject("an object without a name was left out"))

    def _swap(self, event: InitDone) -> Iterator[list[Change[K]]]:
        is_first = not self._table.is_filled
        before, buckets = self._table.swap()
        self._table.step += 1
        self._table.resource_version = event.resource_version
        self._readiness.settle()
        now = self._table.kept
        if before is not now:
            yield from self._vanished(before, now)
            yield from self._different(before, now, is_initial=is_first)
            yield from _burn(before, buckets)

    def _vanished(self, before: dict[str, Kept], now: dict[str, Kept]) -> Iterator[list[Change[K]]]:
        for keys in _sliced(before):
            yield [Change(key, before[key], None, self._view) for key in keys if key not in now]

    def _different(
        self, before: dict[str, Kept], now: dict[str, Kept], *, is_initial: bool
    ) -> Iterator[list[Change[K]]]:
        view, was = self._view, before.get
        for keys in _sliced(now):
            yield [Change(key, was(key), now[key], view, is_initial) for key in keys if was(key) is not now[key]]


def _sliced(contents: dict[str, Kept]) -> Iterator[list[str]]:
    keys = list(contents)
    for start in range(0, len(keys), SLICE):
        yield keys[start : start + SLICE]


def _burn(before: dict[str, Kept], buckets: list[Buckets]) -> Iterator[list[Any]]:
    """Frees what was there before, a bit at a time: a hundred thousand objects at once take 30 ms."""
    while before:
        for _ in range(min(SLICE, len(before))):
            before.popitem()
        yield []
    for old in buckets:
        while old.burn(SLICE):
            yield []
