"""Uniqueness: items of a set and keys of a keyed list, which may be there only once.

Whether a value is what it was before, as its schema sees it: keyed lists have no order.
"""

import json

from levelset.apiserver.schema import field_errors
from levelset.apiserver.schema.json_values import same
from levelset.apiserver.schema.prune_and_default import Resolve
from levelset.apiserver.schema.schema_nodes import Node, Tree, as_list, as_map
from levelset.errors import Cause

__all__ = ["duplicates", "identity", "is_unchanged", "key_of", "unique", "unique_keys"]


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
            return [field_errors.invalid(f"{path}[{at}]", one, "must be an object for an array of list-type map")]
    return _second_times([key_of(node, one) for one in items], path)


def _second_times(values: list[Tree], path: str) -> list[Cause]:
    seen: dict[str, int] = {}
    causes: list[Cause] = []
    for at, value in enumerate(values):
        name = identity(value)
        seen[name] = seen.get(name, 0) + 1
        if seen[name] == 2:
            causes.append(field_errors.duplicate(f"{path}[{at}]", value))
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


def is_unchanged(resolve: Resolve, node: Node | None, tree: Tree, old: Tree) -> bool:
    """Whether both are one value; without a schema (None), order always counts."""
    if node is None:
        return same(tree, old)
    node = resolve(node)
    new_members, old_members = as_map(tree), as_map(old)
    if new_members is not None and old_members is not None:
        return new_members.keys() == old_members.keys() and all(
            is_unchanged(resolve, node.child(name), value, old_members[name]) for name, value in new_members.items()
        )
    new_items, old_items = as_list(tree), as_list(old)
    if new_items is None or old_items is None:
        return same(tree, old)
    if len(new_items) != len(old_items):
        return False
    if node.list_type == "map":
        former = {identity(key_of(node, one)): one for one in old_items}
        keys = [identity(key_of(node, one)) for one in new_items]
        if len(former) == len(old_items):
            return set(keys) == former.keys() and all(
                is_unchanged(resolve, node.items, one, former[key]) for key, one in zip(keys, new_items, strict=True)
            )
    # Also a keyed list whose keys do not tell its items apart: it may be older than its schema.
    return all(is_unchanged(resolve, node.items, one, other) for one, other in zip(new_items, old_items, strict=True))
