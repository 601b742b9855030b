"""Sets of field paths: which fields of an object somebody owns, wrote or asked for.

A set is a tree of elements (see `elements`) and has the form that FieldsV1 has on the wire: the fields `.spec.color`
and `.spec.size` are `{"f:spec": {"f:color": {}, "f:size": {}}}`. A node without children belongs to the set; a node
with children belongs to it only if it also holds `.`. The members of a node are in Kubernetes' order, so that a set
need not be rebuilt to be written. Sets are values: every operation gives a new set and shares with its operands what
did not change.

FieldsV1, the form in which field sets travel in `managedFields`: read strictly, written in Kubernetes' order.
"""

from collections.abc import Iterator
from functools import lru_cache
from typing import Final, TypeAlias, cast

import msgspec

from levelset.errors import BadPatch
from levelset.objects.json_tree import Tree
from levelset.patch.field_paths import Path, canonical, is_named, ordered, show
from levelset.patch.merge_schema import Shape

__all__ = ["EMPTY", "FieldSet", "Node", "in_order", "parse_fields", "print_fields"]

Node: TypeAlias = dict[str, "Node"]


class FieldSet:
    """An immutable set of field paths; a path belongs to the set independently of the paths above and below it.

    `tree` must be in the one form that the module describes, as the functions of this room make it; what comes from
    outside goes through `parse_fields`. It must not be changed afterwards.
    """

    __slots__ = ("tree",)

    def __init__(self, tree: Node | None = None) -> None:
        self.tree: Final[Node] = tree or {}

    @classmethod
    def of(cls, *paths: Path) -> "FieldSet":
        """The set of exactly these paths: `FieldSet.of(path("spec", "color"), path("status"))`."""
        made = cls()
        for one in paths:
            made = made.insert(one)
        return made

    def insert(self, path: Path) -> "FieldSet":
        """The set with one path more; the empty path (the whole object) never belongs to a set."""
        if not path:
            return self
        addition: Node = {}
        for element in reversed(path):
            addition = {element: addition}
        return self | FieldSet(addition)

    def has(self, path: Path) -> bool:
        """Whether exactly this path belongs to the set."""
        node = self.tree
        for element in path:
            found = node.get(element)
            if found is None or element == ".":
                return False
            node = found
        return bool(path) and _is_member(node)

    def under(self, element: str) -> "FieldSet":
        """The paths below one element, without it."""
        node = self.tree.get(element)
        return FieldSet(_children(node)) if node else EMPTY

    def is_empty(self) -> bool:
        """Whether no path belongs to the set."""
        return not self.tree

    def union(self, other: "FieldSet") -> "FieldSet":
        """The paths of either."""
        if not other.tree or other.tree is self.tree:
            return self
        return FieldSet(_join(self.tree, other.tree)) if self.tree else other

    def intersection(self, other: "FieldSet") -> "FieldSet":
        """The paths of both."""
        return FieldSet(_common(self.tree, other.tree)) if self.tree and other.tree else EMPTY

    def difference(self, other: "FieldSet") -> "FieldSet":
        """The paths of this set that are not in the other; paths below those stay."""
        if not self.tree or not other.tree:
            return self
        tree = _minus(self.tree, other.tree)
        return self if tree is self.tree else FieldSet(tree)

    def recursive_difference(self, other: "FieldSet") -> "FieldSet":
        """The paths of this set that neither are in the other nor lie below a path of the other."""
        if self.tree.keys().isdisjoint(other.tree):  # mostly: what others write is not in here at all
            return self
        return FieldSet(_beyond(self.tree, other.tree))

    def leaves(self) -> "FieldSet":
        """The paths that have no other path of the set below them."""
        return FieldSet(_leaves(self.tree)) if self.tree else self

    def with_named_fields(self, shape: Shape) -> "FieldSet":
        """The set with every field on the way that the shape knows by name.

        Such fields are not recorded as owned while something below them is (`spec` in `spec.color`), but whoever
        gives up all of `spec.color` gives up `spec` too. Members of free maps and items of lists are recorded.
        """
        return FieldSet(_named(self.tree, shape)) if self.tree else self

    def fitted(self, shape: Shape, *, along: "FieldSet | None" = None) -> "FieldSet":
        """The set after a schema made something indivisible: owning a part of it is now owning it.

        With `along`, only on the way to the paths of that set; the rest is left as it was.
        """
        tree = _fitted(self.tree, shape, None if along is None else along.tree)
        return self if tree is self.tree else FieldSet(tree)

    def __iter__(self) -> Iterator[Path]:
        """The paths in Kubernetes' order: those that end at a node before those that go on below it."""
        return _paths(self.tree, ())

    def __bool__(self) -> bool:
        return bool(self.tree)

    def __len__(self) -> int:
        return _size(self.tree)

    def __contains__(self, path: Path) -> bool:
        return self.has(path)

    def __or__(self, other: "FieldSet") -> "FieldSet":
        return self.union(other)

    def __and__(self, other: "FieldSet") -> "FieldSet":
        return self.intersection(other)

    def __sub__(self, other: "FieldSet") -> "FieldSet":
        return self.difference(other)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, FieldSet):
            return NotImplemented
        return self.tree is other.tree or self.tree == other.tree

    def __hash__(self) -> int:
        return hash(frozenset(self))

    def __repr__(self) -> str:
        return f"FieldSet({', '.join([show(one) for one in self])})"


