"""JSON trees for the property tests of patches: few names and values, so that two trees often overlap."""

from typing import Any

from hypothesis import strategies as some

names = some.sampled_from(["a", "b", "c", "a/b", "~", "0", "-", ""])
scalars = some.none() | some.booleans() | some.integers(0, 2) | some.sampled_from([0.0, 1.0, 2.5, "", "x", "1"])


def trees(leaves: Any = scalars, size: int = 10) -> Any:
    return some.recursive(
        leaves,
        lambda inner: some.lists(inner, max_size=5) | some.dictionaries(names, inner, max_size=4),
        max_leaves=size,
    )


def maps(leaves: Any = scalars, size: int = 10) -> Any:
    return some.dictionaries(names, trees(leaves, size), max_size=4)


def deep(depth: int, leaf: Any = None) -> Any:
    """A tree that is one long chain."""
    tree = leaf
    for _ in range(depth):
        tree = {"a": tree}
    return tree
