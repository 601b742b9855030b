"""Judges a run by the rules of `RULES` and by comparing its end state with that of the undisturbed run.

The rules hold for every correct controller under every disturbance, so each finding is a bug or needs an explanation.
Where the same state can be reached in several ways, only the end state is compared.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from traceback import extract_tb
from typing import Any, Final, Literal

import msgspec

from levelset.objects.json_tree import is_list, is_map
from levelset.testing.explore.faults.environment_faults import (
    NamespaceDeleted,
    ObjectTouched,
    Outage,
    Pause,
    SpecChanged,
    ThirdParty,
)
from levelset.testing.explore.faults.plan import Disturbance, Hold, Relist, Reorder, StaleRestart, StepName
from levelset.testing.explore.judging.endless_loops import find_endless_loops
from levelset.testing.explore.records.normalize import NormalizedState
from levelset.testing.explore.records.run_result import Change, Finding, Run
from levelset.testing.explore.records.trace import Step
from levelset.testing.reconcile_failures import AllowedErrors, describe_error, is_allowed, leaves_of

__all__ = ["Difference", "Mask", "differences", "judge", "learn_mask"]

_NOTHING: Final = "nothing"
_LONGEST: Final = 200

_read: Final = msgspec.json.Decoder()
_write: Final = msgspec.json.Encoder(order="sorted")

FieldPath = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Difference:
    """One location, or one field of an object there, that is not as expected."""

    what: Literal["extra", "field", "missing"]
    location: str
    path: FieldPath = ()
    expected: str = ""
    actual: str = ""

    @property
    def words(self) -> str:
        """The field in dotted form: `spec.replicas`."""
        return ".".join(self.path)


@dataclass(frozen=True)
class Mask:
    """Fields that are not compared: those that differ between undisturbed runs with different seeds."""

    fields: frozenset[tuple[str, FieldPath]] = field(default_factory=frozenset[tuple[str, FieldPath]])
    """By location and path, or by kind and path."""

    def hides(self, one: Difference) -> bool:
        """Whether a difference is ignored."""
        kind = one.location.split("/", 1)[0]
        paths = [one.path[:length] for length in range(1, len(one.path) + 1)] or [()]
        return any((where, path) in self.fields for where in (one.location, kind) for path in paths)


def differences(actual: NormalizedState, expected: NormalizedState, mask: Mask = Mask()) -> list[Difference]:  # noqa: B008
    """The differences of two end states, in the order of the locations."""
    if actual == expected:
        return []
    found: list[Difference] = []
    for location in sorted(actual.keys() | expected.keys()):
        ours, theirs = actual.get(location, ()), expected.get(location, ())
        if ours != theirs:
            found += _compare(location, ours, theirs, mask)
    return found


def learn_mask(one: NormalizedState, other: NormalizedState, ignored: Sequence[str] = ()) -> Mask:
    """The mask of two undisturbed runs and of the ignored fields, such as `Website.status.attempts`."""
    by_chance = {(diff.location, diff.path) for diff in differences(one, other) if diff.what == "field"}
    by_option = {(kind, tuple(path.split("."))) for kind, dot, path in (text.partition(".") for text in ignored) if dot}
    return Mask(frozenset(by_chance | by_option))


def _compare(location: str, ours: Sequence[str], theirs: Sequence[str], mask: Mask) -> Iterator[Difference]:
    if len(ours) > len(theirs):
        yield Difference("extra", location, expected=str(len(theirs)), actual=str(len(ours)))
        return
    if len(ours) < len(theirs):
        yield Difference("missing", location, expected=str(len(theirs)), actual=str(len(ours)))
        return
    # Objects with generated names have no order: equal ones are matched first.
    left, wanted = list(ours), list(theirs)
    for text in ours:
        if text in wanted:
            wanted.remove(text)
            left.remove(text)
    for text, want in zip(left, wanted, strict=True):
        for one in _fields(location, _read.decode(text), _read.decode(want), ()):
            if not mask.hides(one):
                yield one


def _fields(location: str, actual: Any, expected: Any, path: FieldPath) -> Iterator[Difference]:
    if actual == expected:
        return
    if is_map(actual) and is_map(expected):
        for name in sorted(actual.keys() | expected.keys()):
            yield from _fields(location, actual.get(name), expected.get(name), (*path, name))
        return
    if is_list(actual) and is_list(expected) and len(actual) == len(expected):
        for index, (one, other) in enumerate(zip(actual, expected, strict=True)):
            yield from _fields(location, one, other, (*path, str(index)))
        return
    yield Difference("field", location, path, expected=_shorten(expected), actual=_shorten(actual))


def _shorten(value: Any) -> str:
    text = _NOTHING if value is None else _write.encode(value).decode()
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."


_PACKAGE_ROOT: Final = Path(__file__).parents[3]
_MOST_TIMES: Final = 4
_MOST_MORE: Final = 30
_MOST_BEHIND: Final = 300
"""Writes are too many above `_MOST_TIMES` times the undisturbed number plus one of the other two."""
_MOST_FINDINGS: Final = 10
_FAILED: Final = ("failed", "timed_out", "gave_up")
_DATA: Final = frozenset({"PersistentVolume", "PersistentVolumeClaim"})
"""Kinds whose objects hold data, which is lost when they are deleted."""
_DELETING: Final = '"deletionTimestamp"'


def judge(
    run: Run,
    baseline: Run | None = None,
    *,
    mask: Mask = Mask(),  # noqa: B008
    allowed: Sequence[str] = (),
    expected_errors: AllowedErrors = False,
) -> tuple[Finding, ...]:
    """The findings of a run, the most significant first; the undisturbed run itself has no baseline."""
    rules: list[Callable[[Run, Run | None], Iterator[Finding]]] = [
        _broken_invariants,
        _crashed_processes,
        _endless,
        lambda run, base: _end_state(run, base, mask),
        _lost,
        _created_twice,
        _leaders,
        _two_actors,
        _never_quiet,
        _too_many_writes,
        lambda run, base: _failing(run, base, expected_errors),
        _scenario_failed,
    ]
    found: list[Finding] = []
    for rule in rules:
        for one in rule(run, baseline):
            if (
                len(found) < _MOST_FINDINGS
                and not _is_allowed(one, allowed)
                and not any((one.rule, one.sentence) == (it.rule, it.sentence) for it in found)
            ):
                found.append(one)
    return tuple(found)


def _is_allowed(one: Finding, allowed: Sequence[str]) -> bool:
    """Whether the exploration has switched off this rule, for all kinds or for that of the finding."""
    for text in allowed:
        rule, _, kind = (part.strip() for part in text.partition(":"))
        if rule == one.rule and kind in {"", one.kind}:
            return True
    return False


def _broken_invariants(run: Run, base: Run | None) -> Iterator[Finding]:  # noqa: ARG001 -- all rules have the same signature
    for one in run.broken:
        if not one.is_at_end and any(isinstance(it, NamespaceDeleted | ThirdParty) for it in run.plan):
            continue  # another writer broke it, and the controllers have time to restore it
        by, revision = (one.step, 0) if one.change is None else (one.change.by, one.change.revision)
        yield Finding(one.name, one.words, _step(run, by), revision)


def _crashed_processes(run: Run, base: Run | None) -> Iterator[Finding]:  # noqa: ARG001
    for one in run.ended:
        yield Finding("crashed", f"{one.process} ended by itself: {describe_error(one.error)}")


def _failing(run: Run, base: Run | None, expected: AllowedErrors) -> Iterator[Finding]:
    """Undisturbed, no reconcile may fail, unless the scenario expects it."""
    if base is not None:
        return
    seen: set[tuple[str, str]] = set()
    for name, error in run.failures:
        said = describe_error(error)
        if is_allowed(error, expected) or (name.action, said) in seen:
            continue
        seen.add((name.action, said))
        steps = [one for one in run.trace if one.act == "reconciled" and one.name.action == name.action]
        step = next((one for one in steps if one.name == name), None)
        classes = ", ".join(dict.fromkeys(type(one).__name__ for one in leaves_of(error)))
        how = "fails each time" if all(one.outcome.startswith(_FAILED) for one in steps) else "fails"
        hint = f"; if the scenario expects that, pass expected_errors={classes}"
        yield Finding("failing", f"{name.action} {how}: {said}{hint}", step, 0 if step is None else step.revision)


def _scenario_failed(run: Run, base: Run | None) -> Iterator[Finding]:
    if run.error is not None and _has_failed(run, base):
        hint = "" if base is None else "; wait with `until` for what takes longer when disturbed"
        yield Finding("scenario", f"the scenario failed: {describe_error(run.error)}{_where(run.error)}{hint}")


def _has_failed(run: Run, base: Run | None) -> bool:
    """Whether the scenario failed only when disturbed: then the end state is not comparable."""
    if any(isinstance(one, NamespaceDeleted) for one in run.plan):
        return False  # its later actions fail
    return run.error is not None and (base is None or base.error is None)


def _endless(run: Run, base: Run | None) -> Iterator[Finding]:
    """A run that was stopped, or that was followed for long and has not come to rest."""
    is_long = run.is_long or run.is_endless
    loops = find_endless_loops(run, is_long=is_long) if base is None or run.is_endless else []
    yield from loops
    if run.hot_loop:
        yield Finding("endless loop", run.hot_loop.strip(), run.trace.steps[-1] if len(run.trace) else None)
    elif run.endless is not None and not loops:
        step = next((one for one in reversed(run.trace.steps) if one.name.action == run.endless.action), None)
        said = f"{run.endless.action}: {run.endless.number} times, and it does not stop"
        yield Finding("endless loop", said, step, 0 if step is None else step.revision)


def _end_state(run: Run, base: Run | None, mask: Mask) -> Iterator[Finding]:
    if base is None or run.is_endless or _has_failed(run, base):
        return
    expected = base.ends if base.late_end is None else [base.late_end]
    if any(isinstance(one, NamespaceDeleted) for one in run.plan):
        expected = [_without_namespace(run, base)]
    ends = [differences(run.end, one, mask) for one in expected]
    if any(isinstance(one, ObjectTouched) for one in run.plan):
        # A status may say which version of an object was read.
        ends = [[it for it in one if it.path[:1] != ("status",)] for one in ends]
    found = min(ends, key=len) if ends else list[Difference]()
    for one in found:
        yield _end_finding(run, one)


def _without_namespace(run: Run, base: Run) -> NormalizedState:
    """What remains when the namespace of the scenario is deleted: other objects, and the outside as at the start.

    Controllers without a finalizer do not claim to clean up outside.
    """
    others = {
        where: texts
        for where, texts in base.end.items()
        if not where.startswith("outside.") and where.split("/")[1:2] != [base.namespace]
    }
    if any(one.has_finalizer for one in base.targets):
        return {**others, **base.outside_before}
    return {**others, **{where: texts for where, texts in run.end.items() if where.startswith("outside.")}}


def _end_finding(run: Run, one: Difference) -> Finding:
    change = _last_change(run, one.location)
    # No step created what is missing; then show the step that was disturbed.
    step, revision = (_disturbed(run), 0) if change is None else (_step(run, change.by), change.revision)
    is_generated = one.location.endswith("~")
    match one.what:
        case "extra" if one.location.startswith("outside.") and one.expected == "0":
            rule, said = "leaked", f"{one.location} still exists ({one.actual} instead of none)"
        case "extra" if is_generated or one.expected != "0":
            rule, said = "created twice", f"there are {one.actual} of {one.location} instead of {one.expected}"
        case "extra" if any(_DELETING in text for text in run.end.get(one.location, ())):
            rule, said = "stuck", f"{one.location} is being deleted and is never removed"
        case "extra":
            rule, said = "leaked", f"{one.location} still exists"
        case "missing":
            rule, said = "end state", f"{one.location} does not exist ({one.actual} instead of {one.expected})"
        case "field" if one.path == ("metadata", "deletionTimestamp") and one.expected == "nothing":
            rule, said = "stuck", f"{one.location} is being deleted and is never removed"
        case "field" if not one.path:
            rule, said = "end state", f"{one.location} is {one.actual} instead of {one.expected}"
        case "field":
            rule, said = "end state", f"{one.location}: {one.words} is {one.actual} instead of {one.expected}"
    kind = one.location.split("/", 1)[0]
    if rule in {"end state", "leaked"} and (other := next((it for it in run.plan if isinstance(it, ThirdParty)), None)):
        rule, said = _not_healed(run, other, f"{said} after {other}")
    if any(isinstance(it, SpecChanged) and not it.back for it in run.plan):
        said = f"{said}, unlike after a fresh start with the same spec"
    return Finding(rule, said, step, revision, expected=one.expected, actual=one.actual, about=kind)


def _not_healed(run: Run, other: ThirdParty, said: str) -> tuple[str, str]:
    """The rule that is broken by a change of another writer that stays, and what to do about it."""
    kind = other.target.split("/", 1)[0]
    if isinstance(other, ObjectTouched):
        return "end state", f"{said}: a reconcile without a change must change nothing"
    if any(one.act == "event" and one.kind == kind for one in run.trace):
        return "not healed", said
    return "not watched", f"{said}: no controller watches {kind}, and no reconcile was due that could have found it"


def _lost(run: Run, base: Run | None) -> Iterator[Finding]:
    """Objects that are not deleted in the undisturbed run must not be deleted for good.

    A controller that recovers from a fault by deleting its child and creating it again loses nothing, unless the object
    holds data. There is nothing to recover from if only caches were stale.
    """
    if base is None or any(isinstance(one, NamespaceDeleted | SpecChanged) for one in run.plan):
        return
    last = {one.key: one for one in run.changes}
    is_fault = not all(map(_is_behind, run.plan))
    is_there = {key for key, one in last.items() if one.after is not None and one.kind not in _DATA and is_fault}
    gone = {one.key for one in base.changes if one.after is None}
    stays = {one.key for one in base.changes} - gone
    for one in run.changes:
        is_by_controller = one.by is not None and one.process not in {"user", "another"}
        if one.after is None and one.key in stays - is_there and not one.prefix and is_by_controller:
            where = "/".join(part for part in one.key[1:] if part)
            said = f"{where} is deleted, although it should not be"
            yield Finding("lost", said, _step(run, one.by), one.revision, about=one.kind)


def _created_twice(run: Run, base: Run | None) -> Iterator[Finding]:
    """There are never more equal objects with generated names than in the undisturbed run.

    A process that sees an older state after a restart cannot avoid it; then only the end state counts.
    """
    if base is None or any(isinstance(one, StaleRestart | SpecChanged) for one in run.plan):
        return
    usual = _max_at_once(base.changes)
    most: dict[tuple[str, str], int] = {}
    for (kind, prefix, _), (number, _) in usual.items():
        most[kind, prefix] = max(number, most.get((kind, prefix), 0))
    for (kind, prefix, content), (number, change) in _max_at_once(run.changes).items():
        # Content that never appears undisturbed, such as a skipped state, may exist as often as any other.
        expected = usual.get((kind, prefix, content), (most.get((kind, prefix), 0), change))[0]
        if number > expected and change.process != "user":
            said = f"there are {number} of {kind} {prefix}~ at once instead of at most {expected}"
            step = _step(run, change.by)
            yield Finding("created twice", said, step, change.revision, str(expected), str(number), kind)


def _max_at_once(changes: Sequence[Change]) -> dict[tuple[str, str, str], tuple[int, Change]]:
    """The maximum number of equal objects that existed at once, and the change that reached it."""
    now: Counter[tuple[str, str, str]] = Counter()
    most: dict[tuple[str, str, str], tuple[int, Change]] = {}
    made: dict[str, str] = {}
    gone: set[str] = set()
    for one in changes:
        uid = one.after or one.before or ""
        is_changed = one.before is not None and one.after is not None
        if not one.prefix or uid in gone or (is_changed and not one.is_deleting):
            continue
        if one.before is not None:
            gone.add(uid)  # an object that is being deleted makes room for its successor
        # An object that was changed later counts by its content at creation.
        content = made.setdefault(uid, one.content)
        what = one.kind, one.prefix, content
        now[what] += 1 if one.before is None else -1
        if now[what] > most.get(what, (0, one))[0]:
            most[what] = now[what], one
    return most


def _leaders(run: Run, base: Run | None) -> Iterator[Finding]:  # noqa: ARG001
    """Controllers that run only on the leader write only from the leader.

    A call that was already sent when the process was paused arrives late, which no controller can prevent.
    """
    if any(isinstance(one, Pause) for one in run.plan):
        return
    for one in run.changes:
        if one.holder and one.controller in run.leading and one.process != one.holder:
            where = "/".join(part for part in one.key[1:] if part)
            said = f"{one.process} changes {where} while {one.holder} is the leader"
            yield Finding("two leaders", said, _step(run, one.by), one.revision, one.holder, one.process)
            return


def _two_actors(run: Run, base: Run | None) -> Iterator[Finding]:  # noqa: ARG001
    """Of processes that share the objects, no two reconcile one of them at the same time."""
    open_: dict[tuple[str, str], dict[str, Step]] = {}
    for step in run.trace if run.sharing else ():
        if step.act in {"start", "crash"}:
            for actors in open_.values():  # a process of this slot has ended
                for process in [one for one in actors if one.partition(".")[0] == step.process.partition(".")[0]]:
                    del actors[process]
        if step.act not in {"reconcile", "reconciled"} or step.cause is None:
            continue
        if step.cause.controller not in run.sharing:
            continue
        actors = open_.setdefault((step.cause.controller, step.cause.ref), {})
        if step.act == "reconciled":
            actors.pop(step.process, None)
            continue
        for other in actors:
            said = f"{step.process} reconciles {step.cause.ref} while {other} does"
            yield Finding("two actors", said, step, step.revision, other, step.process)
            return
        actors[step.process] = step


def _never_quiet(run: Run, base: Run | None) -> Iterator[Finding]:
    """After a disturbance, there are not many more changes after the end than in the undisturbed run."""
    if base is None or run.is_endless:
        return
    most = 2 * base.late_changes + 2
    if run.late_changes > most:
        loops = find_endless_loops(run)
        step, _ = _most_frequent(run)
        said = f"{run.late_changes} changes after the end state was reached, such as {step.name.action}"
        yield from loops or [
            Finding("endless loop", said, step, step.revision, f"at most {most}", str(run.late_changes))
        ]


def _too_many_writes(run: Run, base: Run | None) -> Iterator[Finding]:
    if base is None or run.is_endless:
        return
    usual, made = len(base.trace.writes()), len(run.trace.writes())
    if any(isinstance(one, Outage) for one in run.plan):
        made = sum(one.has_effect for one in run.trace.writes())  # attempts in vain are expected
    most = _MOST_TIMES * usual + (_MOST_BEHIND if any(map(_is_behind, run.plan)) else _MOST_MORE)
    if made > most:
        step, times = _most_frequent(run)
        said = f"{made} writes instead of {usual}; {step.name.action} {times} times"
        yield Finding("too many writes", said, step, step.revision, f"at most {most}", str(made))


def _is_behind(one: Disturbance) -> bool:
    """Whether caches are stale for a while: writes based on deleted objects are then undone and repeated."""
    return isinstance(one, Hold | StaleRestart | Reorder | Relist)


def _most_frequent(run: Run) -> tuple[Step, int]:
    """The last step of the most frequent write, and how often it happened."""
    writes = run.trace.writes() or run.trace.steps
    [(action, times)] = Counter(one.name.action for one in writes).most_common(1)
    return next(one for one in reversed(writes) if one.name.action == action), times


def _last_change(run: Run, location: str) -> Change | None:
    """The last change of an object of a location, by a controller if there is one."""
    found = [one for one in run.changes if run.location_of(one) == location]
    return next((one for one in reversed(found) if one.process not in {"user", "server"}), found[-1] if found else None)


def _disturbed(run: Run) -> Step | None:
    return next((one for one in run.trace if one.disturbance and one.act == "call"), None)


def _step(run: Run, by: StepName | None) -> Step | None:
    return None if by is None else run.trace.find(by)


def _where(error: BaseException) -> str:
    """The line of the user's code that raised an error: the last frame outside of this package."""
    frames = [one for one in extract_tb(error.__traceback__) if not Path(one.filename).is_relative_to(_PACKAGE_ROOT)]
    return f" ({Path(frames[-1].filename).name}, line {frames[-1].lineno})" if frames else ""
