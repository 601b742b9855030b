"""Sets of field paths: their operations, their wire form FieldsV1, and the field sets of objects.

A set is a tree of elements (see `field_paths.py`) in the form of FieldsV1: the fields `.spec.color` and `.spec.size`
are `{"f:spec": {"f:color": {}, "f:size": {}}}`. A node without children belongs to the set; a node with children
belongs to it only if it also holds `.`. The members of a node are in Kubernetes' order, so that a set need not be
rebuilt to be written. Sets are immutable: every operation returns a new set and shares unchanged parts with its
operands.

`fields_of` gives the fields that an applied object owns, `compare` those that an update changed or removed, and
`extract_fields` and `remove_fields` give an object with only, or without, some fields.
"""

from collections.abc import Iterator
from functools import lru_cache
from typing import Final, NamedTuple, TypeAlias, cast

import msgspec

from levelset.errors import BadPatch
from levelset.objects.json_tree import Tree
from levelset.patch.field_paths import Path, canonical, field, is_granular, is_named, item, list_elements, ordered, show
from levelset.patch.json_patch import json_equal
from levelset.patch.merge_schema import ANYTHING, Shape

__all__ = [
    "EMPTY",
    "Changes",
    "FieldSet",
    "Node",
    "all_fields",
    "compare",
    "extract_fields",
    "fields_of",
    "in_order",
    "parse_fields",
    "print_fields",
    "remove_fields",
]

Node: TypeAlias = dict[str, "Node"]


class FieldSet:
    """An immutable set of field paths; a path belongs to the set independently of the paths above and below it.

    `tree` must be in the canonical form that the module docstring describes, and must not be changed afterwards; input
    from outside goes through `parse_fields`.
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
        if self.tree.keys().isdisjoint(other.tree):
            return self
        tree = _minus(self.tree, other.tree)
        return self if tree is self.tree else FieldSet(tree)

    def recursive_difference(self, other: "FieldSet") -> "FieldSet":
        """The paths of this set that neither are in the other nor lie below a path of the other."""
        if self.tree.keys().isdisjoint(other.tree):  # the usual case: other managers write other fields
            return self
        return FieldSet(_beyond(self.tree, other.tree))

    def leaves(self) -> "FieldSet":
        """The paths that have no other path of the set below them."""
        return FieldSet(_leaves(self.tree)) if self.tree else self

    def with_named_fields(self, shape: Shape) -> "FieldSet":
        """The set with all parent fields that the shape declares by name.

        Such fields are not recorded as owned while something below them is (`spec` in `spec.color`), but a manager that
        gives up all of `spec.color` gives up `spec` too. Members of free maps and items of lists are recorded.
        """
        return FieldSet(_named(self.tree, shape)) if self.tree else self

    def fitted(self, shape: Shape, *, along: "FieldSet | None" = None) -> "FieldSet":
        """The set after a schema made fields atomic: owning a part of such a field now means owning all of it.

        With `along`, only along the paths of that set; the rest is unchanged.
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


# The root holds only children and is never a member; every other node is a member if it is empty or holds ".". So the
# empty tree is the empty set, while an empty node further down is one path, and the helpers below return None for a
# node that is removed.


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
        elif not node:  # one path: removed, unless the other set has only paths below it
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
        fitted: Node = {} if _is_atomic(child, inner) else _fitted(child, inner, along and along[element])
        if fitted is not child:
            out = dict(node) if out is node else out
            out[element] = fitted
    return out


def _is_atomic(node: Node, shape: Shape) -> bool:
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


# Deeper than any schema, and shallow enough for the recursive operations on sets.
_MAX_DEPTH: Final = 200
_CACHED_BYTES: Final = 8192


