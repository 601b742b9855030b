"""Who owns the fields of an object that is written by other means than apply, quickly for new objects.

Kubernetes notes in `metadata.managedFields` who wrote what. For a new object that is every field there is, so the
answer depends only on its outline: which members there are and how they nest. Objects that come in numbers look alike,
and the answer for an outline is worked out once.
"""

from functools import lru_cache
from typing import Any, cast

from levelset.apiserver.served import Served
from levelset.apiserver.world import Tree
from levelset.objects.trees import is_list, is_map
from levelset.patch.elements import list_elements
from levelset.patch.fieldset import FieldSet, Node, in_order
from levelset.patch.fieldsv1 import print_fields
from levelset.patch.managers import NEVER_TRACKED
from levelset.patch.shapes import Shape

__all__ = ["own_new"]

# A map is its names and, for each member that is a container, its name and outline; a list with keyed items is their
# elements and outlines; anything else is None.
_Outline = tuple[Any, ...]


def own_new(served: Served, tree: Tree, *, manager: str, now: str) -> None:
    """Notes in a new object that `manager` owns all of it; objects that bring their own managedFields are not for here.

    The tree in `fieldsV1` is shared between objects: nobody may change it.
    """
    fields = _owned(_map_outline(tree, served.shape()))
    if not fields:
        return
    entry: Tree = {
        "manager": manager,
        "operation": "Update",
        "apiVersion": served.api_version,
        "time": now,
        "fieldsType": "FieldsV1",
        "fieldsV1": fields,
    }
    tree["metadata"]["managedFields"] = [entry]


def _map_outline(tree: dict[str, Any], shape: Shape) -> _Outline:
    inner: list[tuple[str, _Outline]] = []
    for name, value in tree.items():
        # By class: `isinstance` would cost more than all the rest, and JSON has no subclasses.
        if value.__class__ is dict:
            if value:
                below = shape.member(name)
                if not below.atomic:
                    inner.append((name, _map_outline(value, below)))
        elif value.__class__ is list and value:
            below = shape.member(name)
            if below.list_type != "atomic":
                outline = _list_outline(value, below)
                if outline is not None:
                    inner.append((name, outline))
    return tuple(tree), tuple(inner)


def _list_outline(items: list[Any], shape: Shape) -> _Outline | None:
    elements = list_elements(items, shape)
    if elements is None:
        return None
    below = shape.item()
    found = [_item_outline(one, below) for one in items]
    return ("", tuple(elements), tuple(found))


def _item_outline(item: Any, shape: Shape) -> _Outline | None:
    if not item or shape.atomic:
        return None
    if is_map(item):
        return _map_outline(item, shape)
    if is_list(item) and shape.list_type != "atomic":
        return _list_outline(item, shape)
    return None


@lru_cache(maxsize=4096)
def _owned(outline: _Outline) -> dict[str, Any] | None:
    node = _node(outline)
    del node["."]
    fields = FieldSet(node) - NEVER_TRACKED
    return cast("dict[str, Any]", print_fields(fields)) if fields else None


def _node(outline: _Outline) -> Node:
    """The node of a field set that holds everything an outline shows."""
    node: Node = {".": {}}
    if outline[0] == "":
        for element, below in zip(outline[1], outline[2], strict=True):
            node[element] = {} if element in node or below is None else _node(below)
        return in_order(node)
    names, inner = outline
    below = dict(inner)
    for name in sorted(names):
        node[f"f:{name}"] = _node(below[name]) if name in below else {}
    return node
