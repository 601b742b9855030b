"""Derives plans from an undisturbed run: what could go wrong at each of its steps, the most significant first.

Plans that cannot lead to different runs are derived once: a crash after a write and a crash before the next write of
the same reconcile leave the same state, if nothing outside of the process changes in between.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import zip_longest
from typing import Final, TypeVar

from levelset.testing.explore.plans import (
    Conflict,
    CrashAfter,
    CrashBefore,
    CrashDuring,
    Disturbance,
    Downtime,
    ErrorResponse,
    Hold,
    LostResponse,
    Plan,
    Relist,
    Reorder,
    Slow,
    StaleRestart,
    StepName,
    Takeover,
)
from levelset.testing.explore.run_result import Run
from levelset.testing.explore.trace import Step

__all__ = ["derive", "derive_pairs", "derive_singles"]

T = TypeVar("T")

_CHANGES: Final = frozenset({"apply", "patch", "update"})
_ORDERS: Final = 3
"""How many other orders of reconciles are tried."""
_POINTS: Final = 50
"""How many awaits of a reconcile are tried as crash points."""
_PARTNERS: Final = 60
"""How many of the first disturbances are tried in pairs."""


def derive(run: Run, *, has_outside: bool = False, leader: bool = False, stale_restarts: bool = True) -> Iterator[Plan]:
    """All plans for a scenario, lazily: single disturbances before pairs."""
    singles = derive_singles(run, has_outside=has_outside, leader=leader, stale_restarts=stale_restarts)
    yield from (Plan((one,)) for one in singles)
    yield from derive_pairs(singles)


def derive_singles(
    run: Run, *, has_outside: bool = False, leader: bool = False, stale_restarts: bool = True
) -> list[Disturbance]:
    """All single disturbances, the most significant first: round-robin over the families, then over the calls."""
    writes = [one for one in run.trace.writes() if one.cause is not None]
    names = [one.name for one in writes]
    families: tuple[Iterable[Disturbance], ...] = (
        map(CrashAfter, names),
        map(LostResponse, names),
        _holds(run),
        (Conflict(at) for at in names if at.verb in _CHANGES),
        _crashes_before(writes, has_outside=has_outside),
        _relists(run),
        map(Downtime, (one.name for one in _last_before_user(run, writes))),
        map(Takeover, names) if leader else (),
        map(ErrorResponse, names),
        _stale_restarts(run, writes) if stale_restarts else (),
        _crashes_during(run, has_outside=has_outside),
        _reorders(run),
        map(Slow, names),
    )
    spread = [_spread(list(family)) for family in families]
    found = dict.fromkeys(one for round_ in zip_longest(*spread) for one in round_ if one is not None)
    return list(found)


def derive_pairs(singles: Sequence[Disturbance]) -> Iterator[Plan]:
    """Pairs of disturbances, the most significant first; never two at the same step."""
    first = singles[:_PARTNERS]
    for total in range(1, 2 * len(first)):
        for index in range(max(0, total - len(first) + 1), (total + 1) // 2):
            one, other = first[index], first[total - index]
            if one.step is None or one.step != other.step:
                yield Plan((one, other))


def _crashes_before(writes: Sequence[Step], *, has_outside: bool) -> Iterator[Disturbance]:
    """Before the first write of each reconcile; before later ones only if the outside may have changed in between."""
    seen: set[str] = set()
    for one in writes:
        reconcile = str(one.cause)
        if reconcile not in seen or has_outside:
            yield CrashBefore(one.name)
        seen.add(reconcile)


def _crashes_during(run: Run, *, has_outside: bool) -> Iterator[Disturbance]:
    """At each await of a reconcile, and at its end if the outside may have changed."""
    for one in run.trace:
        if one.act == "reconciled":
            yield from (CrashDuring(one.name, point) for point in range(1, min(one.points, _POINTS) + 1))
            if has_outside and one.seen:
                yield CrashDuring(one.name, 0)


def _holds(run: Run) -> Iterator[Disturbance]:
    return (Hold(kind, number) for kind, number in _changes(run))


def _relists(run: Run) -> Iterator[Disturbance]:
    return (Relist(kind, number) for kind, number in _changes(run))


def _changes(run: Run) -> Iterator[tuple[str, int]]:
    """The changes of all watched kinds, each with its number."""
    watched = {one.kind for one in run.trace if one.act == "event"}
    numbers: Counter[str] = Counter()
    for one in run.changes:
        numbers[one.kind] += 1
        if one.kind in watched:
            yield one.kind, numbers[one.kind]


def _stale_restarts(run: Run, writes: Sequence[Step]) -> Iterator[Disturbance]:
    """Stale restarts after the last write before each action of the user, then after the other writes."""
    ends = _last_before_user(run, writes)
    others = [one for one in writes if one not in ends]
    for is_by_user in (True, False):
        for one in (*reversed(ends), *others):
            yield from _backs(run, one, is_by_user=is_by_user)


def _backs(run: Run, step: Step, *, is_by_user: bool) -> Iterator[Disturbance]:
    before = [one for one in run.changes if one.revision <= step.revision]
    for back, change in enumerate(reversed(before), 1):
        if (change.process == "user") is is_by_user:
            # A process that starts just before the next change sees the user's last action too.
            found = (back, back - 1) if is_by_user else (back,)
            yield from (StaleRestart(step.name, one) for one in found if one > 1)


def _last_before_user(run: Run, writes: Sequence[Step]) -> list[Step]:
    acts = [one.number for one in run.trace if one.act == "user" and one.is_write]
    last: dict[int, Step] = {}
    for one in writes:
        last[sum(number < one.number for number in acts)] = one
    return list(last.values())


def _reorders(run: Run) -> Iterator[Disturbance]:
    kinds = sorted({one.kind for one in run.trace if one.act == "event"})
    if len(kinds) > 1:
        yield from map(Reorder, kinds)
    yield from (Reorder("workers", number) for number in range(1, _ORDERS + 1))


def _spread(family: Sequence[Disturbance]) -> list[Disturbance]:
    """Round-robin over the groups: the first of each call (or kind) before the second of any."""
    groups: dict[str, list[Disturbance]] = {}
    for one in family:
        groups.setdefault(_group(one), []).append(one)
    return [one for round_ in zip_longest(*groups.values()) for one in round_ if one is not None]


def _group(one: Disturbance) -> str:
    match one:
        case Hold(kind) | Relist(kind):
            return kind
        case StaleRestart():
            return one.word  # already ordered by _stale_restarts
        case _:
            at: StepName | None = one.step
            return one.word if at is None else at.action
