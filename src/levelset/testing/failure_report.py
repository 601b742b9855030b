"""The history of an object in words: every version that the server stored, and what controllers did about it.

What is different between two JSON trees, one short sentence for each place; pure.

How a failed wait is told: the condition as it was written, and the object as it is.
"""

import json
import linecache
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from types import CodeType
from typing import Any, Final, cast

from levelset.objects import codec
from levelset.objects.cached_object import without_managed_fields
from levelset.objects.json_tree import is_map
from levelset.objects.ref import Ref
from levelset.storage import Change
from levelset.testing.environment import Stage
from levelset.testing.timeline import Looked

__all__ = ["Version", "condition_words", "describe", "differences", "looks_at", "object_words", "versions_of"]

_LONGEST: Final = 60


def differences(before: Any, after: Any, path: str = "") -> Iterator[str]:
    """Each place that was added, removed or changed, in the order of the tree: `spec.replicas: 1 -> 3`."""
    if isinstance(before, dict) and isinstance(after, dict):
        old, new = cast("dict[str, Any]", before), cast("dict[str, Any]", after)
        for key in [*old, *(key for key in new if key not in old)]:
            yield from _entry(old, new, key, f"{path}.{key}" if path else key)
    elif before != after:
        yield f"{path}: {_short(before)} -> {_short(after)}"


def _entry(before: dict[str, Any], after: dict[str, Any], key: str, path: str) -> Iterator[str]:
    if key not in after:
        yield f"{path} removed (was {_short(before[key])})"
    elif key not in before:
        yield f"{path} = {_short(after[key])}"
    else:
        yield from differences(before[key], after[key], path)


def _short(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False, default=repr)
    return text if len(text) <= _LONGEST else text[: _LONGEST - 3] + "..."


_MOST_LINES: Final = 40
_NOISE: Final = frozenset({"managedFields", "resourceVersion", "generation"})


@dataclass(frozen=True, slots=True)
class Version:
    """One write to an object, as the storage has it."""

    revision: int
    before: dict[str, Any] | None
    after: dict[str, Any] | None
    at: float | None = None
    """When it was written, on the loop's clock; None if nobody knows."""

    @property
    def writers(self) -> list[str]:
        """Who wrote it, by the names in its managed fields."""
        old, new = _managed(self.before), _managed(self.after)
        wrote = {one.get("manager", "") for one in new if one not in old and not any(_lost(was, one) for was in old)}
        return sorted(wrote - {""})

    def __str__(self) -> str:
        who = f" by {', '.join(self.writers)}" if self.writers else ""
        if self.after is None:
            return f"r{self.revision} removed"
        if self.before is None:
            return f"r{self.revision} created{who}"
        changed = "; ".join(differences(_essence(self.before), _essence(self.after)))
        return f"r{self.revision} changed{who}: {changed or 'nothing that matters'}"


def _lost(was: Mapping[str, Any], now: Mapping[str, Any]) -> bool:
    """Whether a manager's entry is the same but for fields that somebody else has taken over."""
    names = ("manager", "operation", "subresource", "apiVersion", "time")
    return all(was.get(name) == now.get(name) for name in names) and _within(now.get("fieldsV1"), was.get("fieldsV1"))


def _within(part: Any, whole: Any) -> bool:
    if not is_map(part) or not is_map(whole):
        return bool(part == whole)
    return all(name in whole and _within(value, whole[name]) for name, value in part.items())


def versions_of(stage: Stage, ref: Ref[Any]) -> list[Version]:
    """The versions of an object that the storage remembers, the oldest first; none for a real cluster."""
    return [_version(stage, one) for one in _changes(stage, ref)]


def looks_at(stage: Stage, ref: Ref[Any] | None = None) -> list[Looked]:
    """The looks of all controllers at an object, or at all of them, the oldest first."""
    return list(stage.timelines.looks) if ref is None else stage.timelines.of(_complete(stage, ref))


def describe(stage: Stage, ref: Ref[Any]) -> str:
    """The history of an object and the looks of all controllers at it, in the order in which they happened."""
    ref = _complete(stage, ref)
    told = [(one.at or 0.0, one.revision, str(one)) for one in versions_of(stage, ref)]
    told += [(one.at, one.revision, str(one)) for one in looks_at(stage, ref)]
    lines = [f"  {at:10.3f} s  {text}" for at, _, text in sorted(told, key=lambda one: one[:2])]
    if not lines:
        return f"{ref}: nobody has written it, and no controller has looked at it"
    left = len(lines) - _MOST_LINES
    shown = lines if left <= 0 else [f"  ... {left} more before", *lines[left:]]
    return "\n".join([f"the history of {ref}:", *shown])


def _changes(stage: Stage, ref: Ref[Any]) -> Iterator[Change]:
    inside = stage.inside
    if inside is None:
        return
    served = inside.server.world.catalog.by_gvk(*ref.gvk)
    if served is None:
        return
    key = served.key(_complete(stage, ref).namespace, ref.name)
    watch = inside.storage.watch(key, after=inside.storage.compacted)
    yield from (one for one in watch.batch_nowait() if one.key == key)
    watch.close_nowait()


def _complete(stage: Stage, ref: Ref[Any]) -> Ref[Any]:
    """The reference with the namespace of the test, if it names none and is of a kind that has one."""
    served = None if stage.inside is None else stage.inside.server.world.catalog.by_gvk(*ref.gvk)
    if ref.namespace is not None or served is None or not served.namespaced:
        return ref
    return Ref(ref.gvk, ref.name, stage.control.namespace)


def _version(stage: Stage, change: Change) -> Version:
    before, after = (None if one is None else codec.decode_tree(one.value) for one in (change.before, change.after))
    inside = stage.inside
    at = None if inside is None else inside.times.get(change.revision)
    return Version(change.revision, before, after, at)


def _managed(tree: dict[str, Any] | None) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = [] if tree is None else tree["metadata"].get("managedFields", [])
    return found


def _essence(tree: dict[str, Any]) -> dict[str, Any]:
    metadata = {key: value for key, value in tree.get("metadata", {}).items() if key not in _NOISE}
    return {**tree, "metadata": metadata}


def condition_words(condition: Callable[..., object] | None) -> str:
    """What did not become so, in the words of whoever wrote the condition."""
    if condition is None:
        return "it was not there"
    name = getattr(condition, "__name__", "the condition")
    if name != "<lambda>":
        return f"{name} did not become true"
    source = _source(condition)
    return f"this did not become true: {source}" if source else "the condition did not become true"


def object_words(found: Any) -> str:
    """The object as it is, or that there is none."""
    if found is None:
        return "there is no such object"
    return f"it is: {without_managed_fields(codec.encode(found)).decode()}"


def _source(function: Any) -> str | None:
    """What a lambda gives, as it is written in its file; None if nobody knows."""
    code: CodeType | None = getattr(function, "__code__", None)
    lines = [] if code is None else linecache.getlines(code.co_filename)
    if code is None or not lines:  # typed into a shell, or compiled from a text
        return None
    ranges = [(line, end, left, right) for line, end, left, right in code.co_positions() if line and end and right]
    if not ranges:  # Python was told to forget them
        return None
    start = min((line, left or 0) for line, _, left, _ in ranges)
    end = max((line, right or 0) for _, line, _, right in ranges)
    text = [line.encode() for line in lines[start[0] - 1 : end[0]]]
    text[-1] = text[-1][: end[1]]
    text[0] = text[0][start[1] :]
    return b" ".join(line.strip() for line in text).decode()
