"""How Go writes the objects of built-in kinds: members that it leaves out when they are empty, and those always there.

kube-apiserver decodes an object into Go structs and stores what they encode to. So an optional member that is no
pointer disappears when it is `""`, `0`, `false`, `[]` or `{}`, and a member that is a struct is always there: no
manager owns its existence, only what is in it. Which members these are is data (`data/omitted.json`,
written by `scripts/generate_omitted.py`).
"""

import functools
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from levelset.apiserver.resources.served_resource import ServedResource
from levelset.apiserver.schema.builtin_schemas import COMPONENT, DATA, builtin_names, library
from levelset.objects.json_tree import is_list, is_map
from levelset.patch.field_sets import Node

__all__ = [
    "Members",
    "omit_empty",
    "preload",
    "restore",
    "without_structs",
    "without_zeros",
    "write_zeros",
    "written_members",
]

_MAX_DEPTH: Final = 40
_NO_ZERO: Final = object()
_CONTAINERS: Final = (dict, list)
Removed = tuple[dict[str, Any], str, Any]
"""A map, the name of the member that it had, and the value."""


class Members:
    """The members of one type; those below are found when they are needed, because types are recursive."""

    __slots__ = ("_below", "is_map", "omitted", "present", "schema")

    def __init__(
        self, schema: Mapping[str, Any], omitted: frozenset[str], present: frozenset[str], *, is_map: bool = False
    ) -> None:
        self.schema, self.omitted, self.present, self.is_map = schema, omitted, present, is_map
        self._below: dict[str, Members | None] = {}

    def zero(self, name: str) -> Any:
        """What Go writes for a member that is absent."""
        schema = self.schema.get("properties", {}).get(name, {})
        if schema.get("type") == "array" or "additionalProperties" in schema:
            return None
        below = self.below(name)
        return {} if below is not None and schema.get("default") == {} else _NO_ZERO

    def below(self, name: str) -> "Members | None":
        """The members of a member, of its items if it is a list, or of its values if it is a map; None for others."""
        if name not in self._below:
            self._below[name] = _members_of(self.schema.get("properties", {}).get(name))
        return self._below[name]


def written_members(served: ServedResource) -> Members | None:
    """The members of a built-in kind; None for custom resources, which are stored as they are sent."""
    return None if served.custom else _builtin_members(served.group, served.version, served.kind)


@functools.cache
def _builtin_members(group: str, version: str, kind: str) -> Members | None:
    name = builtin_names(group, version).get(kind)
    return None if name is None else _members_of({"$ref": f"{COMPONENT}{name}"})


def preload() -> None:
    """Reads the data file, so that no request waits for the disk."""
    _table()


def omit_empty(members: Members, tree: dict[str, Any]) -> list[Removed]:
    """Removes what Go does not write, in place; returns the empty lists and maps, which rules tell from absent ones.

    The metadata are left to others.
    """
    removed: list[Removed] = []
    _omit(members, tree, 0, removed)
    return removed


def restore(removed: list[Removed]) -> None:
    """Puts back what was removed."""
    for owner, name, value in removed:
        owner[name] = value


def _omit(members: Members, tree: dict[str, Any], depth: int, removed: list[Removed]) -> None:
    if not all(tree.values()):
        for name in [one for one, value in tree.items() if not value and one in members.omitted]:
            value: Any = tree.pop(name)
            if is_map(value) or is_list(value):
                removed.append((tree, name, value))
    if depth == _MAX_DEPTH:
        return
    for name, value in tree.items():
        if isinstance(value, _CONTAINERS) and value and (name != "metadata" or depth):
            below = members.below(name)
            if below is not None:
                for one in _maps(below, value):
                    _omit(below, one, depth + 1, removed)


def _maps(members: Members, value: Any) -> list[dict[str, Any]]:
    """The maps that have these members: the value itself, its items, or its values."""
    if is_map(value):
        return [one for one in value.values() if is_map(one)] if members.is_map else [value]
    return [one for one in value if is_map(one)] if is_list(value) else []


def write_zeros(members: Members, tree: dict[str, Any], depth: int = 0) -> None:
    """Adds the members that Go always writes, in place: an absent list or map as null, a struct without members."""
    if depth == _MAX_DEPTH:
        return
    for name in members.present:
        if tree.get(name) or name == "metadata":
            continue
        zero = members.zero(name)
        if zero is not _NO_ZERO and (name not in tree or zero is None):
            tree[name] = {} if zero == {} else zero
    for name, value in tree.items():
        if isinstance(value, _CONTAINERS) and (name != "metadata" or depth):
            below = members.below(name)
            if below is not None:
                for one in _maps(below, value):
                    write_zeros(below, one, depth + 1)


def without_zeros(members: Members, tree: dict[str, Any]) -> dict[str, Any]:
    """The object without members that are always there and are empty, which no manager owns; a copy if so."""
    changed: dict[str, Any] | None = None
    for name in members.present:
        if name not in tree or name == "metadata":
            continue
        value = tree[name]
        rest = value
        if is_map(value) and value:
            below = members.below(name)
            rest = value if below is None or below.is_map else without_zeros(below, value)
        if rest is not value or (not rest and rest != []):
            if changed is None:
                changed = dict(tree)
            if rest:
                changed[name] = rest
            else:
                del changed[name]
    return tree if changed is None else changed


def without_structs(members: Members, node: Node) -> Node:
    """The fields that the writer of an object owns, without the existence of members that are always there."""
    changed: Node = {}
    for name in members.present:
        child = node.get(f"f:{name}")
        if not child:
            continue
        below = members.below(name)
        rest = child if below is None or below.is_map else without_structs(below, child)
        if "." in rest and len(rest) > 1:
            rest = {element: one for element, one in rest.items() if element != "."}
        if rest is not child:
            changed[f"f:{name}"] = rest
    return {**node, **changed} if changed else node


def _members_of(schema: Any) -> Members | None:
    """The members of a struct, of the items of a list, or of the values of a map."""
    if schema is None:
        return None
    for one in (schema, *schema.get("allOf", ())):
        if "$ref" in one:
            name = one["$ref"].removeprefix(COMPONENT)
            omitted, present = _table().get(name, ((), ()))
            content: Any = library().get(name, {})
            return Members(content, frozenset(omitted), frozenset(present)) if "properties" in content else None
    if "items" in schema:
        return _members_of(schema["items"])
    if isinstance(schema.get("additionalProperties"), dict):
        found = _members_of(schema["additionalProperties"])
        return None if found is None else Members(found.schema, found.omitted, found.present, is_map=True)
    return None


@functools.cache
def _table() -> dict[str, tuple[tuple[str, ...], tuple[str, ...]]]:
    kind = dict[str, tuple[tuple[str, ...], tuple[str, ...]]]
    return msgspec.json.decode((DATA / "omitted.json").read_bytes(), type=kind)
