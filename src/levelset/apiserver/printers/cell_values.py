"""Reads fields of unvalidated objects for table cells: every helper returns a default for a missing or mistyped field.

Also formats ages and durations as kubectl prints them: 37s, 5m12s, 4h, 3d.
"""

from collections.abc import Iterable
from datetime import datetime
from operator import itemgetter
from typing import Any, cast

from levelset.errors import BadTime
from levelset.objects import parse_time
from levelset.objects.json_tree import is_list, is_map

__all__ = [
    "age",
    "at",
    "containers",
    "count",
    "human_duration",
    "images",
    "joined",
    "labels",
    "listed",
    "number",
    "selector",
    "text",
]

_OPERATORS = {"In": "in", "NotIn": "notin"}


def at(tree: Any, *path: str) -> Any:
    """The value at a path of member names; None if there is none."""
    for name in path:
        if not is_map(tree):
            return None
        tree = tree.get(name)
    return tree


def text(tree: Any, *path: str) -> str:
    """The string at a path; empty if there is none."""
    found = at(tree, *path)
    return found if isinstance(found, str) else ""


def number(tree: Any, *path: str) -> int:
    """The integer at a path; 0 if there is none."""
    found = at(tree, *path)
    return found if isinstance(found, int) else 0


def listed(tree: Any, *path: str) -> list[Any]:
    """The list at a path; empty if there is none."""
    found = at(tree, *path)
    return found if is_list(found) else []


def count(tree: Any, *path: str) -> int:
    """The number of members or elements at a path."""
    found = at(tree, *path)
    return len(found) if is_map(found) or is_list(found) else 0


def joined(parts: Iterable[str], separator: str = ",") -> str:
    """The parts joined to one string."""
    return separator.join(parts)


def labels(tree: Any) -> str:
    """A map of labels as `a=1,b=2`; `<none>` if there are none."""
    if not is_map(tree) or not tree:
        return "<none>"
    return joined(sorted([f"{name}={value}" for name, value in tree.items()]))  # as texts: "a.b=" is before "a="


def selector(tree: Any) -> str:
    """A label selector as kubectl writes it; `<none>` if it selects everything."""
    wanted = cast("dict[str, Any]", at(tree, "matchLabels") or {})
    parts = [(name, f"{name}={value}") for name, value in wanted.items()] if is_map(wanted) else []
    for one in listed(tree, "matchExpressions"):
        key, operator, values = text(one, "key"), text(one, "operator"), listed(one, "values")
        if operator in _OPERATORS:
            parts.append((key, f"{key} {_OPERATORS[operator]} ({joined(sorted(map(str, values)))})"))
        else:
            parts.append((key, key if operator == "Exists" else f"!{key}"))
    parts.sort(key=itemgetter(0))
    return joined(part for _, part in parts) or "<none>"


def containers(spec: Any) -> str:
    """The names of the containers of a pod's spec."""
    return joined(text(one, "name") for one in listed(spec, "containers"))


def images(spec: Any) -> str:
    """The images of the containers of a pod's spec."""
    return joined(text(one, "image") for one in listed(spec, "containers"))


_MINUTE, _HOUR, _DAY, _YEAR = 60, 3600, 86400, 365 * 86400


def age(text: object, now: datetime) -> str:
    """The time since an RFC 3339 time: `<unknown>` if it is empty, `<invalid>` if it cannot be parsed."""
    if text is None or text == "":
        return "<unknown>"
    try:
        then = parse_time(text) if isinstance(text, str) else None
    except BadTime:
        then = None
    return "<invalid>" if then is None else human_duration((now - then).total_seconds())


def human_duration(seconds: float) -> str:
    """A duration as kubectl prints it; `<invalid>` for a negative one."""
    whole = int(seconds)
    if whole < 0:
        return (
            "0s" if whole == -1 else "<invalid>"
        )  # tolerates a clock difference of up to two seconds, as kubectl does
    if whole < 2 * _MINUTE:
        return f"{whole}s"
    for end, size, unit, part, part_unit in _STEPS:
        if whole < end:
            return _two(whole, size, unit, part, part_unit)
    return f"{whole // _YEAR}y"


_STEPS = (
    (10 * _MINUTE, _MINUTE, "m", 1, "s"),
    (3 * _HOUR, _MINUTE, "m", 0, ""),
    (8 * _HOUR, _HOUR, "h", _MINUTE, "m"),
    (2 * _DAY, _HOUR, "h", 0, ""),
    (8 * _DAY, _DAY, "d", _HOUR, "h"),
    (2 * _YEAR, _DAY, "d", 0, ""),
    (8 * _YEAR, _YEAR, "y", _DAY, "d"),
)


def _two(whole: int, size: int, unit: str, part: int, part_unit: str) -> str:
    count, rest = divmod(whole, size)
    smaller = rest // part if part else 0
    return f"{count}{unit}{smaller}{part_unit}" if smaller else f"{count}{unit}"
