"""Derives plans from an undisturbed run: what could go wrong at each of its steps, the most significant first.

Plans that cannot lead to different runs are derived once: a crash after a write and a crash before the next write of
the same reconcile leave the same state, if nothing outside of the process changes in between.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import combinations, zip_longest
from typing import Final, TypedDict, TypeVar, Unpack

from levelset.testing.explore.faults.disturbance import OUTSIDE, SCENARIO_END
from levelset.testing.explore.faults.environment_faults import (
    ChildDeleted,
    ChildEdited,
    ClockSkew,
    FinalizerRemoved,
    LabelChanged,
    NamespaceDeleted,
    ObjectTouched,
    Outage,
    OutsideError,
    Overlap,
    PagedList,
    Pause,
    Preempt,
    SlowGarbageCollection,
    SpecChanged,
    ThirdParty,
)
from levelset.testing.explore.faults.plan import (
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
from levelset.testing.explore.records.run_result import Change, Run
from levelset.testing.explore.records.stored_state import Key
from levelset.testing.explore.records.trace import Step

__all__ = ["PlanOptions", "derive", "derive_pairs", "derive_singles", "derive_triples"]

T = TypeVar("T")

_READS: Final = frozenset({"get", "list"})
_CREATED: Final = "201"
"""The outcome of an apply that creates its object, which cannot meet a conflict."""
_CHANGES: Final = frozenset({"apply", "patch", "update"})
_ORDERS: Final = 3
"""How many other orders of reconciles are tried."""
_FEW: Final = 3
_OPERATIONS: Final = 6
_PREEMPTIONS: Final = 12
"""How many awaits of a reconcile are tried as preemptions."""
_HOURS: Final = 7200.0
_OUTAGES: Final = {
    "unreachable": 60.0,
    "500": 60.0,
    "409": 60.0,
    "403": 60.0,
    "restart": 20.0,
    "silent": 300.0,
    "429": 30.0,
    "404": 30.0,
    "504": 60.0,
    "410": 60.0,
    "compaction": 1.0,
}
"""The outages that are tried, each with its seconds; longer than the first retries."""
_SKEWS: Final = (120.0, -120.0)
_POINTS: Final = 50
"""How many awaits of a reconcile are tried as crash points."""
_TRIPLED: Final = 20
"""How many of the first disturbances are tried in threes."""
_PARTNERS: Final = 60
"""How many of the first disturbances are tried in pairs."""


class PlanOptions(TypedDict, total=False):
    """What the exploration says about the plans that are derived."""

    has_outside: bool
    leader: bool
    stale_restarts: bool
    webhook_kinds: Sequence[str]
    """The kinds for which admission webhooks are called."""
    outside_errors: int
    """The number of errors that calls to the outside may raise."""


def derive(run: Run, **options: Unpack[PlanOptions]) -> Iterator[Plan]:
    """All plans for a scenario, lazily: single disturbances before pairs."""
    singles = derive_singles(run, **options)
    yield from (Plan((one,)) for one in singles)
    yield from _series(run.operations)
    preempted = [one for one in singles if isinstance(one, Preempt)]
    both = (_two_preemptions(preempted), derive_pairs([one for one in singles if not isinstance(one, Preempt)]))
    for round_ in zip_longest(*both):
        yield from (one for one in round_ if one is not None)
    yield from derive_triples(singles)


def _series(operations: Sequence[SpecChanged]) -> Iterator[Plan]:
    """All changes of one object after each other, forward and backward."""
    for target in dict.fromkeys(one.target for one in operations):
        several = tuple({one.path: one for one in operations if one.target == target and not one.back}.values())
        if len(several) > 1:
            yield from (Plan(several[:_OPERATIONS]), Plan(several[::-1][:_OPERATIONS]))


def _two_preemptions(preempted: Sequence[Disturbance]) -> Iterator[Plan]:
    """All schedules with two preemptions, in different reconciles."""
    for index, one in enumerate(preempted):
        for other in preempted[index + 1 :]:
            if one.step != other.step:
                yield Plan((one, other))


def derive_triples(singles: Sequence[Disturbance]) -> Iterator[Plan]:
    """Three of the most significant disturbances, at different steps."""
    first = [one for one in singles if not isinstance(one, NamespaceDeleted | SpecChanged | ThirdParty)][:_TRIPLED]
    for one, other, third in combinations(first, 3):
        if len({it.step for it in (one, other, third)}) == 3:
            yield Plan((one, other, third))


def derive_singles(run: Run, **options: Unpack[PlanOptions]) -> list[Disturbance]:
    """All single disturbances, the most significant first: round-robin over the families, then over the calls."""
    has_outside, leader = options.get("has_outside", False), options.get("leader", False)
    stale_restarts, webhook_kinds = options.get("stale_restarts", True), options.get("webhook_kinds", ())
    writes = [one for one in run.trace.writes() if one.cause is not None]
    reads = [one.name for one in run.trace if one.act == "call" and one.cause is not None and one.verb in _READS]
    outside = [one.name for one in run.trace if one.act == "call" and one.name.verb == OUTSIDE]
    may_fail = options.get("outside_errors", 1) > 0
    names = [one.name for one in writes]
    families: tuple[Iterable[Disturbance], ...] = (
        map(CrashAfter, names),
        map(LostResponse, outside if may_fail else ()),
        map(CrashAfter, outside),
        map(LostResponse, names),
        _holds(run),
        (Conflict(one.name) for one in writes if one.verb in _CHANGES and one.outcome != _CREATED),
        (OutsideError(at, number + 1) for number in range(options.get("outside_errors", 1)) for at in outside),
        _crashes_before(writes, has_outside=has_outside),
        _relists(run),
        map(Downtime, (one.name for one in _last_before_user(run, writes))),
        map(ErrorResponse, reads),
        _third_parties(run),
        (ObjectTouched(one.at, one.location) for one in run.targets if one.is_touchable and one.at == SCENARIO_END),
        map(Takeover, names) if leader else (),
        map(ErrorResponse, names),
        _stale_restarts(run, writes, has_outside=has_outside) if stale_restarts else (),
        _crashes_during(run, has_outside=has_outside),
        _preemptions(run),
        _reorders(run),
        map(Slow, names),
        map(CrashBefore, outside),
        map(Slow, outside),
        map(Slow, reads),
        (PagedList(at) for at in reads if at.action.endswith("/pages")),
        map(CrashBefore, reads),
        _outages(run, writes),
        _outages_of_others(writes, outside if may_fail else [], webhook_kinds),
        map(Overlap, _few(names)) if not leader else map(Pause, [*outside, *names]),
        map(ClockSkew, _SKEWS),
        run.operations,
        _namespace_deletions(run),
        [SlowGarbageCollection()] if _has_owned(run) else (),
    )
    spread = [_spread(list(family)) for family in families]
    found = dict.fromkeys(one for round_ in zip_longest(*spread) for one in round_ if one is not None)
    return list(found)


def derive_pairs(singles: Sequence[Disturbance]) -> Iterator[Plan]:
    """Pairs of disturbances, the most significant first; never two at the same step.

    Changes by other writers are left out: a controller that is down cannot undo them in time.
    """
    first = [one for one in singles if not isinstance(one, NamespaceDeleted | SpecChanged | ThirdParty)][:_PARTNERS]
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


def _third_parties(run: Run) -> Iterator[Disturbance]:
    """Each child deleted and edited, each label changed and each finalizer removed, first after the scenario."""
    for is_end in (True, False):
        for one in run.targets:
            if (one.at == SCENARIO_END) is is_end:
                if one.is_child:
                    yield ChildDeleted(one.at, one.location)
                if one.is_content:
                    yield ChildEdited(one.at, one.location)
                if one.has_label:
                    yield LabelChanged(one.at, one.location)
                # An object that is deleted in the same moment cannot get its finalizer back.
                if one.has_finalizer and one.at.verb != "delete":
                    yield FinalizerRemoved(one.at, one.location)


def _outages(run: Run, writes: Sequence[Step]) -> Iterator[Disturbance]:
    """Each outage at the first write, and at the last one before an action of the user; a long one once."""
    steps = _few([one.name for one in writes])
    last = [one.name for one in _last_before_user(run, writes)][:_FEW]
    for at in dict.fromkeys([*steps[:1], *last, *steps]):
        for what, seconds in _OUTAGES.items():
            yield Outage(at, what, seconds)
    yield from (Outage(at, "unreachable", _HOURS) for at in steps[:1])


def _outages_of_others(
    writes: Sequence[Step], outside: Sequence[StepName], webhook_kinds: Sequence[str]
) -> Iterator[Disturbance]:
    """The outside fails from each of its calls on, and webhooks from each write on."""
    yield from (Outage(at, "outside") for at in _few(outside))
    for at in _few([one.name for one in writes]):
        yield from (Outage(at, f"webhook {kind}") for kind in webhook_kinds)


def _few(names: Sequence[StepName]) -> list[StepName]:
    """The first call of each action."""
    return [one for one in names if one.number == 1]


def _namespace_deletions(run: Run) -> Iterator[Disturbance]:
    moments = dict.fromkeys(one.at for one in run.targets if one.location.split("/")[1:2] == [run.namespace])
    yield from map(NamespaceDeleted, reversed(moments))


def _has_owned(run: Run) -> bool:
    return any(one.after is None and one.process == "server" for one in run.changes)


def _preemptions(run: Run) -> Iterator[Disturbance]:
    """At each call and await of a reconcile that runs at the same time as one of another object or controller."""
    steps = run.trace.steps
    times: dict[float, set[str]] = {}
    for one in steps:
        if one.act == "reconcile":
            times.setdefault(round(one.at, 1), set()).add(one.name.action)
    for one in steps:
        if one.act == "call" and one.cause is not None and len(times.get(round(one.at, 1), ())) > 1:
            yield Preempt(one.name)
        if one.act == "reconciled" and len(times.get(round(one.at, 1), ())) > 1:
            yield from (Preempt(one.name, point) for point in range(1, min(one.points, _PREEMPTIONS) + 1))


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


def _stale_restarts(run: Run, writes: Sequence[Step], *, has_outside: bool) -> Iterator[Disturbance]:
    """Stale restarts after the last write before each action of the user, then after the other writes.

    With an outside, no view shows an object again that is gone, or a finalizer that is: nothing would remove what a
    controller creates outside for it.
    """
    ends = _last_before_user(run, writes)
    others = [one for one in writes if one not in ends]
    for is_by_user in (True, False):
        for one in (*reversed(ends), *others):
            yield from _backs(run, one, is_by_user=is_by_user, has_outside=has_outside)


def _backs(run: Run, step: Step, *, is_by_user: bool, has_outside: bool) -> Iterator[Disturbance]:
    before = [one for one in run.changes if one.revision <= step.revision]
    released = _released(before) if has_outside else frozenset[int]()
    for back, change in enumerate(reversed(before), 1):
        if change.revision in released:
            return
        if (change.process == "user") is is_by_user:
            # A process that starts just before the next change sees the user's last action too.
            found = (back, back - 1) if is_by_user else (back,)
            yield from (StaleRestart(step.name, one) for one in found if one > 1)


def _released(changes: Sequence[Change]) -> frozenset[int]:
    """The revisions at which an object was removed, or has lost a finalizer."""
    found: set[int] = set()
    finalizers: dict[Key, set[str]] = {}
    for one in changes:
        now: set[str] = set() if one.tree is None else set(one.tree["metadata"].get("finalizers") or ())
        if one.after is None or not finalizers.get(one.key, now) <= now:
            found.add(one.revision)
        finalizers[one.key] = now
    return frozenset(found)


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
        case Outage():
            return f"{one.word} {one.what}"
        case SpecChanged():
            return f"{one.word} {one.path}"
        case StaleRestart() | ThirdParty():
            return one.word  # already ordered by _stale_restarts
        case _:
            at: StepName | None = one.step
            return one.word if at is None else at.action
