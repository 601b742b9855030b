"""Makes plans from an undisturbed run: what could go wrong at each of its steps, the most telling first.

Two plans that cannot lead to different runs are made once: a crash after a write and one before the next write of the
same look leave the same state behind, if nothing but memory lies between them.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import zip_longest
from typing import Final, TypeVar

from levelset.testing.explore.plans import (
    At,
    Away,
    Conflict,
    CrashAfter,
    CrashBefore,
    CrashDuring,
    Disturbance,
    Hold,
    LostAnswer,
    OlderAfterRestart,
    Plan,
    Refusal,
    Reorder,
    Skip,
    Slow,
    Takeover,
)
from levelset.testing.explore.run_result import Run
from levelset.testing.explore.trace import Step

__all__ = ["derive", "derive_pairs", "derive_singles"]

T = TypeVar("T")

_CHANGES: Final = frozenset({"apply", "patch", "update"})
_ORDERS: Final = 3
"""So many other orders of looks are tried."""
_POINTS: Final = 50
"""So many of the points at which a look waits are tried."""
_PARTNERS: Final = 60
"""So many of the first disturbances are tried in pairs."""


def derive(run: Run, *, has_outside: bool = False, leader: bool = False, older: bool = True) -> Iterator[Plan]:
    """All plans for a scenario, single disturbances before pairs; as many as somebody takes."""
    singles = derive_singles(run, has_outside=has_outside, leader=leader, older=older)
    yield from (Plan((one,)) for one in singles)
    yield from derive_pairs(singles)


def derive_singles(
    run: Run, *, has_outside: bool = False, leader: bool = False, older: bool = True
) -> list[Disturbance]:
    """All that can go wrong once, the most telling first: the families take turns, and so do the calls inside each."""
    writes = [one for one in run.trace.writes() if one.cause is not None]
    names = [one.name for one in writes]
    families: tuple[Iterable[Disturbance], ...] = (
        map(CrashAfter, names),
        map(LostAnswer, names),
        _holds(run),
        (Conflict(at) for at in names if at.verb in _CHANGES),
        _crashes_before(writes, has_outside=has_outside),
        _skips(run),
        map(Away, (one.name for one in _last_before_people(run, writes))),
        map(Takeover, names) if leader else (),
        map(Refusal, names),
        _older(run, writes) if older else (),
        _crashes_during(run, has_outside=has_outside),
        _reorders(run),
        map(Slow, names),
    )
    spread = [_spread(list(family)) for family in families]
    found = dict.fromkeys(one for turn in zip_longest(*spread) for one in turn if one is not None)
    return list(found)


def derive_pairs(singles: Sequence[Disturbance]) -> Iterator[Plan]:
    """Two disturbances in one run: the most telling with each other first, never two at the same step."""
    first = singles[:_PARTNERS]
    for total in range(1, 2 * len(first)):
        for index in range(max(0, total - len(first) + 1), (total + 1) // 2):
            one, other = first[index], first[total - index]
            if one.step is None or one.step != other.step:
                yield Plan((one, other))


def _crashes_before(writes: Sequence[Step], *, has_outside: bool) -> Iterator[Disturbance]:
    """Before the first write of each look; before later ones only if something outside may have happened between."""
    seen: set[str] = set()
    for one in writes:
        look = str(one.cause)
        if look not in seen or has_outside:
            yield CrashBefore(one.name)
        seen.add(look)


def _crashes_during(run: Run, *, has_outside: bool) -> Iterator[Disturbance]:
    """At each point at which a look waits, and at its end if something outside may have happened."""
    for one in run.trace:
        if one.act == "looked":
            yield from (CrashDuring(one.name, point) for point in range(1, min(one.points, _POINTS) + 1))
            if has_outside and one.seen:
                yield CrashDuring(one.name, 0)


def _holds(run: Run) -> Iterator[Disturbance]:
    return (Hold(kind, number) for kind, number in _changes(run))


def _skips(run: Run) -> Iterator[Disturbance]:
    return (Skip(kind, number) for kind, number in _changes(run))


def _changes(run: Run) -> Iterator[tuple[str, int]]:
    """The changes of all kinds that somebody watches, each with its number."""
    watched = {one.kind for one in run.trace if one.act == "event"}
    numbers: Counter[str] = Counter()
    for one in run.changes:
        numbers[one.kind] += 1
        if one.kind in watched:
            yield one.kind, numbers[one.kind]


def _older(run: Run, writes: Sequence[Step]) -> Iterator[Disturbance]:
    """After the last write before people act again, the last first: as before each earlier change, people's first."""
    ends = _last_before_people(run, writes)
    others = [one for one in writes if one not in ends]
    for is_by_people in (True, False):
        for one in (*reversed(ends), *others):
            yield from _backs(run, one, is_by_people=is_by_people)


def _backs(run: Run, step: Step, *, is_by_people: bool) -> Iterator[Disturbance]:
    before = [one for one in run.changes if one.revision <= step.revision]
    for back, change in enumerate(reversed(before), 1):
        if (change.process == "people") is is_by_people:
            # What people did last is seen by who looks before the next change; that of a controller says less.
            found = (back, back - 1) if is_by_people else (back,)
            yield from (OlderAfterRestart(step.name, one) for one in found if one > 1)


def _last_before_people(run: Run, writes: Sequence[Step]) -> list[Step]:
    acts = [one.number for one in run.trace if one.act == "people" and one.is_write]
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
    """The first of each call (or kind) before the second of any."""
    groups: dict[str, list[Disturbance]] = {}
    for one in family:
        groups.setdefault(_group(one), []).append(one)
    return [one for turn in zip_longest(*groups.values()) for one in turn if one is not None]


def _group(one: Disturbance) -> str:
    match one:
        case Hold(kind) | Skip(kind):
            return kind
        case OlderAfterRestart():
            return one.word  # they come in an order of their own
        case _:
            at: At | None = one.step
            return one.word if at is None else at.said
