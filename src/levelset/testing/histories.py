"""The history of an object in words: every version that the server stored, and what controllers did about it."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from levelset.objects import codec
from levelset.objects.identity import Ref
from levelset.objects.trees import is_map
from levelset.storage import Change
from levelset.testing.differences import differences
from levelset.testing.stage import Stage
from levelset.testing.timelines import Looked

__all__ = ["Version", "describe", "looks_at", "versions_of"]

_MOST: Final = 40
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
    left = len(lines) - _MOST
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
