"""Integers of an applied object that do not fit their fields: Go converts an applied object and keeps the low bits.

A written object is decoded from JSON instead, where such a number is an error.
"""

from collections.abc import Iterator
from typing import Any, Final

from levelset.apiserver.schema.builtin_schemas import COMPONENT, builtin_names, library
from levelset.objects.json_tree import is_list, is_map

__all__ = ["narrow_integers"]

_BITS: Final = {"int32": 32}


def narrow_integers(group: str, version: str, kind: str, tree: dict[str, Any]) -> None:
    """Keeps the low bits of integers of a built-in kind that have more than their fields, in place."""
    name = builtin_names(group, version).get(kind)
    if name is not None:
        _narrow(library()[name], tree)


def _narrow(schema: Any, tree: Any) -> None:
    if is_map(tree):
        members: Any = schema.get("properties", {})
        rest: Any = schema.get("additionalProperties")
        below: list[tuple[Any, Any]] = [(key, members.get(key, rest)) for key in tree]
    elif is_list(tree):
        below = [(index, schema.get("items")) for index in range(len(tree))]
    else:
        return
    for key, found in below:
        if not is_map(found):
            continue
        member, value = _resolved(found), tree[key]
        bits = _BITS.get(member.get("format", ""))
        if bits is None:
            _narrow(member, value)
        elif value.__class__ is int and not -(1 << bits - 1) <= value < 1 << bits - 1:
            tree[key] = (value + (1 << bits - 1)) % (1 << bits) - (1 << bits - 1)


def _resolved(schema: Any) -> Any:
    for one in _parts(schema):
        if "$ref" in one:
            return library()[one["$ref"].removeprefix(COMPONENT)]
    return schema


def _parts(schema: Any) -> Iterator[Any]:
    yield schema
    yield from schema.get("allOf", ())
