"""Uniqueness: items of a set and keys of a keyed list, which may be there only once."""

import json

from levelset.apiserver.schemas import wording
from levelset.apiserver.schemas.nodes import Node, Tree, as_map
from levelset.errors import Cause

__all__ = ["duplicates", "identity", "key_of", "unique", "unique_keys"]


def unique(items: list[Tree]) -> bool:
    """Whether the items surely differ; False also when it takes a closer look to say."""
    try:
        return len(set(items)) == len(items)
    except TypeError:
        return False


def unique_keys(items: list[dict[str, Tree]], key: str) -> bool:
    """Whether the objects surely differ in one member; False also when it takes a closer look to say."""
    try:
        return len({one.get(key) for one in items}) == len(items)
    except TypeError:
        return False


def duplicates(node: Node, items: list[Tree], path: str) -> list[Cause]:
    """A cause for each item that is there for the second time."""
    if node.list_type == "set":
        return _second_times(items, path)
    if node.list_type != "map":
        return []
    for at, one in enumerate(items):
        if one is not None and not isinstance(one, dict):
            return [wording.invalid(f"{path}[{at}]", one, "must be an object for an array of list-type map")]
    return _second_times([key_of(node, one) for one in items], path)


def _second_times(values: list[Tree], path: str) -> list[Cause]:
    seen: dict[str, int] = {}
    causes: list[Cause] = []
    for at, value in enumerate(values):
        name = identity(value)
        seen[name] = seen.get(name, 0) + 1
        if seen[name] == 2:
            causes.append(wording.duplicate(f"{path}[{at}]", value))
    return causes


def key_of(node: Node, item: Tree) -> dict[str, Tree]:
    """The members of an item that its keyed list goes by."""
    members = as_map(item) or {}
    return {name: members[name] for name in node.list_keys if name in members}


def identity(value: Tree) -> str:
    """A text that two values have in common only if they are the same."""
    try:
        return json.dumps(value, sort_keys=True)
    except (TypeError, ValueError):
        return repr(value)
