"""What comes to rest means: finds writes without end and fights of writers in the changes of a run.

A run comes to rest if, after the last action of a user, the controllers stop to write, except for heartbeats: an object
that is written once in ten seconds or more seldom. Changes that end are progress, however many they are. A field that
one writer sets and another one sets back, again and again, is a fight however slow it is.
"""

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any, Final, TypeVar

import msgspec

from levelset.objects.json_tree import is_list, is_map
from levelset.testing.explore.faults.plan import StepName
from levelset.testing.explore.records.normalize import normalise
from levelset.testing.explore.records.run_result import Change, Finding, Run
from levelset.testing.explore.records.stored_state import Key
from levelset.testing.explore.records.trace import Step

__all__ = ["find_endless_loops", "overridden_fields"]

HEARTBEAT: Final = 10.0
"""Seconds between two writes to one object that are a heartbeat; more frequent ones have to end."""
_RECENT: Final = 120.0
"""The seconds before the end of a run in which writes without end are looked for."""
_LEAST: Final = 6
"""The number of writes that show a repetition."""
_REVERTS: Final = 3
"""How often each side of a fight has to undo the other."""
_USERS: Final = frozenset({"user", "another"})
_GONE: Final = "gone"
_read: Final = msgspec.json.Decoder()
G = TypeVar("G", bound=Hashable)


def find_endless_loops(run: Run, *, is_long: bool = True) -> list[Finding]:
    """The fights of writers and the writes without end of a run, the best explained first; one for each object.

    Of a short run only the fights: its writes may be progress that ends.
    """
    end = run.seconds
    acted = max((one.revision for one in run.changes if one.process in _USERS), default=0)
    after = [one for one in run.changes if one.revision > acted]
    found: dict[str, Finding] = {}
    writes = _writes(run, after, end) if is_long else ()
    for location, finding in (*_webhook_fights(run, end), *_fights(run, after, end), *writes):
        found.setdefault(location, finding)
    return list(found.values())


def overridden_fields(sent: bytes, stored: bytes) -> list[str]:
    """The fields of a written object that the server has stored with another value: what a webhook has changed."""
    try:
        wanted, got = _read.decode(sent), _read.decode(stored)
    except msgspec.MsgspecError:
        return []  # a patch in another format
    if not is_map(wanted) or not is_map(got):
        return []
    metadata: Any = wanted.get("metadata") or {}
    parts: dict[str, Any] = {"spec": wanted.get("spec"), "data": wanted.get("data")}
    parts["metadata"] = {name: metadata.get(name) for name in ("labels", "annotations")}
    return [path for name, part in parts.items() for path in _overridden(part, got.get(name), name)]


def _overridden(sent: Any, stored: Any, path: str) -> Iterator[str]:
    if is_map(sent):
        for name, value in sent.items():
            yield from _overridden(value, stored.get(name) if is_map(stored) else None, f"{path}.{name}")
    elif is_list(sent) and is_list(stored) and len(sent) == len(stored):
        for index, (one, other) in enumerate(zip(sent, stored, strict=True)):
            yield from _overridden(one, other, f"{path}.{index}")
    elif sent != stored and sent is not None:
        yield path


def _webhook_fights(run: Run, end: float) -> Iterator[tuple[str, Finding]]:
    """Writes of which a webhook changes the same fields each time, and which are repeated."""
    by_action: dict[tuple[str, str], list[tuple[Step, Sequence[str]]]] = {}
    for name, fields in run.overridden:
        step = run.trace.find(name)
        if step is not None and step.cause is not None:
            by_action.setdefault((step.cause.controller, name.action), []).append((step, fields))
    for (controller, action), steps in by_action.items():
        if len(steps) >= _LEAST and _goes_on([one.at for one, _ in steps], end):
            step, fields = steps[-1]
            location = action.partition(" ")[2]
            said = (
                f"a webhook and {controller} fight over {', '.join(fields)} of {location}: {controller} has written it "
                f"{len(steps)} times, and each time the webhook changes what it wrote"
            )
            yield location, Finding("endless loop", said, step, step.revision, about=step.kind)


def _fights(run: Run, changes: Sequence[Change], end: float) -> Iterator[tuple[str, Finding]]:
    """Fields of an object that two writers set in turn."""
    for key, many in _grouped(changes, lambda one: one.key).items():
        if len(many) < 2 * _REVERTS or len({_writer(one) for one in many}) < 2:
            continue
        reverts: Counter[tuple[str, str, str]] = Counter()
        times: dict[tuple[str, str, str], list[float]] = {}
        for change, path, previous in _reverted(run, many):
            first, second = sorted((previous, _writer(change)))
            what = path, first, second
            reverts[what] += 1
            times.setdefault(what, []).append(change.at)
        fields = [what for what, count in reverts.items() if count >= 2 * _REVERTS and _goes_on(times[what], end)]
        if fields:
            yield run.location_of(many[-1]), _fight(run, key, fields, many, reverts[fields[0]])


def _fight(run: Run, key: Key, fields: Sequence[tuple[str, str, str]], many: Sequence[Change], count: int) -> Finding:
    paths = ", ".join(dict.fromkeys(path for path, _, _ in fields))
    _, first, second = fields[0]
    where = "/".join(part for part in key[1:] if part)
    said = f"two writers fight over {paths} of {where}: {first} and {second} have set it back {count} times"
    step = _step(run, many[-1].by)
    return Finding("endless loop", said, step, many[-1].revision, about=key[1])


