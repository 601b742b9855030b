"""The directives of a strategic merge patch: members that say how to merge, beside those that say what.

`$patch` chooses between merge, replace and delete; `$retainKeys` names all members that may remain;
`$setElementOrder/<list>` gives the order of a list; `$deleteFromPrimitiveList/<list>` takes scalars out of one.
"""

from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import Final, Literal

from levelset.errors import BadPatch
from levelset.objects import trees
from levelset.objects.names import quote
from levelset.objects.trees import Tree

__all__ = [
    "ORDER",
    "PATCH",
    "REMOVE",
    "RETAIN",
    "Directives",
    "Where",
    "deletes_itself",
    "is_directive",
    "mode_of",
    "read_directives",
    "scalar_key",
    "stripped",
    "stripped_list",
    "stripped_map",
]

PATCH: Final = "$patch"
RETAIN: Final = "$retainKeys"
ORDER: Final = "$setElementOrder"
REMOVE: Final = "$deleteFromPrimitiveList"

Where = tuple[str | int, ...]
Mode = Literal["merge", "replace", "delete"]
_MODES: Final[dict[str, Mode]] = {"merge": "merge", "replace": "replace", "delete": "delete"}


@dataclass(slots=True)
class Directives:
    """A map of a patch, sorted out: its mode, its plain members, and what its directives say about them."""

    mode: Mode
    members: dict[str, Tree]
    retain: frozenset[str] | None = None
    orders: dict[str, list[Tree]] = field(default_factory=dict[str, list[Tree]])
    removals: dict[str, list[Tree]] = field(default_factory=dict[str, list[Tree]])


def read_directives(patch: dict[str, Tree], where: Where) -> Directives:
    """Sorts out one map of a patch; BadPatch, naming the field, for a directive that makes no sense."""
    found = Directives(mode_of(patch, where), {})
    for name, value in patch.items():
        if not isinstance(name, str):
            raise BadPatch(f"a member of {trees.format_path(where) or 'the patch'} has a name that is no text")
        if not is_directive(name):
            found.members[name] = value
        elif name == RETAIN:
            found.retain = _retained(value, where)
        elif name.startswith(ORDER):
            found.orders[_target(name, ORDER, where)] = _list(value, name, where)
        elif name != PATCH:
            found.removals[_target(name, REMOVE, where)] = _list(value, name, where)
    _check_retained(found, where)
    return found


def is_directive(name: str) -> bool:
    """Says whether a member's name is reserved for a directive."""
    return name[:1] == "$" and (name in (PATCH, RETAIN) or name.startswith((ORDER, REMOVE)))


def mode_of(patch: dict[str, Tree], where: Where) -> Mode:
    """What `$patch` says in this map; merge if it says nothing."""
    if PATCH not in patch:
        return "merge"
    mode = patch[PATCH]
    known = _MODES.get(mode) if isinstance(mode, str) else None
    if known is not None:
        return known
    name = trees.format_path((*where, PATCH))
    raise BadPatch(f"{name} is {quote(mode)}; known are delete, merge and replace", field=name)


def deletes_itself(value: Tree, where: Where) -> bool:
    """Says whether a value of a patch is a map with `$patch: delete`."""
    return isinstance(value, dict) and mode_of(value, where) == "delete"


def stripped(value: Tree, where: Where) -> Tree:
    """What a patch's value means where there is nothing to merge it with: a copy without directives and null members.

    In a list, an item that says delete or replace is only a directive.
    """
    if isinstance(value, dict):
        return stripped_map(value, where)
    return stripped_list(value, where) if isinstance(value, list) else value


def stripped_map(patch: dict[str, Tree], where: Where) -> dict[str, Tree]:
    """The plain members of a map of a patch, each without directives and null members."""
    found = read_directives(patch, where)
    result: dict[str, Tree] = {}
    for name, value in found.members.items():
        if value is not None and not deletes_itself(value, (*where, name)):
            result[name] = stripped(value, (*where, name))
    return result


def stripped_list(items: list[Tree], where: Where) -> list[Tree]:
    """The items of a list of a patch that are more than directives, each without directives and null members."""
    result: list[Tree] = []
    for index, item in enumerate(items):
        inner = (*where, index)
        if isinstance(item, dict) and PATCH in item:
            if mode_of(item, inner) == "merge" and len(item) > 1:
                result.append(stripped_map(item, inner))
        else:
            result.append(stripped(item, inner))
    return result


def scalar_key(value: Tree) -> Hashable | None:
    """Something to find a scalar by, keeping true and 1 apart; None for null and for what is no scalar."""
    if isinstance(value, bool):
        return (bool, value)
    return value if isinstance(value, str | int | float) else None


def _target(name: str, prefix: str, where: Where) -> str:
    head, slash, target = name.partition("/")
    if head == prefix and slash and target:
        return target
    full = trees.format_path((*where, name))
    raise BadPatch(f"{full} is no directive: write {prefix}/ and the name of a list", field=full)


def _list(value: Tree, name: str, where: Where) -> list[Tree]:
    if isinstance(value, list):
        return value
    full = trees.format_path((*where, name))
    raise BadPatch(f"{full} must be a list", field=full)


def _retained(value: Tree, where: Where) -> frozenset[str]:
    names = _list(value, RETAIN, where)
    texts = [name for name in names if isinstance(name, str)]
    if len(texts) == len(names):
        return frozenset(texts)
    full = trees.format_path((*where, RETAIN))
    raise BadPatch(f"{full} must be a list of names", field=full)


def _check_retained(found: Directives, where: Where) -> None:
    if found.retain is None:
        return
    for name, value in found.members.items():
        if value is not None and name not in found.retain:
            full = trees.format_path((*where, name))
            raise BadPatch(f"{full} is set, but {RETAIN} beside it does not retain it", field=full)
