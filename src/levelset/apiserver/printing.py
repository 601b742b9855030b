"""Looks into objects of which nothing is certain: every helper answers, whatever the tree is."""

from collections.abc import Iterable
from typing import Any, cast

from levelset.objects.trees import is_list, is_map

__all__ = ["at", "containers", "count", "images", "joined", "labels", "listed", "number", "selector", "text"]

_OPERATORS = {"In": "in", "NotIn": "notin"}


def at(tree: Any, *path: str) -> Any:
    """What is found under a path of member names; None if it leads nowhere."""
    for name in path:
        if not is_map(tree):
            return None
        tree = tree.get(name)
    return tree


def text(tree: Any, *path: str) -> str:
    """The text under a path; empty if there is none."""
    found = at(tree, *path)
    return found if isinstance(found, str) else ""


def number(tree: Any, *path: str) -> int:
    """The integer under a path; 0 if there is none."""
    found = at(tree, *path)
    return found if isinstance(found, int) else 0


def listed(tree: Any, *path: str) -> list[Any]:
    """The list under a path; empty if there is none."""
    found = at(tree, *path)
    return found if is_list(found) else []


def count(tree: Any, *path: str) -> int:
    """How many members or elements there are under a path."""
    found = at(tree, *path)
    return len(found) if is_map(found) or is_list(found) else 0


def joined(parts: Iterable[str], separator: str = ",") -> str:
    """The parts as one text."""
    return separator.join(parts)


def labels(tree: Any) -> str:
    """A map of labels as `a=1,b=2`; `<none>` if there are none."""
    if not is_map(tree) or not tree:
        return "<none>"
    return joined(f"{name}={value}" for name, value in sorted(tree.items()))


def selector(tree: Any) -> str:
    """A label selector as kubectl writes it; `<none>` if it selects everything."""
    wanted = cast("dict[str, Any]", at(tree, "matchLabels") or {})
    parts = [f"{name}={value}" for name, value in sorted(wanted.items())] if is_map(wanted) else []
    for one in listed(tree, "matchExpressions"):
        key, operator, values = text(one, "key"), text(one, "operator"), listed(one, "values")
        if operator in _OPERATORS:
            parts.append(f"{key} {_OPERATORS[operator]} ({joined(sorted(map(str, values)))})")
        else:
            parts.append(key if operator == "Exists" else f"!{key}")
    return joined(parts) or "<none>"


def containers(spec: Any) -> str:
    """The names of the containers of a pod's spec."""
    return joined(text(one, "name") for one in listed(spec, "containers"))


def images(spec: Any) -> str:
    """The images of the containers of a pod's spec."""
    return joined(text(one, "image") for one in listed(spec, "containers"))
