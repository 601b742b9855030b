"""Reads map and list members of a JSON object; an absent one, or one of another type, reads as empty."""

from typing import Any

from levelset.apiserver.resources.served_resource import Object
from levelset.objects.json_tree import is_list, is_map

__all__ = ["list_member", "map_member"]


def map_member(tree: Object | None, name: str) -> Object:
    """Returns the map under this name; a new empty one if there is none."""
    found: Any = None if tree is None else tree.get(name)
    return found if found.__class__ is dict or (found is not None and is_map(found)) else {}


def list_member(tree: Object | None, name: str) -> list[Any]:
    """Returns the list under this name; a new empty one if there is none."""
    found: Any = None if tree is None else tree.get(name)
    return found if found.__class__ is list or (found is not None and is_list(found)) else []
