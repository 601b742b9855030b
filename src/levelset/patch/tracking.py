"""Keeping `metadata.managedFields` true when an object is written by any other means than apply."""

from datetime import datetime
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from levelset.errors import BadPatch
from levelset.objects.trees import Tree
from levelset.patch.alike import alike
from levelset.patch.comparing import Changes, compare
from levelset.patch.fieldset import EMPTY, FieldSet
from levelset.patch.managers import (
    NEVER_TRACKED,
    EntryKey,
    ManagedEntry,
    Managers,
    cap_updates,
    entry_time,
    parse_managed,
    print_managed,
)
from levelset.patch.shapes import Shape

__all__ = [
    "Applied",
    "as_object",
    "fit",
    "give_up",
    "is_reset",
    "managed_fields",
    "record_update",
    "same_object",
    "track_update",
    "with_managed",
    "without_managed",
]

UNKNOWN_MANAGER: Final = "unknown"


class Applied(msgspec.Struct, frozen=True):
    """An object as it is to be stored, and whether that differs from what is stored now.

    If it does not, `object` is the live object itself, and there is nothing to write.
    """

    object: dict[str, Tree]
    changed: bool


def track_update(
    live: Any,
    new: Any,
    *,
    manager: str,
    shape: Shape,
    now: datetime,
    api_version: str,
    subresource: str | None = None,
    ignore: FieldSet = EMPTY,
) -> Applied:
    """The object `new` with its `managedFields` as a create, update or patch by `manager` leaves them.

    What `new` adds or changes becomes the manager's, silently; what it leaves out is nobody's any more. `live` is
    None for a create. An object that nobody tracks (see `is_reset`) stays untracked. `new` may bring managedFields of
    its own, except through a subresource; if they are unreadable, those of `live` count. `ignore` are the fields
    that this endpoint resets. Neither argument is changed. Raises BadPatch only if the trees are no objects.
    """
    try:
        before, stored = _apart({} if live is None else live)
        after, given = _apart(new)
        if subresource is not None or given is None or given == stored:
            given = stored
        is_same = live is not None and same_object(before, after)
        if is_same and given is stored:
            return Applied(as_object(live), changed=False)
        managers = _managers_of_write(stored, given)
        if managers or live is None:
            entry = ManagedEntry(manager or UNKNOWN_MANAGER, "Update", api_version, EMPTY, entry_time(now), subresource)
            changes = compare(before, after, shape).beyond(ignore)
            managers = cap_updates(record_update(fit(managers, shape, changes), changes, entry))
        if is_same and managers == _readable(stored):
            return Applied(as_object(live), changed=False)
        return Applied(with_managed(after, managers), changed=True)
    except RecursionError:
        raise BadPatch("the object is nested too deeply to be tracked") from None


def record_update(managers: Managers, changes: Changes, entry: ManagedEntry) -> Managers:
    """The entries after a write that made these changes; `entry` says who wrote, how and when, and owns nothing yet."""
    taken = changes.changed - NEVER_TRACKED
    settled = dict(give_up(managers, changes))
    if taken:
        held = settled.get(entry.key)
        settled[entry.key] = replace(entry, fields=held.fields | taken if held else taken)
    return settled


def fit(managers: Managers, shape: Shape, changes: Changes | None = None) -> dict[EntryKey, ManagedEntry]:
    """The entries as they read under this shape: a schema may have made something indivisible since they were made.

    With `changes`, only where something changed, which is all that an update needs to know.
    """
    if changes is None:
        return {key: entry.owning(entry.fields.fitted(shape)) for key, entry in managers.items()}
    along = changes.changed | changes.removed
    return {
        key: entry.owning(entry.fields.fitted(shape, along=along)) if _meets(entry, along) else entry
        for key, entry in managers.items()
    }


def give_up(managers: Managers, changes: Changes) -> Managers:
    """The entries without what was changed or removed by somebody else; whoever owns nothing any more goes."""
    lost = changes.changed | changes.removed
    settled = {
        key: entry.owning(entry.fields - lost) if _meets(entry, lost) else entry for key, entry in managers.items()
    }
    return {key: entry for key, entry in settled.items() if entry.fields.tree}


def _meets(entry: ManagedEntry, fields: FieldSet) -> bool:
    """Whether the entry may own some of these fields, or some above or below them; most are about another part."""
    return not fields.tree.keys().isdisjoint(entry.fields.tree)


def is_reset(managed: Tree) -> bool:
    """Whether this value of `managedFields` asks to forget all owners: `[]`, or a list with one empty entry."""
    return isinstance(managed, list) and managed in ([], [{}])


def as_object(tree: Tree) -> dict[str, Tree]:
    """The tree as a map; BadPatch if it is no object at all."""
    if not isinstance(tree, dict):
        raise BadPatch(f"an object must be a map, not {type(tree).__name__}")
    return tree


def managed_fields(tree: Tree) -> Tree:
    """What stands in `metadata.managedFields`; None if there is no such thing."""
    return None if tree is None else _metadata(as_object(tree)).get("managedFields")


def without_managed(tree: Tree) -> dict[str, Tree]:
    """The object without its `managedFields`; BadPatch if it is no object at all."""
    return _apart(tree)[0]


def with_managed(tree: dict[str, Tree], managers: Managers) -> dict[str, Tree]:
    """The object with these entries as its `managedFields`, or without any if there are none."""
    if not managers:
        return tree
    return {**tree, "metadata": {**_metadata(tree), "managedFields": print_managed(managers)}}


def same_object(old: dict[str, Tree], new: dict[str, Tree]) -> bool:
    """Whether two objects without managedFields are the same but for the version that the store counts."""
    if old is new:
        return True
    if old.keys() != new.keys():
        return False
    for name, member in old.items():
        other = new[name]
        if member is not other and name != "metadata" and not alike(member, other):
            return False
    return alike(_unversioned(old), _unversioned(new))


def _apart(tree: Tree) -> tuple[dict[str, Tree], Tree]:
    """The object without its `managedFields`, and what stood there; None if there is no such thing."""
    found = as_object(tree)
    metadata = _metadata(found)
    if "managedFields" not in metadata:
        return found, None
    rest = metadata.copy()
    managed = rest.pop("managedFields")
    return {**found, "metadata": rest}, managed


def _managers_of_write(stored: Tree, given: Tree) -> Managers:
    if given is not stored and is_reset(given):
        return {}
    return _readable(given) or _readable(stored)


def _readable(managed: Tree) -> Managers:
    try:
        return parse_managed(managed)
    except BadPatch:
        return {}


def _metadata(tree: dict[str, Tree]) -> dict[str, Tree]:
    metadata = tree.get("metadata")
    if metadata is None:
        return {}
    if not isinstance(metadata, dict):
        raise BadPatch("metadata must be a map", field="metadata")
    return metadata


def _unversioned(tree: dict[str, Tree]) -> dict[str, Tree]:
    rest = _metadata(tree).copy()
    rest.pop("resourceVersion", None)
    return rest