def _reverted(run: Run, changes: Sequence[Change]) -> Iterator[tuple[Change, str, str]]:
    """Each change of a field that sets it back to what it was before another writer changed it."""
    last: dict[str, tuple[str, Any, Any]] = {}
    before: Any = None
    for one in changes:
        tree = None if one.tree is None else _normal(run, one)
        if before is not None and tree is not None:
            for path, old, new in _changed(before, tree, ""):
                writer, was, became = last.get(path, ("", None, None))
                if writer not in {"", _writer(one)} and (was, became) == (new, old):
                    yield one, path, writer
                last[path] = _writer(one), old, new
        before = tree


def _changed(before: Any, after: Any, path: str) -> Iterator[tuple[str, Any, Any]]:
    if before == after:
        return
    if is_map(before) and is_map(after):
        for name in sorted(before.keys() | after.keys()):
            yield from _changed(before.get(name), after.get(name), f"{path}.{name}" if path else name)
    else:
        yield path, before, after


def _writes(run: Run, changes: Sequence[Change], end: float) -> Iterator[tuple[str, Finding]]:
    """Objects that are written more often than a heartbeat, and to the end of the run."""
    recent = [one for one in changes if one.at >= end - _RECENT and one.process not in _USERS]
    for location, many in _grouped(recent, run.location_of).items():
        if _is_endless(many, end):
            yield location, _finding(run, location, many)
    steps = {one.name: one for one in run.trace}
    made = [one for one in recent if one.before is None and one.by in steps]
    for (_, cause), many in _grouped(made, lambda one: (one.kind, _cause(steps, one))).items():
        if cause and _is_endless(many, end):
            last = many[-1]
            seconds = last.at - many[0].at
            said = (
                f"{last.controller} creates {last.kind} objects without end: {len(many)} in {seconds:.0f} s for {cause}"
            )
            finding = Finding("endless loop", said, _step(run, last.by), last.revision, about=last.kind)
            yield run.location_of(last), finding


def _finding(run: Run, location: str, many: Sequence[Change]) -> Finding:
    last, seconds = many[-1], many[-1].at - many[0].at
    states = [_GONE if one.tree is None else msgspec.json.encode(_normal(run, one)).decode() for one in many]
    writers = _listed(dict.fromkeys(map(_writer, many)))
    created = sum(one.before is None for one in many)
    often = f"{len(many)} writes in {seconds:.0f} s"
    if _GONE in states and created:
        said = (
            f"{writers} delete and create {location} again and again"
            if " and " in writers
            else (f"{writers} deletes and creates {location} again and again")
        )
        often = f"created {created} times in {seconds:.0f} s"
    elif created == len(many):
        said, often = f"{writers} creates {location} without end", f"{created} times in {seconds:.0f} s"
    elif len(set(states)) == 1:
        said = f"{writers} writes {location} again and again, and nothing but times changes"
    elif len(states) - len(set(states)) >= _LEAST // 2:
        said = f"{writers} changes {location} back and forth: {_fields(run, many)}"
    else:
        said = f"{writers} writes {location} without end: {_fields(run, many)}"
    return Finding("endless loop", f"{said} ({often})", _step(run, last.by), last.revision, about=last.kind)


def _fields(run: Run, many: Sequence[Change]) -> str:
    """The fields that the last changes of an object have changed."""
    trees = [_normal(run, one) for one in many[-_LEAST:] if one.tree is not None]
    pairs = pairwise(trees)
    return ", ".join(dict.fromkeys(path for one, other in pairs for path, _, _ in _changed(one, other, ""))) or "times"


def _is_endless(many: Sequence[Change], end: float) -> bool:
    times = sorted({one.at for one in many})
    if len(many) < _LEAST or not _goes_on(times, end):
        return False
    return len(times) == 1 or (times[-1] - times[0]) / (len(times) - 1) < HEARTBEAT


def _goes_on(times: Sequence[float], end: float) -> bool:
    """Whether what happened at these times still goes on at the end."""
    gap = (times[-1] - times[0]) / max(1, len(times) - 1)
    return end - times[-1] <= max(2 * gap, HEARTBEAT)


def _normal(run: Run, change: Change) -> Any:
    """The object after a change, without times, versions, uids and generated names."""
    assert change.tree is not None, "called only for objects that exist"
    [[text]] = normalise([(change.key, change.tree)], {}, names=run.generated).values()
    return _read.decode(text)


def _grouped(changes: Iterable[Change], key: Callable[[Change], G]) -> dict[G, list[Change]]:
    found: dict[G, list[Change]] = {}
    for one in changes:
        found.setdefault(key(one), []).append(one)
    return found


def _writer(change: Change) -> str:
    return change.controller or ("the server" if change.process == "server" else change.process)


def _listed(writers: Iterable[str]) -> str:
    return " and ".join(writers)


def _cause(steps: Mapping[StepName, Step], change: Change) -> str:
    step = None if change.by is None else steps.get(change.by)
    return "" if step is None or step.cause is None else step.cause.ref


def _step(run: Run, by: StepName | None) -> Step | None:
    return None if by is None else run.trace.find(by)
