"""What changed between two versions of an object, as sets of fields: what is new or different, and what is gone."""

from typing import Final, NamedTuple

from levelset.objects.trees import Tree
from levelset.patch.alike import alike
from levelset.patch.elements import list_elements
from levelset.patch.fieldset import FieldSet, Node, in_order
from levelset.patch.shapes import Shape
from levelset.patch.specified import every_field

__all__ = ["Changes", "compare"]


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
_CONTAINERS: Final = (dict, list)

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
