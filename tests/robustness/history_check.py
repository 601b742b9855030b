"""The check of a history: linearizable operations, and complete watches, in order and without duplicates.

A list at a revision must be what the events up to there make, and no two writes may have one revision.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import pairwise

from tests.robustness.linearizability import Operation, find_unlinearizable
from tests.robustness.random_clients import History, WatchEvent, WatchRecord
from tests.robustness.write_journal import Violation

__all__ = ["check_history"]


def check_history(history: History) -> None:
    """Raises `Violation` for the first thing that is not as it must be."""
    writes = _writes_by_revision(history)
    for record in history.watches:
        _check_order(record)
        _check_complete(record, writes)
        _check_kinds(record)
    _check_last(history)
    _check_listings(history)
    key = find_unlinearizable(_resolved(history))
    if key is not None:
        raise Violation(f"not linearizable: {_describe(history, key)}")


def _writes_by_revision(history: History) -> dict[int, Operation]:
    """The acknowledged creates and updates."""
    writes: dict[int, Operation] = {}
    for one in history.operations:
        if one.outcome != "done" or one.revision is None or one.verb == "get":
            continue
        other = writes.setdefault(one.revision, one)
        if other is not one:
            raise Violation(f"revision {one.revision} was given to two writes: {other} and {one}")
    return writes


def _check_order(record: WatchRecord) -> None:
    revisions = [record.start.revision, *(event.revision for event in record.events)]
    for before, after in pairwise(revisions):
        if after <= before:
            raise Violation(f"{record.name}: an event of revision {after} after {before}")


def _check_complete(record: WatchRecord, writes: Mapping[int, Operation]) -> None:
    seen = {event.revision: event for event in record.events}
    for revision, write in writes.items():
        if not record.start.revision < revision <= record.reached:
            continue
        event = seen.get(revision)
        if event is None:
            raise Violation(f"{record.name} did not get revision {revision}: {write}")
        kind = "ADDED" if write.verb == "create" else "MODIFIED"
        if (event.kind, event.key, event.value) != (kind, write.key, write.value):
            raise Violation(f"{record.name} got {event} for {write}")


def _check_kinds(record: WatchRecord) -> None:
    """Raises unless objects are added, modified and deleted in an order that can be."""
    present = set(record.start.items)
    for event in record.events:
        if (event.key in present) != (event.kind != "ADDED"):
            raise Violation(f"{record.name} got {event}, and the object was {_presence(event, present)}")
        (present.discard if event.kind == "DELETED" else present.add)(event.key)


def _presence(event: WatchEvent, present: set[str]) -> str:
    return "there" if event.key in present else "not there"


def _check_last(history: History) -> None:
    """Raises if a watcher has not arrived at what the last list shows."""
    final = history.listings[-1]
    last = {record.name: record for record in history.watches}
    for record in last.values():
        shown = dict(_states(record))[max(dict(_states(record)))]
        if shown != final.items:
            raise Violation(f"{record.name} ends with {shown} at {record.reached}, but there is {final.items}")


def _check_listings(history: History) -> None:
    record = next(one for one in history.watches if one.name == "reference")
    states = dict(_states(record))
    revisions = sorted(states)
    for listing in history.listings:
        if not record.start.revision <= listing.revision <= record.reached:
            continue
        expected = states[max(one for one in revisions if one <= listing.revision)]
        if listing.items != expected:
            raise Violation(f"the list at {listing.revision} has {listing.items}, but the events make {expected}")


def _states(record: WatchRecord) -> Iterator[tuple[int, dict[str, tuple[int, str]]]]:
    items = dict(record.start.items)
    yield record.start.revision, dict(items)
    for event in record.events:
        if event.kind == "DELETED":
            items.pop(event.key, None)
        else:
            items[event.key] = (event.revision, event.value)
        yield event.revision, dict(items)


def _resolved(history: History) -> Iterator[Operation]:
    """The operations, with those writes that were cut and that a watcher has seen, and without those that none has.

    Values are unique, and watches are complete: so it is known which of them happened, and the search remains short.
    """
    events = (event for record in history.watches for event in record.events if event.kind != "DELETED")
    seen = {event.value: event.revision for event in events}
    for one in history.operations:
        if one.outcome != "unknown" or one.value is None:
            yield one
        elif one.value in seen:
            yield replace(one, outcome="done", revision=seen[one.value])


def _describe(history: History, key: str) -> str:
    operations = sorted((one for one in history.operations if one.key == key), key=lambda one: one.called)
    return "\n".join(
        f"{one.called:5} to {one.returned:5} {one.client}: {one.verb} {one.outcome} {one.value!r}"
        f" expected {one.expected} revision {one.revision}"
        for one in operations
    )
