"""Judges a run: invariants, the end, what was made twice, lost or left behind, and whether it comes to rest.

The rules are those that a correct controller keeps whatever is done to it, so that each finding is worth a look. Where
the same state may be reached in several ways, only the end counts.

Compares two ends: which places have too much or too little, and which fields differ.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from traceback import extract_tb
from typing import Any, Final, Literal, cast

import msgspec

from levelset.objects.json_tree import is_list, is_map
from levelset.testing.explore.normalize import Normal
from levelset.testing.explore.plans import At, Disturbance, Hold, OlderAfterRestart, Reorder, Skip
from levelset.testing.explore.run_result import Change, Finding, Run
from levelset.testing.explore.trace import Step
from levelset.testing.virtual_time import RealWork

__all__ = ["Difference", "Mask", "differences", "judge", "learn_mask"]

_NOTHING: Final = "nothing"
_LONGEST: Final = 200

_read: Final = msgspec.json.Decoder()
_write: Final = msgspec.json.Encoder(order="sorted")

FieldPath = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Difference:
    """One place, or one field of an object there, that is not as expected."""

    what: Literal["extra", "field", "missing"]
    place: str
    path: FieldPath = ()
    expected: str = ""
    actual: str = ""

    @property
    def words(self) -> str:
        """The field as people write it: `spec.replicas`."""
        return ".".join(self.path)


@dataclass(frozen=True)
class Mask:
    """Fields that differ between two undisturbed runs with different seeds: chance makes them, nobody is to blame."""

    fields: frozenset[tuple[str, FieldPath]] = field(default_factory=frozenset[tuple[str, FieldPath]])
    """By place and path, or by kind and path."""

    def hides(self, one: Difference) -> bool:
        """Whether a difference means nothing."""
        kind = one.place.split("/", 1)[0]
        paths = [one.path[:length] for length in range(1, len(one.path) + 1)]
        return any((where, path) in self.fields for where in (one.place, kind) for path in paths)


def differences(actual: Normal, expected: Normal, mask: Mask = Mask()) -> list[Difference]:  # noqa: B008
    """How an end differs from another one, in the order of the places."""
    if actual == expected:
        return []
    found: list[Difference] = []
    for place in sorted(actual.keys() | expected.keys()):
        ours, theirs = actual.get(place, ()), expected.get(place, ())
        if ours != theirs:
            found += _compare(place, ours, theirs, mask)
    return found


def learn_mask(one: Normal, other: Normal, ignored: Sequence[str] = ()) -> Mask:
    """What differs between two undisturbed runs, and fields that somebody ignores: `Website.status.attempts`."""
    by_chance = {(diff.place, diff.path) for diff in differences(one, other) if diff.what == "field"}
    by_wish = {(kind, tuple(path.split("."))) for kind, dot, path in (text.partition(".") for text in ignored) if dot}
    return Mask(frozenset(by_chance | by_wish))


def _compare(place: str, ours: Sequence[str], theirs: Sequence[str], mask: Mask) -> Iterator[Difference]:
    if len(ours) > len(theirs):
        yield Difference("extra", place, expected=str(len(theirs)), actual=str(len(ours)))
        return
    if len(ours) < len(theirs):
        yield Difference("missing", place, expected=str(len(theirs)), actual=str(len(ours)))
        return
    # Objects whose names the server made up have no order of their own: those that are the same are set aside.
    left, wanted = list(ours), list(theirs)
    for text in ours:
        if text in wanted:
            wanted.remove(text)
            left.remove(text)
    for text, want in zip(left, wanted, strict=True):
        for one in _fields(place, _read.decode(text), _read.decode(want), ()):
            if not mask.hides(one):
                yield one


def _fields(place: str, actual: Any, expected: Any, path: FieldPath) -> Iterator[Difference]:
    if actual == expected:
        return
    if is_map(actual) and is_map(expected):
        for name in sorted(actual.keys() | expected.keys()):
            yield from _fields(place, actual.get(name), expected.get(name), (*path, name))
        return
    if is_list(actual) and is_list(expected) and len(actual) == len(expected):
        for index, (one, other) in enumerate(zip(actual, expected, strict=True)):
            yield from _fields(place, one, other, (*path, str(index)))
        return
    yield Difference("field", place, path, expected=_said(expected), actual=_said(actual))


def _said(value: Any) -> str:
    text = _NOTHING if value is None else _write.encode(value).decode()
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."


_HOUSE: Final = Path(__file__).parents[2]
_MOST_TIMES: Final = 4
_MOST_MORE: Final = 30
_MOST_BEHIND: Final = 300
"""So many times the usual writes, and so many more, are still no waste; still more while caches stand still."""
_MOST_FINDINGS: Final = 10
_MOST_LATE: Final = 30
"""So many changes in the quiet at the end of an undisturbed run may be a heartbeat; more are a fight."""
_FAILED: Final = ("failed", "timed_out")
_DELETING: Final = '"deletionTimestamp"'


def judge(run: Run, baseline: Run | None = None, *, mask: Mask = Mask()) -> tuple[Finding, ...]:  # noqa: B008
    """What is wrong with a run, the most telling first; without a baseline it is judged by itself."""
    rules: list[Callable[[Run, Run | None], Iterator[Finding]]] = [
        _broken,
        _crashed,
        _endless,
        lambda run, base: _end(run, base, mask),
        _lost,
        _twice,
        _leaders,
        _restless,
        _wasteful,
        _failing,
        _failed,
    ]
    found: list[Finding] = []
    for rule in rules:
        for one in rule(run, baseline):
            if len(found) < _MOST_FINDINGS and not any(
                (one.rule, one.sentence) == (it.rule, it.sentence) for it in found
            ):
                found.append(one)
    return tuple(found)


def _broken(run: Run, base: Run | None) -> Iterator[Finding]:  # noqa: ARG001 -- all rules have the same shape
    for one in run.broken:
        change = one.change
        yield Finding(one.name, one.words, _step(run, change.by), change.revision)


def _crashed(run: Run, base: Run | None) -> Iterator[Finding]:  # noqa: ARG001
    for one in run.ended:
        yield Finding("crashed", f"{one.process} has ended by itself: {_words(one.error)}")


def _failing(run: Run, base: Run | None) -> Iterator[Finding]:
    """Undisturbed, a controller has some success; one that has none at all says nothing when it is disturbed."""
    if base is not None:
        return
    succeeded = {_controller(one) for one in run.trace if one.act == "looked" and not one.outcome.startswith(_FAILED)}
    for said, error in run.failing.items():
        step = next((one for one in reversed(run.trace.steps) if one.act == "looked" and one.name.said == said), None)
        if step is not None and (_controller(step) not in succeeded or isinstance(error, RealWork)):
            yield Finding("failing", f"{said} fails each time: {_words(error)}", step, step.revision)


def _controller(step: Step) -> str:
    return "" if step.cause is None else step.cause.controller


def _failed(run: Run, base: Run | None) -> Iterator[Finding]:
    if run.error is not None and _has_failed(run, base):
        hint = "" if base is None else "; what takes longer when it is disturbed is waited for with `until`"
        yield Finding("scenario", f"what people do has failed: {_words(run.error)}{_where(run.error)}{hint}")


def _has_failed(run: Run, base: Run | None) -> bool:
    """Whether people could not do all that they do undisturbed: then the end says nothing."""
    return run.error is not None and (base is None or base.error is None)


def _endless(run: Run, base: Run | None) -> Iterator[Finding]:  # noqa: ARG001
    if run.endless is not None:
        step = next((one for one in reversed(run.trace.steps) if one.name.said == run.endless.said), None)
        said = f"{run.endless.said}: {run.endless.number} times, and no end in sight"
        yield Finding("endless loop", said, step, 0 if step is None else step.revision)


def _end(run: Run, base: Run | None, mask: Mask) -> Iterator[Finding]:
    if base is None or run.is_endless or _has_failed(run, base):
        return
    ends = [differences(run.end, one, mask) for one in base.ends]
    found = min(ends, key=len) if ends else list[Difference]()
    for one in found:
        yield _about_end(run, one)


def _about_end(run: Run, one: Difference) -> Finding:
    change = _last_change(run, one.place)
    # What is missing was made by no step; then it is the step that was disturbed.
    step, revision = (_disturbed(run), 0) if change is None else (_step(run, change.by), change.revision)
    is_generated = one.place.endswith("~")
    match one.what:
        case "extra" if is_generated:
            rule, said = "created twice", f"there are {one.actual} of {one.place} instead of {one.expected}"
        case "extra" if any(_DELETING in text for text in run.end.get(one.place, ())):
            rule, said = "stuck", f"{one.place} is being deleted and does not go"
        case "extra":
            rule, said = "leaked", f"{one.place} is still there"
        case "missing":
            rule, said = "end state", f"{one.place} is not there ({one.actual} instead of {one.expected})"
        case "field" if one.path == ("metadata", "deletionTimestamp") and one.expected == "nothing":
            rule, said = "stuck", f"{one.place} is being deleted and does not go"
        case "field":
            rule, said = "end state", f"{one.place}: {one.words} is {one.actual} instead of {one.expected}"
    return Finding(rule, said, step, revision, expected=one.expected, actual=one.actual)


def _lost(run: Run, base: Run | None) -> Iterator[Finding]:
    """Whatever is never deleted when nobody disturbs is not deleted at all."""
    if base is None:
        return
    gone = {one.key for one in base.changes if one.after is None}
    stays = {one.key for one in base.changes} - gone
    for one in run.changes:
        if one.after is None and one.key in stays and not one.prefix and one.by is not None and one.process != "people":
            where = "/".join(part for part in one.key[1:] if part)
            yield Finding("lost", f"{where} is deleted, although it should stay", _step(run, one.by), one.revision)


def _twice(run: Run, base: Run | None) -> Iterator[Finding]:
    """Of those that say the same, and whose names the server makes up, there are never more than undisturbed.

    Who is shown an older state after a restart cannot know better; then only the end counts.
    """
    if base is None or any(isinstance(one, OlderAfterRestart) for one in run.plan):
        return
    usual = _most_at_once(base.changes)
    most: dict[tuple[str, str], int] = {}
    for (kind, prefix, _), (number, _) in usual.items():
        most[kind, prefix] = max(number, most.get((kind, prefix), 0))
    for (kind, prefix, content), (number, change) in _most_at_once(run.changes).items():
        # What never appears undisturbed, such as a state that is skipped, may be there as often as anything else.
        expected = usual.get((kind, prefix, content), (most.get((kind, prefix), 0), change))[0]
        if number > expected and change.process != "people":
            said = f"there are {number} of {kind} {prefix}~ at once instead of at most {expected}"
            step = _step(run, change.by)
            yield Finding("created twice", said, step, change.revision, str(expected), str(number))


def _most_at_once(changes: Sequence[Change]) -> dict[tuple[str, str, str], tuple[int, Change]]:
    """How many objects that say the same there were at once at most, and the change that made it so many."""
    now: Counter[tuple[str, str, str]] = Counter()
    most: dict[tuple[str, str, str], tuple[int, Change]] = {}
    made: dict[str, str] = {}
    for one in changes:
        if not one.prefix or (one.before is not None and one.after is not None):
            continue
        # An object that was changed since counts as what it was when it was made.
        content = made.setdefault(one.after or one.before or "", one.content)
        what = one.kind, one.prefix, content
        now[what] += 1 if one.before is None else -1
        if now[what] > most.get(what, (0, one))[0]:
            most[what] = now[what], one
    return most


def _leaders(run: Run, base: Run | None) -> Iterator[Finding]:  # noqa: ARG001
    """What only a leader does is done by the leader."""
    for one in run.changes:
        if one.holder and one.controller in run.leading and one.process != one.holder:
            said = f"{one.process} changes {'/'.join(part for part in one.key[1:] if part)} while {one.holder} leads"
            yield Finding("two leaders", said, _step(run, one.by), one.revision, one.holder, one.process)
            return


def _restless(run: Run, base: Run | None) -> Iterator[Finding]:
    most = _MOST_LATE if base is None else 2 * base.late_changes + 2
    if run.late_changes > most and not run.is_endless:
        step, _ = _most_frequent(run)
        said = f"{run.late_changes} changes after everything had come to its end, such as {step.name.said}"
        yield Finding("endless loop", said, step, step.revision, f"at most {most}", str(run.late_changes))


def _wasteful(run: Run, base: Run | None) -> Iterator[Finding]:
    if base is None or run.is_endless:
        return
    usual, made = len(base.trace.writes()), len(run.trace.writes())
    most = _MOST_TIMES * usual + (_MOST_BEHIND if any(map(_is_behind, run.plan)) else _MOST_MORE)
    if made > most:
        step, times = _most_frequent(run)
        said = f"{made} writes instead of {usual}; {step.name.said} {times} times"
        yield Finding("too many writes", said, step, step.revision, f"at most {most}", str(made))


def _is_behind(one: Disturbance) -> bool:
    """Whether a cache is behind for a while: who acts on what is gone is undone by the server, and acts again."""
    return isinstance(one, Hold | OlderAfterRestart | Reorder | Skip)


def _most_frequent(run: Run) -> tuple[Step, int]:
    """What was done most often, and how often; by its last time."""
    writes = run.trace.writes() or run.trace.steps
    [(said, times)] = Counter(one.name.said for one in writes).most_common(1)
    return next(one for one in reversed(writes) if one.name.said == said), times


def _last_change(run: Run, place: str) -> Change | None:
    """The last change of an object of a place, by a controller if there is one."""
    found = [one for one in run.changes if run.place_of(one) == place]
    return next(
        (one for one in reversed(found) if one.process not in {"people", "server"}), found[-1] if found else None
    )


def _disturbed(run: Run) -> Step | None:
    return next((one for one in run.trace if one.disturbance and one.act == "call"), None)


def _step(run: Run, by: At | None) -> Step | None:
    return None if by is None else run.trace.find(by)


def _where(error: BaseException) -> str:
    """The line of the user's code that an error came from: the last outside of this package."""
    frames = [one for one in extract_tb(error.__traceback__) if not Path(one.filename).is_relative_to(_HOUSE)]
    return f" ({Path(frames[-1].filename).name}, line {frames[-1].lineno})" if frames else ""


def _words(error: BaseException) -> str:
    inside: BaseException = error
    while isinstance(inside, BaseExceptionGroup):
        inside = cast("BaseExceptionGroup[BaseException]", inside).exceptions[0]
    error = inside
    text = str(error).strip().split("\n", 1)[0]
    return f"{type(error).__name__}: {text}" if text else type(error).__name__