def in_order(node: Node) -> Node:
    """The same node with its members in Kubernetes' order."""
    if len(node) < 2:
        return node
    elements = ordered(node)
    return node if elements == list(node) else {element: node[element] for element in elements}


# The root holds only children and is never a member; every other node is a member if it is empty or holds ".". That is
# why the empty tree is the empty set, while an empty node further down is one path, and why the helpers below give None
# for a node that is gone.


def _is_member(node: Node) -> bool:
    return not node or "." in node


def _children(node: Node) -> Node:
    return {element: child for element, child in node.items() if element != "."} if "." in node else node


def _node(children: Node, *, member: bool) -> Node | None:
    if not children:
        return {} if member else None
    return {".": {}, **children} if member else children


def _join(left: Node, right: Node) -> Node:
    if left is right:
        return left
    if not left or not right:
        other = left or right
        return other if _is_member(other) else {".": {}, **other}
    joined = dict(left)
    for element, node in right.items():
        mine = joined.get(element)
        joined[element] = node if mine is None else _join(mine, node)
    return joined if len(joined) == len(left) else in_order(joined)


def _common(left: Node, right: Node) -> Node | None:
    member = _is_member(left) and _is_member(right)
    children: Node = {}
    for element, node in left.items():
        other = right.get(element)
        if other is None or element == ".":
            continue
        shared = _common(node, other)
        if shared is not None:
            children[element] = shared
    return _node(children, member=member)


def _minus(left: Node, right: Node) -> Node | None:
    was_member = _is_member(left)
    member = was_member and not _is_member(right)
    is_same = member == was_member
    children: Node = {}
    for element, node in left.items():
        if element == ".":
            continue
        other = right.get(element)
        if other is None:
            children[element] = node
        elif not node:  # one path: gone, unless the other set holds only paths below it
            if other and "." not in other:
                children[element] = node
            else:
                is_same = False
        else:
            rest = _minus(node, other)
            is_same = is_same and rest is node
            if rest is not None:
                children[element] = rest
    return left if is_same else _node(children, member=member)


def _beyond(left: Node, right: Node) -> Node | None:
    children: Node = {}
    for element, node in left.items():
        other = right.get(element)
        if element == "." or (other is not None and _is_member(other)):
            continue
        rest = node if other is None else _beyond(node, other)
        if rest is not None:
            children[element] = rest
    return _node(children, member=_is_member(left))


def _leaves(node: Node) -> Node:
    return {element: _leaves(child) for element, child in node.items() if element != "."}


def _named(node: Node, shape: Shape) -> Node:
    out: Node = {}
    for element, child in node.items():
        if not child:
            out[element] = child
        elif element[:2] == "f:":
            name = element[2:]
            below = _named(child, shape.member(name))
            out[element] = {".": {}, **below} if "." not in below and is_named(name, shape) else below
        else:
            out[element] = _named(child, shape.item())
    return out


def _fitted(node: Node, shape: Shape, along: Node | None) -> Node:
    out = node
    for element in node if along is None else along:
        child = node.get(element)
        if not child:
            continue
        inner = shape.member(element[2:]) if element[:2] == "f:" else shape.item()
        fitted: Node = {} if _is_whole(child, inner) else _fitted(child, inner, along and along[element])
        if fitted is not child:
            out = dict(node) if out is node else out
            out[element] = fitted
    return out


def _is_whole(node: Node, shape: Shape) -> bool:
    if shape.atomic:
        return True
    return shape.list_type == "atomic" and any(element[:2] in {"k:", "v:", "i:"} for element in node)


def _paths(node: Node, prefix: Path) -> Iterator[Path]:
    elements = [element for element in node if element != "."]
    for element in elements:
        if _is_member(node[element]):
            yield (*prefix, element)
    for element in elements:
        if node[element]:
            yield from _paths(node[element], (*prefix, element))


def _size(node: Node) -> int:
    return sum([_is_member(child) + _size(child) for element, child in node.items() if element != "."])


EMPTY: Final = FieldSet()


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
    return FieldSet(_parse_children(tree, where, 0))


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


def _parse_children(node: dict[str, Tree], where: str, depth: int) -> Node:
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
        below = _parse_node(child, inner, depth)
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


def _parse_node(child: Tree, where: str, depth: int) -> Node:
    if child is None:
        return {}
    if not isinstance(child, dict):
        raise BadPatch(f"{where} must be a map of fields, not {type(child).__name__}", field=where)
    children = _parse_children(child, where, depth + 1)
    return {".": {}, **children} if children and "." in child else children
