"""Who owns the fields of an object that is written by other means than apply, quickly for new objects.

Kubernetes notes in `metadata.managedFields` who wrote what. For a new object that is every field there is, so the
answer depends only on its outline: which members there are and how they nest. Objects that come in numbers look alike,
and the answer for an outline is worked out once.
"""

from collections.abc import Iterator
from functools import lru_cache
from itertools import islice
from typing import Any, Final, cast

from levelset.apiserver.served import Served
from levelset.apiserver.world import Tree
from levelset.objects.trees import is_list, is_map
from levelset.patch.elements import list_elements
from levelset.patch.fieldset import FieldSet, Node, in_order
from levelset.patch.fieldsv1 import print_fields
from levelset.patch.managers import NEVER_TRACKED
from levelset.patch.shapes import ANYTHING, Shape

__all__ = ["own_new"]

# All is in one tuple, which is quick to make and to look up. A map is the number of its names, the names, the name and
# the outline of each member that is a container, and None as its end; one without such members is a tuple of its names
# further down. A list with keyed items is a tuple of its elements and of their outlines, None for each that is no
# container.
_Outline = tuple[Any, ...]
_CONTAINERS: Final = frozenset({dict, list})


def own_new(served: Served, tree: Tree, *, manager: str, now: str) -> None:
    """Notes in a new object that `manager` owns all of it; objects that bring their own managedFields are not for here.

    The tree in `fieldsV1` is shared between objects: nobody may change it.
    """
    outline: list[Any] = []
    _add_map(outline, tree, served.shape())
    fields = _owned(tuple(outline))
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


def _add_map(outline: list[Any], tree: dict[str, Any], shape: Shape) -> None:
    outline.append(len(tree))
    outline += tree
    for name, value in tree.items():
        # By class: `isinstance` would cost more than all the rest, and JSON has no subclasses.
        kind = value.__class__
        if kind is str or kind not in _CONTAINERS or not value:
            continue
        below = shape.fields.get(name) or shape.items or ANYTHING  # as `shape.member`, without the call
        if kind is list:
            found = None if below.list_type == "atomic" else _list_outline(value, below)
            if found is not None:
                outline += (name, found)
        elif below.atomic:
            continue
        elif _CONTAINERS.isdisjoint(map(type, value.values())):
            outline.append(name)
            outline.append(tuple(value))
        else:
            outline.append(name)
            _add_map(outline, value, below)
    outline.append(None)


def _list_outline(items: list[Any], shape: Shape) -> _Outline | None:
    elements = list_elements(items, shape)
    if elements is None:
        return None
    below = shape.item()
    return tuple(elements), tuple([_item_outline(one, below) for one in items])


def _item_outline(item: Any, shape: Shape) -> _Outline | None:
    if not item or shape.atomic:
        return None
    if is_map(item):
        outline: list[Any] = []
        _add_map(outline, item, shape)
        return tuple(outline)
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
    first = outline[0]
    if isinstance(first, int):
        parts = iter(outline)
        return _map_node(next(parts), parts)
    if isinstance(first, str):
        return _map_node(len(outline), iter(outline))
    node: Node = {".": {}}
    for element, below in zip(*outline, strict=True):
        node[element] = {} if element in node or below is None else _node(below)
    return in_order(node)


def _map_node(size: int, parts: Iterator[Any]) -> Node:
    """The node of the map that comes next in an outline and has so many names; takes its parts out."""
    node: Node = {".": {}, **{f"f:{name}": {} for name in sorted(islice(parts, size))}}
    for name in parts:
        if name is None:
            break
        begin = next(parts)
        node[f"f:{name}"] = _map_node(begin, parts) if isinstance(begin, int) else _node(begin)
    return node
