"""The identity of list items: duplicates in sets and keyed lists, and comparison that ignores the order of keyed lists.

`unique` and `unique_keys` are called by generated code; the rest by the slow path of validation and by ratcheting.
"""

import json

from levelset.apiserver.schema import field_errors
from levelset.apiserver.schema.json_values import same
from levelset.apiserver.schema.prune_and_default import Resolve
from levelset.apiserver.schema.schema_nodes import Node, Tree, as_list, as_map
from levelset.errors import Cause

__all__ = ["duplicates", "identity", "is_unchanged", "key_of", "unique", "unique_keys"]


def unique(items: list[Tree]) -> bool:
    """Whether the items certainly differ; False also if a slower comparison is needed."""
    try:
        return len(set(items)) == len(items)
    except TypeError:
        return False


def unique_keys(items: list[dict[str, Tree]], key: str) -> bool:
    """Whether the objects certainly differ in one member; False also if a slower comparison is needed."""
    try:
        return len({one.get(key) for one in items}) == len(items)
    except TypeError:
        return False


def duplicates(node: Node, items: list[Tree], path: str) -> list[Cause]:
    """A cause for each item that repeats an earlier one."""
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
    """The key members of an item of a keyed list."""
    members = as_map(item) or {}
    return {name: members[name] for name in node.list_keys if name in members}


def identity(value: Tree) -> str:
    """A string that is equal for two values only if they are the same."""
    try:
        return json.dumps(value, sort_keys=True)
    except (TypeError, ValueError):
        return repr(value)


def is_unchanged(resolve: Resolve, node: Node | None, tree: Tree, old: Tree) -> bool:
    """Whether both are the same value; without a schema (None), list order always matters."""
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
    # Also a keyed list with duplicate keys: it may be older than its schema.
    return all(is_unchanged(resolve, node.items, one, other) for one, other in zip(new_items, old_items, strict=True))
