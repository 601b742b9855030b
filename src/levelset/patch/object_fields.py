"""Between trees and field sets: which fields an object specifies, and an object with only, or without, given fields.

What changed between two versions of an object, as sets of fields: what is new or different, and what is gone.
"""

from typing import Final, NamedTuple

from levelset.errors import BadPatch
from levelset.objects.json_tree import Tree
from levelset.patch.field_paths import field, is_granular, item, list_elements, show
from levelset.patch.field_sets import FieldSet, Node, in_order
from levelset.patch.json_patch import alike
from levelset.patch.merge_schema import ANYTHING, Shape

__all__ = ["Changes", "compare", "every_field", "extract_fields", "fields_of", "remove_fields"]


def fields_of(tree: Tree, shape: Shape, *, strict: bool = False) -> FieldSet:
    """The fields that an object specifies, as whoever applies it will own them.

    Maps and keyed lists are owned by their members, whatever is atomic as a whole. A field that the shape knows by
    name is owned itself only if it is empty; a member of a free map and an item of a list always is.
    With `strict`, a list item without its key, two items with the same key and map keys that are no texts raise
    BadPatch naming the field; without it such a list counts as one value and the second item as the first.
    """
    try:
        if isinstance(tree, dict) and not shape.atomic:  # as `_specified`, without the call
            return FieldSet(_specified_members(tree, shape, strict=strict))
        return FieldSet(_specified(tree, shape, strict=strict))
    except _Misfit as misfit:
        where = show(tuple(reversed(misfit.steps)))
        raise BadPatch(f"{where or 'the object'}: {misfit}", field=where) from None
    except RecursionError:
        raise BadPatch("the object is nested too deeply to be tracked") from None


def every_field(tree: Tree, shape: Shape) -> Node:
    """The node of a set that holds this value and everything below it, as whoever creates it owns it."""
    if isinstance(tree, dict) and tree and not shape.atomic:
        out: Node = {".": {}}
        for name in _sorted_names(tree):
            child = tree[name]
            out[f"f:{name}"] = every_field(child, shape.member(name)) if isinstance(child, _CONTAINERS) else {}
        return out
    if isinstance(tree, list) and tree:
        elements = list_elements(tree, shape)
        if elements is not None:
            out = {".": {}}
            for element, entry in zip(elements, tree, strict=True):
                out[element] = {} if element in out else every_field(entry, shape.item())
            return in_order(out)
    return {}


def extract_fields(tree: Tree, fields: FieldSet, shape: Shape) -> Tree:
    """The object with only the given fields, and with the keys of the list items on the way to them."""
    return _extracted(tree, fields.tree, shape) if fields else _emptied(tree)


def remove_fields(tree: Tree, fields: FieldSet, shape: Shape) -> Tree:
    """The object without the given fields and all that is below them; what did not change is shared.

    A map or a list that loses its last member stays, empty, unless it is given itself.
    """
    return _removed(tree, fields.tree, shape) if fields else tree


# `isinstance` takes a tuple twice as fast as a union, and this is where the time goes.
_CONTAINERS: Final = (dict, list)


class _Misfit(Exception):
    """A part of a tree that has no place in its shape; `steps` lead to it, innermost first."""

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
            if below is None or child == {}:
                out[element] = {}
            elif known is None and not knows_all:  # as `is_named` says it, which is asked for every field here
                out[element] = {".": {}, **below} if below else {}
            elif below:
                out[element] = below
    except _Misfit as misfit:
        misfit.steps.append(field(name))
        raise
    return out


def _check_name(name: object) -> None:
    if not isinstance(name, str):
        raise _Misfit("the key must be a text: quote it")


def _specified_items(entries: list[Tree], shape: Shape, *, strict: bool) -> Node | None:
    elements = _strict_elements(entries, shape) if strict else list_elements(entries, shape)
    if elements is None:
        return None
    inner = shape.items or ANYTHING  # as `shape.item`, without the call
    if inner.atomic and not is_granular(inner):  # nothing inside is owned for itself
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
    except _Misfit as misfit:
        misfit.steps.append(element)
        raise
    return in_order(out)