def parse_fields(tree: Tree, *, where: str = "fieldsV1") -> FieldSet:
    """The set that a FieldsV1 tree describes.

    As in Kubernetes, null is an empty node, and elements of an unknown kind are ignored.
    Raises BadPatch with the path of the invalid key; `where` is the prefix of that path.
    """
    if tree is None:
        return FieldSet()
    if not isinstance(tree, dict):
        raise BadPatch(f"{where} must be a map of fields, not {type(tree).__name__}", field=where)
    # Objects of a kind mostly have the same few sets: encoding one and looking it up is ten times faster than parsing.
    try:
        text = msgspec.json.encode(tree)
        return _parse_cached(text) if len(text) <= _CACHED_BYTES else _read(tree, where)
    except (TypeError, ValueError, OverflowError, RecursionError):
        return _read(tree, where)


def print_fields(fields: FieldSet) -> dict[str, Tree]:
    """The FieldsV1 tree of a set, in the order in which Kubernetes writes it; it is shared with the set."""
    return cast("dict[str, Tree]", fields.tree)


@lru_cache(maxsize=256)
def _parse_cached(text: bytes) -> FieldSet:
    return _read(cast("dict[str, Tree]", msgspec.json.decode(text)), "")


def _read(tree: dict[str, Tree], where: str) -> FieldSet:
    if "." not in tree and _is_canonical(tree, 0):
        return FieldSet(cast("Node", tree))
    return FieldSet(_parse_children(tree, where, 0))


def _is_canonical(node: dict[str, Tree], depth: int) -> bool:
    """Whether the tree is canonical already: the usual case, and much faster than rebuilding it."""
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
            if not _is_canonical_element(key) or (child and not _is_canonical(child, depth + 1)):
                return False
        elif child or last or len(node) == 1:
            return False
    return plain or ordered(node) == list(node)


def _is_canonical_element(element: str) -> bool:
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
        if element in out:  # two forms of one element
            below = (FieldSet({element: out[element]}) | FieldSet({element: below})).tree[element]
        out[element] = below
    return in_order(out)


def _element(key: str, where: str) -> str | None:
    if not isinstance(key, str):
        raise BadPatch(f"{where}: the key must be a string", field=where)
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


def fields_of(tree: Tree, shape: Shape, *, strict: bool = False) -> FieldSet:
    """The fields that an object specifies, as a manager owns them that applies it.

    Maps and keyed lists are owned by member, atomic values as a whole. A field that the shape declares by name is owned
    itself only if it is empty; a member of a free map and an item of a list always are.
    With `strict`, a list item without its key, two items with the same key and map keys that are not strings raise
    BadPatch naming the field; without it such a list counts as one value and the second item as the first.
    """
    try:
        if isinstance(tree, dict) and not shape.atomic:  # as `_specified`, without the call
            return FieldSet(_specified_members(tree, shape, strict=strict))
        return FieldSet(_specified(tree, shape, strict=strict))
    except _SchemaMismatch as mismatch:
        where = show(tuple(reversed(mismatch.steps)))
        raise BadPatch(f"{where or 'the object'}: {mismatch}", field=where) from None
    except RecursionError:
        raise BadPatch("the object is nested too deeply to be tracked") from None


def all_fields(tree: Tree, shape: Shape) -> Node:
    """The node of a set that holds this value and everything below it, as the manager owns it that creates it."""
    if isinstance(tree, dict) and tree and not shape.atomic:
        out: Node = {".": {}}
        for name in _sorted_names(tree):
            child = tree[name]
            out[f"f:{name}"] = all_fields(child, shape.member(name)) if isinstance(child, _CONTAINERS) else {}
        return out
    if isinstance(tree, list) and tree:
        elements = list_elements(tree, shape)
        if elements is not None:
            out = {".": {}}
            for element, entry in zip(elements, tree, strict=True):
                out[element] = {} if element in out else all_fields(entry, shape.item())
            return in_order(out)
    return {}


def extract_fields(tree: Tree, fields: FieldSet, shape: Shape) -> Tree:
    """The object with only the given fields, and the keys of the list items that contain them."""
    return _extracted(tree, fields.tree, shape) if fields else _emptied(tree)


