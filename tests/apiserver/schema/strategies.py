"""Random schemas and random objects, small enough to be read when a test fails."""

from typing import Any

from hypothesis import strategies as st

NAMES = st.sampled_from(["a", "b", "c", "metadata", "kind"])
TEXTS = st.sampled_from(["", "a", "ab", "abc", "A1", "a-b", "2020-01-02", "é"])
NUMBERS = st.integers(-3, 9) | st.sampled_from([0.5, 1.5, 2.5, -1.5])
SCALARS = TEXTS | NUMBERS | st.booleans()
PATTERNS = st.sampled_from(["^a", "b$", "^[a-z]+$", "[0-9]{4}", "(a|b)+", "^(a+)+$"])


def trees(leaves: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """JSON trees with these leaves."""
    return st.recursive(
        leaves,
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=4),
        max_leaves=12,
    )


PLAIN = trees(SCALARS)
TREES = trees(SCALARS | st.none())
ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=12), inner, max_size=5),
    max_leaves=20,
)


def some(**keywords: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    """A schema with some of these keywords."""
    return st.fixed_dictionaries({}, optional=keywords)


COUNTS = st.integers(0, 4)
VALIDATIONS = some(
    minLength=COUNTS,
    maxLength=COUNTS,
    pattern=PATTERNS,
    minimum=NUMBERS,
    maximum=NUMBERS,
    exclusiveMinimum=st.booleans(),
    exclusiveMaximum=st.booleans(),
    multipleOf=st.integers(1, 3),
    minItems=COUNTS,
    maxItems=COUNTS,
    minProperties=COUNTS,
    maxProperties=COUNTS,
    enum=st.lists(PLAIN, min_size=1, max_size=4),
    required=st.lists(NAMES, unique=True, min_size=1, max_size=2),
)
TYPES = st.sampled_from(["string", "integer", "number", "boolean", "object", "array"])


def _limited(schema: dict[str, Any]) -> dict[str, Any]:
    """Draft 4 knows an exclusive limit only beside a limit."""
    for name in ("imum", "imum"):
        for side in ("min", "max"):
            if side + name not in schema:
                schema.pop("exclusive" + (side + name).capitalize(), None)
    return schema


def _with_children(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    children = some(
        type=TYPES,
        properties=st.dictionaries(NAMES, inner, max_size=3),
        additionalProperties=inner | st.booleans(),
        items=inner,
        allOf=st.lists(inner, min_size=1, max_size=2),
        anyOf=st.lists(inner, min_size=1, max_size=2),
        oneOf=st.lists(inner, min_size=1, max_size=2),
    ) | some(type=TYPES, **{"not": inner})
    return st.tuples(VALIDATIONS, children).map(lambda pair: _limited({**pair[0], **pair[1]}))


PLAIN_SCHEMAS = st.recursive(
    st.tuples(VALIDATIONS, some(type=TYPES)).map(lambda pair: _limited({**pair[0], **pair[1]})),
    _with_children,
    max_leaves=5,
)
"""Schemas with the keywords that every validator of JSON Schema knows."""


def _structural(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    objects = some(
        properties=st.dictionaries(NAMES, inner, max_size=4),
        required=st.lists(NAMES, unique=True, min_size=1, max_size=2),
        default=st.dictionaries(NAMES, PLAIN, max_size=2),
        nullable=st.booleans(),
        anyOf=st.lists(VALIDATIONS, min_size=1, max_size=2),
        **{
            "x-kubernetes-preserve-unknown-fields": st.just(True),
            "x-kubernetes-embedded-resource": st.just(True),
            "x-kubernetes-map-type": st.sampled_from(["atomic", "granular"]),
        },
    )
    maps = st.fixed_dictionaries({"additionalProperties": inner | st.booleans()}, optional={"maxProperties": COUNTS})
    lists = st.fixed_dictionaries(
        {"items": inner},
        optional={
            "x-kubernetes-list-type": st.sampled_from(["set", "map", "atomic"]),
            "x-kubernetes-list-map-keys": st.lists(NAMES, unique=True, min_size=1, max_size=2),
            "x-kubernetes-preserve-unknown-fields": st.just(True),
            "maxItems": COUNTS,
            "default": st.lists(PLAIN, max_size=2),
            "nullable": st.booleans(),
        },
    )
    return (
        objects.map(lambda one: {"type": "object", **one})
        | maps.map(lambda one: {"type": "object", **one})
        | lists.map(lambda one: {"type": "array", **one})
    )


_LEAVES = st.tuples(
    some(type=TYPES, nullable=st.booleans(), default=SCALARS, **{"x-kubernetes-int-or-string": st.just(True)})
    | some(
        format=st.sampled_from(["date", "int32", "byte", "odd"]),
        **{"x-kubernetes-preserve-unknown-fields": st.just(True)},
    ),
    VALIDATIONS,
).map(lambda pair: {**pair[1], **pair[0]})

STRUCTURAL = st.recursive(_LEAVES, _structural, max_leaves=6)
"""Schemas with everything that Kubernetes adds, not all of them accepted by it."""
