"""The text of a failed expectation: the condition as written, the object, its stored versions and its reconciles."""

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
from levelset.testing.environment import Environment
from levelset.testing.timeline import ReconcileRecord

__all__ = [
    "Version",
    "describe",
    "describe_condition",
    "describe_object",
    "differences",
    "reconciles_of",
    "versions_of",
]

_LONGEST: Final = 60


def differences(before: Any, after: Any, path: str = "") -> Iterator[str]:
    """Every field that was added, removed or changed, in the order of the tree: `spec.replicas: 1 -> 3`."""
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
    """One write to an object, as stored."""

    revision: int
    before: dict[str, Any] | None
    after: dict[str, Any] | None
    at: float | None = None
    """The loop time at which it was written; None if unknown."""

    @property
    def writers(self) -> list[str]:
        """The field managers whose managedFields entries this write changed."""
        old, new = _managed(self.before), _managed(self.after)
        wrote = {one.get("manager", "") for one in new if one not in old and not any(_lost(was, one) for was in old)}
        return sorted(wrote - {""})

    def __str__(self) -> str:
        by = f" by {', '.join(self.writers)}" if self.writers else ""
        if self.after is None:
            return f"r{self.revision} removed"
        if self.before is None:
            return f"r{self.revision} created{by}"
        changed = "; ".join(differences(_without_noise(self.before), _without_noise(self.after)))
        return f"r{self.revision} changed{by}: {changed or 'only metadata'}"


def _lost(was: Mapping[str, Any], now: Mapping[str, Any]) -> bool:
    """Whether a manager's entry differs only by fields that another manager has taken over."""
    names = ("manager", "operation", "subresource", "apiVersion", "time")
    return all(was.get(name) == now.get(name) for name in names) and _within(now.get("fieldsV1"), was.get("fieldsV1"))


def _within(part: Any, whole: Any) -> bool:
    if not is_map(part) or not is_map(whole):
        return bool(part == whole)
    return all(name in whole and _within(value, whole[name]) for name, value in part.items())


def versions_of(environment: Environment, ref: Ref[Any]) -> list[Version]:
    """The versions of an object in the storage's history, the oldest first; empty for a real cluster."""
    return [_version(environment, one) for one in _changes(environment, ref)]


def reconciles_of(environment: Environment, ref: Ref[Any] | None = None) -> list[ReconcileRecord]:
    """The reconciles of an object, or of all objects, the oldest first."""
    return (
        list(environment.timeline.reconciles) if ref is None else environment.timeline.of(_complete(environment, ref))
    )


def describe(environment: Environment, ref: Ref[Any]) -> str:
    """The stored versions of an object and its reconciles, in the order in which they happened."""
    ref = _complete(environment, ref)
    entries = [(one.at or 0.0, one.revision, str(one)) for one in versions_of(environment, ref)]
    entries += [(one.at, one.revision, str(one)) for one in reconciles_of(environment, ref)]
    lines = [f"  {at:10.3f} s  {text}" for at, _, text in sorted(entries, key=lambda one: one[:2])]
    if not lines:
        return f"{ref}: it was never written and never reconciled"
    left = len(lines) - _MOST_LINES
    shown = lines if left <= 0 else [f"  ... {left} earlier entries", *lines[left:]]
    return "\n".join([f"history of {ref}:", *shown])


def _changes(environment: Environment, ref: Ref[Any]) -> Iterator[Change]:
    embedded = environment.embedded
    if embedded is None:
        return
    served = embedded.server.state.catalog.by_gvk(*ref.gvk)
    if served is None:
        return
    key = served.key(_complete(environment, ref).namespace, ref.name)
    watch = embedded.storage.watch(key, after=embedded.storage.compacted)
    yield from (one for one in watch.batch_nowait() if one.key == key)
    watch.close_nowait()


def _complete(environment: Environment, ref: Ref[Any]) -> Ref[Any]:
    """The reference with the namespace of the test, if the kind is namespaced and the reference has none."""
    served = None if environment.embedded is None else environment.embedded.server.state.catalog.by_gvk(*ref.gvk)
    if ref.namespace is not None or served is None or not served.namespaced:
        return ref
    return Ref(ref.gvk, ref.name, environment.control.namespace)


def _version(environment: Environment, change: Change) -> Version:
    before, after = (None if one is None else codec.decode_tree(one.value) for one in (change.before, change.after))
    embedded = environment.embedded
    at = None if embedded is None else embedded.times.get(change.revision)
    return Version(change.revision, before, after, at)


def _managed(tree: dict[str, Any] | None) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = [] if tree is None else tree["metadata"].get("managedFields", [])
    return found


def _without_noise(tree: dict[str, Any]) -> dict[str, Any]:
    metadata = {key: value for key, value in tree.get("metadata", {}).items() if key not in _NOISE}
    return {**tree, "metadata": metadata}


def describe_condition(condition: Callable[..., object] | None) -> str:
    """The message for a condition that does not hold, with its source or its name."""
    if condition is None:
        return "it does not exist"
    name = getattr(condition, "__name__", "the condition")
    if name != "<lambda>":
        return f"{name} did not become true"
    source = _source(condition)
    return f"this did not become true: {source}" if source else "the condition did not become true"


def describe_object(found: Any) -> str:
    """The object as JSON without managed fields, or that it does not exist."""
    if found is None:
        return "there is no such object"
    return f"it is: {without_managed_fields(codec.encode(found)).decode()}"


def _source(function: Any) -> str | None:
    """The source of a lambda's expression; None if it is not available."""
    code: CodeType | None = getattr(function, "__code__", None)
    lines = [] if code is None else linecache.getlines(code.co_filename)
    if code is None or not lines:  # typed into a shell, or compiled from a string
        return None
    ranges = [(line, end, left, right) for line, end, left, right in code.co_positions() if line and end and right]
    if not ranges:  # Python runs with -X no_debug_ranges
        return None
    start = min((line, left or 0) for line, _, left, _ in ranges)
    end = max((line, right or 0) for _, line, _, right in ranges)
    text = [line.encode() for line in lines[start[0] - 1 : end[0]]]
    text[-1] = text[-1][: end[1]]
    text[0] = text[0][start[1] :]
    return b" ".join(line.strip() for line in text).decode()