def remove_fields(tree: Tree, fields: FieldSet, shape: Shape) -> Tree:
    """The object without the given fields and everything below them; unchanged parts are shared.

    A map or list that loses its last member stays as an empty one, unless it is a given field itself.
    """
    return _removed(tree, fields.tree, shape) if fields else tree


# `isinstance` with a tuple is twice as fast as with a union, on the hottest path of server-side apply.
_CONTAINERS: Final = (dict, list)


class _SchemaMismatch(Exception):
    """A value that does not match its shape; `steps` are the path to it, innermost first."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.steps: list[str] = []


def _specified(tree: Tree, shape: Shape, *, strict: bool) -> Node | None:
    """The children of a map or list that are specified; None for a value that is owned as a whole."""
    if isinstance(tree, dict):
        return None if shape.atomic else _specified_members(tree, shape, strict=strict)
    if isinstance(tree, list) and is_granular(shape):
        return _specified_items(tree, shape, strict=strict)
    return None


def _specified_members(tree: dict[str, Tree], shape: Shape, *, strict: bool) -> Node:
    out: Node = {}
    fields, items = shape.fields, shape.items
    knows_all = bool(fields) and items is None
    name = ""
    try:
        for name in tree if len(tree) < 2 else _sorted_names(tree):
            if strict and name.__class__ is not str:
                _check_name(name)
            child, element = tree[name], f"f:{name}"
            if child.__class__ is str or not isinstance(child, _CONTAINERS):
                out[element] = {}
                continue
            known = fields.get(name)
            inner = known or items or ANYTHING
            below: Node | None = None
            if isinstance(child, list):
                if inner.list_type != "atomic" and is_granular(inner):
                    below = _specified_items(child, inner, strict=strict)
            elif not inner.atomic:
                below = _specified_members(child, inner, strict=strict)
            if below is None and strict and inner is not ANYTHING:
                _check_whole(child, inner)
            if below is None or child == {}:
                out[element] = {}
            elif known is None and not knows_all:  # `is_named`, inlined since it runs for every field
                out[element] = {".": {}, **below} if below else {}
            elif below:
                out[element] = below
    except _SchemaMismatch as mismatch:
        mismatch.steps.append(field(name))
        raise
    return out


def _check_whole(tree: Tree, shape: Shape) -> None:
    """Checks the keys and items of lists inside a value that is owned as a whole."""
    if isinstance(tree, dict):
        _specified_members(tree, shape, strict=True)
    elif isinstance(tree, list) and is_granular(shape):
        _specified_items(tree, shape, strict=True)
    elif isinstance(tree, list) and shape.item() is not ANYTHING:
        for index, entry in enumerate(tree):
            try:
                _check_whole(entry, shape.item())
            except _SchemaMismatch as mismatch:
                mismatch.steps.append(f"i:{index}")
                raise


def _check_name(name: object) -> None:
    if not isinstance(name, str):
        raise _SchemaMismatch("the key must be a string: quote it")


def _specified_items(entries: list[Tree], shape: Shape, *, strict: bool) -> Node | None:
    elements = _strict_elements(entries, shape) if strict else list_elements(entries, shape)
    if elements is None:
        return None
    inner = shape.items or ANYTHING  # as `shape.item`, without the call
    if inner.atomic and not is_granular(inner):  # nothing inside is owned separately
        if strict:
            for entry in entries:
                _check_whole(entry, inner)
        return {elements[0]: {}} if len(elements) == 1 else in_order({element: {} for element in elements})
    out: Node = {}
    element = ""
    try:
        for element, entry in zip(elements, entries, strict=True):
            if element in out:
                out[element] = {}
                continue
            below = _specified(entry, inner, strict=strict)
            out[element] = {".": {}, **below} if below else {}
    except _SchemaMismatch as mismatch:
        mismatch.steps.append(element)
        raise
    return in_order(out)


def _sorted_names(tree: dict[str, Tree]) -> list[str]:
    try:
        return sorted(tree)
    except TypeError:  # YAML allows keys that are not strings
        return sorted(tree, key=str)


def _strict_elements(entries: list[Tree], shape: Shape) -> list[str]:
    elements: list[str] = []
    try:
        for entry in entries:
            elements.append(item(entry, shape))  # noqa: PERF401 - their number is the index of the invalid one
    except BadPatch as error:
        mismatch = _SchemaMismatch(str(error))
        mismatch.steps.append(f"i:{len(elements)}")
        raise mismatch from None
    if len(elements) > 1 and len(set(elements)) < len(elements):
        twice = next(one for position, one in enumerate(elements) if one in elements[:position])
        raise _SchemaMismatch(f"the list contains {show((twice,))} twice: remove one")
    return elements


def _emptied(tree: Tree) -> Tree:
    return {} if isinstance(tree, dict) else [] if isinstance(tree, list) else None


def _extracted(tree: Tree, node: Node, shape: Shape) -> Tree:
    if isinstance(tree, dict):
        if shape.atomic:
            return tree
        return {
            name: _extracted(child, node[element], shape.member(name))
            for name, child in tree.items()
            if (element := f"f:{name}") in node
        }
    return _extracted_items(tree, node, shape) if isinstance(tree, list) and is_granular(shape) else tree


def _extracted_items(entries: list[Tree], node: Node, shape: Shape) -> list[Tree]:
    elements = list_elements(entries, shape)
    if elements is None:
        return entries
    out: list[Tree] = []
    for element, entry in zip(elements, entries, strict=True):
        below = node.get(element)
        if below is None:
            continue
        if not below or not isinstance(entry, dict):
            out.append(entry)
            continue
        keys: Node = {f"f:{name}": {} for name in shape.keys}
        out.append(_extracted(entry, {**keys, **below}, shape.item()))
    return out


def _removed(tree: Tree, node: Node, shape: Shape) -> Tree:
    if isinstance(tree, dict) and not shape.atomic:
        return _without_members(tree, node, shape)
    if isinstance(tree, list):
        elements = list_elements(tree, shape)
        return tree if elements is None else _without_items(tree, elements, node, shape)
    return tree


def _without_members(tree: dict[str, Tree], node: Node, shape: Shape) -> dict[str, Tree]:
    out = tree
    for element, below in node.items():
        name = element[2:]
        if name not in tree or element[:2] != "f:":
            continue
        member = not below or "." in below
        child = tree[name]
        remaining = child if member else _removed(child, below, shape.member(name))
        if member or remaining is not child:
            out = dict(tree) if out is tree else out
            if member:
                del out[name]
            else:
                out[name] = remaining
    return out


def _without_items(entries: list[Tree], elements: list[str], node: Node, shape: Shape) -> list[Tree]:
    out: list[Tree] = []
    changed = False
    for element, entry in zip(elements, entries, strict=True):
        below = node.get(element)
        if below is not None and (not below or "." in below):
            changed = True
            continue
        remaining = entry if below is None else _removed(entry, below, shape.item())
        changed = changed or remaining is not entry
        out.append(remaining)
    return out if changed else entries


class Changes(NamedTuple):
    """The fields that were added or changed, and the fields that were removed; no field is in both."""

    changed: FieldSet
    removed: FieldSet

    def __bool__(self) -> bool:
        return bool(self.changed.tree or self.removed.tree)

    def beyond(self, ignored: FieldSet) -> "Changes":
        """The changes that are not in or below the ignored fields."""
        if not ignored:
            return self
        return Changes(self.changed.recursive_difference(ignored), self.removed.recursive_difference(ignored))


def compare(old: Tree, new: Tree, shape: Shape) -> Changes:
    """The fields in which `new` differs from `old`; the order of keyed items and of sets does not matter."""
    if isinstance(old, dict) and isinstance(new, dict) and not shape.atomic:
        changed, removed = _compared_maps(old, new, shape)  # as `_compared`, which would compare them as a whole first
    else:
        changed, removed = _compared(old, new, shape)
    if changed and "." in changed:
        changed = _inner(changed)  # the object as a whole is not a field
    return Changes(FieldSet(changed), FieldSet(removed))


# A pair of nodes, for what changed and for what was removed; None where there is nothing.
_Pair = tuple[Node | None, Node | None]


def _compared(old: Tree, new: Tree, shape: Shape) -> _Pair:
    if isinstance(old, _CONTAINERS) and json_equal(old, new):
        return None, None
    # Null in place of a container with members counts as the empty container.
    before = _empty_like(new) if old is None and new else old
    after = _empty_like(old) if new is None and old else new
    if isinstance(before, dict) and isinstance(after, dict):
        if (before or after) and not shape.atomic:
            return _compared_maps(before, after, shape)
    elif isinstance(before, list) and isinstance(after, list) and (before or after):
        left = _grouped(before, shape)
        right = _grouped(after, shape)
        if left is not None and right is not None:
            return _compared_lists(left, right, shape.item())
    return _compared_whole(old, new, shape)


def _empty_like(tree: Tree) -> Tree:
    return {} if isinstance(tree, dict) else [] if isinstance(tree, list) else None


def _compared_whole(old: Tree, new: Tree, shape: Shape) -> _Pair:
    if json_equal(old, new):
        return None, None
    return all_fields(new, shape), _inner(all_fields(old, shape))


def _compared_maps(old: dict[str, Tree], new: dict[str, Tree], shape: Shape) -> _Pair:
    changed: Node = {}
    removed: Node = {}
    for name, after in new.items():
        if name not in old:
            changed[f"f:{name}"] = all_fields(after, shape.member(name))
            continue
        before = old[name]
        if before is after:
            continue
        if before.__class__ is str and after.__class__ is str:
            if before != after:
                changed[f"f:{name}"] = {}
            continue
        _put(f"f:{name}", _compared(before, after, shape.member(name)), changed, removed)
    for name, before in old.items():
        if name not in new:
            removed[f"f:{name}"] = all_fields(before, shape.member(name))
    return in_order(changed) or None, in_order(removed) or None


def _compared_lists(old: dict[str, list[Tree]], new: dict[str, list[Tree]], shape: Shape) -> _Pair:
    """Items by element; items with the same element are compared together as one value."""
    changed: Node = {}
    removed: Node = {}
    for element, after in new.items():
        before = old.get(element)
        if before is None:
            changed[element] = all_fields(after[0], shape) if len(after) == 1 else {}
        elif len(before) == 1 and len(after) == 1:
            _put(element, _compared(before[0], after[0], shape), changed, removed)
        elif len(after) == 1:
            changed[element] = all_fields(after[0], shape)
        elif len(before) == 1:
            _put(element, ({}, _inner(all_fields(before[0], shape))), changed, removed)
        elif not json_equal(before, after):
            changed[element] = {}
    for element, before in old.items():
        if element not in new:
            removed[element] = all_fields(before[0], shape) if len(before) == 1 else {}
    return in_order(changed) or None, in_order(removed) or None


def _grouped(entries: list[Tree], shape: Shape) -> dict[str, list[Tree]] | None:
    elements = list_elements(entries, shape)
    if elements is None:
        return None
    groups: dict[str, list[Tree]] = {}
    for element, entry in zip(elements, entries, strict=True):
        groups.setdefault(element, []).append(entry)
    return groups


def _put(element: str, pair: _Pair, changed: Node, removed: Node) -> None:
    if pair[0] is not None:
        changed[element] = pair[0]
    if pair[1] is not None:
        removed[element] = pair[1]


def _inner(node: Node) -> Node | None:
    """The children of a node without the node itself."""
    return {element: child for element, child in node.items() if element != "."} or None
