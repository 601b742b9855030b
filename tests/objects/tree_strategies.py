"""JSON trees for property tests."""

from hypothesis import strategies as some

scalars = some.none() | some.booleans() | some.integers(-(2**53), 2**53) | some.text(max_size=8) | some.just(0.5)
names = some.text("abcdef-./~", min_size=1, max_size=4)


def trees(leaves=scalars, size=12):
    return some.recursive(
        leaves,
        lambda inner: some.lists(inner, max_size=4) | some.dictionaries(names, inner, max_size=4),
        max_leaves=size,
    )


def maps(leaves=scalars, size=12):
    return some.dictionaries(names, trees(leaves, size), max_size=5)