def _sorted_names(tree: dict[str, Tree]) -> list[str]:
    try:
        return sorted(tree)
    except TypeError:  # YAML has keys that JSON has not
        return sorted(tree, key=str)


def _strict_elements(entries: list[Tree], shape: Shape) -> list[str]:
    elements: list[str] = []
    try:
        for entry in entries:
            elements.append(item(entry, shape))  # noqa: PERF401 - their number tells which one is wrong
    except BadPatch as error:
        misfit = _Misfit(str(error))
        misfit.steps.append(f"i:{len(elements)}")
        raise misfit from None
    if len(elements) > 1 and len(set(elements)) < len(elements):
        twice = next(one for position, one in enumerate(elements) if one in elements[:position])
        raise _Misfit(f"the list holds {show((twice,))} twice: leave one out")
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
        kept = child if member else _removed(child, below, shape.member(name))
        if member or kept is not child:
            out = dict(tree) if out is tree else out
            if member:
                del out[name]
            else:
                out[name] = kept
    return out


def _without_items(entries: list[Tree], elements: list[str], node: Node, shape: Shape) -> list[Tree]:
    out: list[Tree] = []
    changed = False
    for element, entry in zip(elements, entries, strict=True):
        below = node.get(element)
        if below is not None and (not below or "." in below):
            changed = True
            continue
        kept = entry if below is None else _removed(entry, below, shape.item())
        changed = changed or kept is not entry
        out.append(kept)
    return out if changed else entries


class Changes(NamedTuple):
    """The fields that are new or different, and the fields that are gone; no field is in both."""

    changed: FieldSet
    removed: FieldSet

    def beyond(self, ignored: FieldSet) -> "Changes":
        """The changes that are not in or below the ignored fields."""
        if not ignored:
            return self
        return Changes(self.changed.recursive_difference(ignored), self.removed.recursive_difference(ignored))


def compare(old: Tree, new: Tree, shape: Shape) -> Changes:
    """The fields in which `new` differs from `old`; the order of keyed items and of sets is no difference."""
    changed, removed = _compared(old, new, shape)
    # The object as a whole is no field.
    return Changes(FieldSet(_inner(changed or {})), FieldSet(removed))


# `isinstance` takes a tuple twice as fast as a union, and this is where the time goes.


# A pair of nodes, for what changed and for what was removed; None where there is nothing.
_Pair = tuple[Node | None, Node | None]


def _compared(old: Tree, new: Tree, shape: Shape) -> _Pair:
    if isinstance(old, _CONTAINERS) and alike(old, new):
        return None, None
    # Null in the place of a container that has members is as good as the empty container.
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
    if alike(old, new):
        return None, None
    return every_field(new, shape), _inner(every_field(old, shape))


def _compared_maps(old: dict[str, Tree], new: dict[str, Tree], shape: Shape) -> _Pair:
    changed: Node = {}
    removed: Node = {}
    for name, after in new.items():
        if name not in old:
            changed[f"f:{name}"] = every_field(after, shape.member(name))
            continue
        before = old[name]
        if before is after or (before.__class__ is str and before == after):
            continue
        _put(f"f:{name}", _compared(before, after, shape.member(name)), changed, removed)
    for name, before in old.items():
        if name not in new:
            removed[f"f:{name}"] = every_field(before, shape.member(name))
    return in_order(changed) or None, in_order(removed) or None


def _compared_lists(old: dict[str, list[Tree]], new: dict[str, list[Tree]], shape: Shape) -> _Pair:
    """Items by element; items that share one element cannot be told apart and count as one value together."""
    changed: Node = {}
    removed: Node = {}
    for element, after in new.items():
        before = old.get(element)
        if before is None:
            changed[element] = every_field(after[0], shape) if len(after) == 1 else {}
        elif len(before) == 1 and len(after) == 1:
            _put(element, _compared(before[0], after[0], shape), changed, removed)
        elif len(after) == 1:
            changed[element] = every_field(after[0], shape)
        elif len(before) == 1:
            _put(element, ({}, _inner(every_field(before[0], shape))), changed, removed)
        elif not alike(before, after):
            changed[element] = {}
    for element, before in old.items():
        if element not in new:
            removed[element] = every_field(before[0], shape) if len(before) == 1 else {}
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
