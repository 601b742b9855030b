"""FieldsV1, the form in which field sets travel in `managedFields`: read strictly, written in Kubernetes' order."""

from functools import lru_cache
from typing import Final, cast

import msgspec

from levelset.errors import BadPatch
from levelset.objects.trees import Tree
from levelset.patch.elements import canonical, ordered
from levelset.patch.fieldset import FieldSet, Node, in_order

__all__ = ["parse_fields", "print_fields"]

# Deeper than any schema, and shallow enough for every operation on sets to follow.
_MAX_DEPTH: Final = 200
_KNOWN_BYTES: Final = 8192


def parse_fields(tree: Tree, *, where: str = "fieldsV1") -> FieldSet:
    """The set that a FieldsV1 tree describes.

    As in Kubernetes, null stands for an empty node, and elements of a kind that is not known yet are left out.
    Raises BadPatch, naming the keys that lead to the fault; `where` is what its path begins with.
    """
    if tree is None:
        return FieldSet()
    if not isinstance(tree, dict):
        raise BadPatch(f"{where} must be a map of fields, not {type(tree).__name__}", field=where)
    # All objects of a kind tend to have the same few sets: to encode one and look it up is ten times faster.
    try:
        text = msgspec.json.encode(tree)
        return _known(text) if len(text) <= _KNOWN_BYTES else _read(tree, where)
    except (TypeError, ValueError, OverflowError, RecursionError):
        return _read(tree, where)


def print_fields(fields: FieldSet) -> dict[str, Tree]:
    """The FieldsV1 tree of a set, in the order in which Kubernetes writes it; it is shared with the set."""
    return cast("dict[str, Tree]", fields.tree)


@lru_cache(maxsize=256)
def _known(text: bytes) -> FieldSet:
    return _read(cast("dict[str, Tree]", msgspec.json.decode(text)), "")


def _read(tree: dict[str, Tree], where: str) -> FieldSet:
    if "." not in tree and _is_canonical(tree, 0):
        return FieldSet(cast("Node", tree))
    return FieldSet(_children(tree, where, 0))


def _is_canonical(node: dict[str, Tree], depth: int) -> bool:
    """Whether the tree can be taken as it is: the usual case, and much faster than rebuilding it."""
    if depth > _MAX_DEPTH:
        return False
    last, plain = "", True
    for key, child in node.items():
        if not isinstance(child, dict) or not isinstance(key, str):
            return False
        if key[:2] == "f:":
            if key < last or (child and not _is_canonical(child, depth + 1)):
                return False
            last = key
        elif key != ".":
            plain = False
            if not _is_spelled_well(key) or (child and not _is_canonical(child, depth + 1)):
                return False
        elif child or last or len(node) == 1:
            return False
    return plain or ordered(node) == list(node)


def _is_spelled_well(element: str) -> bool:
    try:
        return canonical(element) == element
    except BadPatch:
        return False


def _children(node: dict[str, Tree], where: str, depth: int) -> Node:
    if depth > _MAX_DEPTH:
        raise BadPatch(f"the fields are nested deeper than {_MAX_DEPTH} levels", field=where)
    out: Node = {}
    for key, child in node.items():
        if key == ".":
            continue
        inner = f"{where}.{key}"
        element = _element(key, inner)
        if element is None:
            continue
        below = _node(child, inner, depth)
        if element in out:  # two spellings of one element
            below = (FieldSet({element: out[element]}) | FieldSet({element: below})).tree[element]
        out[element] = below
    return in_order(out)


def _element(key: str, where: str) -> str | None:
    if not isinstance(key, str):
        raise BadPatch(f"{where}: the key must be a text", field=where)
    try:
        return canonical(key)
    except BadPatch as error:
        raise BadPatch(f"{where}: {error}", field=where) from None


def _node(child: Tree, where: str, depth: int) -> Node:
    if child is None:
        return {}
    if not isinstance(child, dict):
        raise BadPatch(f"{where} must be a map of fields, not {type(child).__name__}", field=where)
    children = _children(child, where, depth + 1)
    return {".": {}, **children} if children and "." in child else children
