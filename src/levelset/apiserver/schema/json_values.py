"""Comparing and copying JSON values by JSON's rules, where `true` is not 1."""

from typing import Any, Final

from levelset.apiserver.schema.schema_nodes import Tree, as_list, as_map

__all__ = ["copy_tree", "count_values", "is_member", "join", "same"]

_CONTAINERS: Final = (dict, list)


def copy_tree(tree: Tree) -> Tree:
    """A deep copy."""
    members = as_map(tree)
    if members is not None:
        return {name: copy_tree(one) for name, one in members.items()}
    items = as_list(tree)
    if items is not None:
        return [copy_tree(one) for one in items]
    return tree


def count_values(tree: Tree) -> int:
    """The number of values in a tree, which may be as deep as memory allows."""
    level: list[Any] = [tree] if isinstance(tree, _CONTAINERS) else []
    count = 1
    while level:
        # `isinstance` and not `as_map`: a call of ours for each value would take three times as long.
        members: list[Any] = [one.values() if isinstance(one, dict) else one for one in level]  # pyright: ignore[reportUnknownMemberType] - JSON trees
        count += sum(map(len, members))
        level = [one for each in members for one in each if isinstance(one, _CONTAINERS)]
    return count


def same(one: Tree, other: Tree) -> bool:
    """Whether two trees are the same JSON value: true is not 1, but 1 is 1.0."""
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    left, right = as_map(one), as_map(other)
    if left is not None and right is not None:
        return left.keys() == right.keys() and all(same(value, right[name]) for name, value in left.items())
    first, second = as_list(one), as_list(other)
    if first is not None and second is not None:
        return len(first) == len(second) and all(map(same, first, second))
    return bool(one == other)


def is_member(value: Tree, allowed: tuple[Tree, ...]) -> bool:
    """Whether the value is one of an enumeration; null never is."""
    return value is not None and any(same(value, one) for one in allowed)


def join(path: str, name: str) -> str:
    """The path of a member."""
    return f"{path}.{name}" if path else name
