"""Members of a JSON object that may be missing: an absent map reads as an empty one, an absent list likewise."""

from typing import Any

from levelset.apiserver.resources.served_resource import Object
from levelset.objects.json_tree import is_list, is_map

__all__ = ["items", "part"]


def part(tree: Object | None, name: str) -> Object:
    """The map under this name; an empty one, which belongs to nobody, if there is none."""
    found: Any = None if tree is None else tree.get(name)
    return found if found.__class__ is dict or is_map(found) else {}


def items(tree: Object | None, name: str) -> list[Any]:
    """The list under this name; an empty one, which belongs to nobody, if there is none."""
    found: Any = None if tree is None else tree.get(name)
    return found if found.__class__ is list or is_list(found) else []
