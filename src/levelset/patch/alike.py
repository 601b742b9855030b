"""A quick answer to whether two trees are the same JSON, for differences, where most parts are."""

from operator import is_

import msgspec

from levelset.objects import trees
from levelset.objects.trees import Tree

__all__ = ["alike"]


def alike(one: Tree, other: Tree) -> bool:
    """As `trees.same`, and many times faster for equal lists: equality and encoding run in C.

    Python's equality alone would take true for 1; trees that it calls equal and that encode alike are the same. What
    it cannot decide (1 and 1.0, another order of members, trees too deep for it) is left to `trees.same`.
    """
    if one is other:
        return True
    try:
        if one != other:
            return False
        if isinstance(one, str) or _is_copy(one, other) or _encode(one) == _encode(other):
            return True
    except (RecursionError, TypeError, ValueError, OverflowError):
        pass
    return trees.same(one, other)


def _is_copy(one: Tree, other: Tree) -> bool:
    """Whether two maps have the very same members in the same order: many were copied for the sake of one change."""
    if not isinstance(one, dict) or not isinstance(other, dict) or list(one) != list(other):
        return False
    return all(map(is_, one.values(), other.values()))


_encode = msgspec.json.Encoder().encode
