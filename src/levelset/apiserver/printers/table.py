"""The tables that `kubectl get` prints: column definitions of a resource, and the cells of an object.

The columns of a custom resource are JSONPaths in its CRD; those of a built-in kind are filled by the functions in
`builtin_columns.py`. The name comes first; a custom resource without columns also has an age.
"""

from collections.abc import Callable
from datetime import datetime
from functools import lru_cache
from typing import Any

from levelset.apiserver.printers import cell_values
from levelset.apiserver.printers.builtin_columns import PRINTERS
from levelset.apiserver.printers.cell_values import text
from levelset.apiserver.resources.served_resource import Column, Object, ServedResource
from levelset.apiserver.wire.json_path import JsonPath, parse_path
from levelset.errors import BadPointer
from levelset.objects import encode_tree
from levelset.objects.json_tree import is_map

__all__ = ["cells", "columns_of", "definitions"]

Cell = Callable[[Object, datetime], Any]

_NAME = Column(
    "Name", format="name", description="The name of the object; unique among those of its kind and namespace."
)
_AGE = Column(
    "Age", type="date", description="How long ago the object was created.", path=".metadata.creationTimestamp"
)
_CREATED = Column("Created At", type="date", description="When the object was created.")
_PLAIN = (_NAME, _CREATED)
_SCALE = (
    _NAME,
    Column("Desired", type="integer", path=".spec.replicas", description="How many replicas are wanted."),
    Column("Available", type="integer", path=".status.replicas", description="How many replicas there are."),
    _AGE,
)


_BUILTIN_SCALE = (Column("Name"), Column("Desired", type="integer"), Column("Available", type="integer"), Column("Age"))


def definitions(served: ServedResource, kind: str | None = None) -> list[Object]:
    """The columnDefinitions of the table; `kind` is the object's, if it differs from the resource's, as for a Scale."""
    return [
        {
            "name": column.name,
            "type": column.type,
            "format": column.format,
            "description": column.description or f"The field {column.path or column.name} of the object.",
            "priority": column.priority,
        }
        for column in columns_of(served, kind)
    ]


def cells(served: ServedResource, tree: Object, now: datetime) -> list[Any]:
    """The cells of one row; null for a value that is missing or does not match its column's type."""
    return [fill(tree, now) for fill in _fillers(served, _own_kind(served, tree.get("kind")))]


def columns_of(served: ServedResource, kind: str | None = None) -> tuple[Column, ...]:
    """The columns of a resource, the name included."""
    if _own_kind(served, kind) is not None:
        return (_SCALE if served.custom else _BUILTIN_SCALE) if kind == "Scale" else _PLAIN
    columns = served.columns
    if not served.custom:
        return columns or _PLAIN
    has_name = bool(columns) and columns[0].format == "name" and columns[0].path is None
    return columns if has_name else (_NAME, *(columns or (_AGE,)))


def _own_kind(served: ServedResource, kind: str | None) -> str | None:
    """The kind if it is not the resource's own."""
    return None if kind is None or kind == served.kind else kind


@lru_cache(maxsize=1024)
def _fillers(served: ServedResource, kind: str | None) -> tuple[Cell, ...]:
    printers = PRINTERS.get((served.group, served.plural), {}) if kind is None else {}
    return tuple(printers.get(column.name) or _filler(column) for column in columns_of(served, kind))


def _filler(column: Column) -> Cell:
    if column.path is not None:
        return _path_filler(column.path, column.type)
    return _COMMON.get(column.name, _nothing)


def _path_filler(source: str, kind: str) -> Cell:
    try:
        path = parse_path(source)
    except BadPointer:
        return _nothing
    return lambda tree, now: _show(kind, path, tree, now)


def _show(kind: str, path: JsonPath, tree: Object, now: datetime) -> Any:
    value = path.first(tree)
    if value is None:
        return None
    if kind == "string":
        return _as_text(value)
    if kind == "date":
        return cell_values.age(value, now) if isinstance(value, str) else "<invalid>"
    convert = _TYPED.get(kind)
    return None if convert is None else convert(value)


def _as_text(value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return encode_tree(value).decode()


def _as_integer(value: Any) -> int | None:
    return int(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def _as_number(value: Any) -> float | None:
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None


def _as_boolean(value: Any) -> bool | None:
    return value if isinstance(value, bool) else None


def _nothing(_: Object, __: datetime) -> None:
    return None


def _replicas(scale: Object, part: str) -> int:
    found = scale.get(part)
    return found.get("replicas") or 0 if is_map(found) else 0


_TYPED: dict[str, Callable[[Any], Any]] = {"integer": _as_integer, "number": _as_number, "boolean": _as_boolean}
_COMMON: dict[str, Cell] = {
    "Name": lambda tree, _: text(tree, "metadata", "name"),
    "Age": lambda tree, now: cell_values.age(text(tree, "metadata", "creationTimestamp"), now),
    "Desired": lambda tree, _: _replicas(tree, "spec"),
    "Available": lambda tree, _: _replicas(tree, "status"),
    "Created At": lambda tree, _: text(tree, "metadata", "creationTimestamp") or None,
}
