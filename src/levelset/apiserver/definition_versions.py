"""What must hold of one version of a definition: its schema, its columns, its subresources and selectable fields."""

from collections.abc import Iterator
from typing import Any

from levelset.apiserver.expression_rules import check_expressions
from levelset.apiserver.jsonpath import parse_path
from levelset.apiserver.members import items, part
from levelset.apiserver.name_checks import check_dns1035_label
from levelset.apiserver.schemas import check_structural, wording
from levelset.apiserver.served import Object
from levelset.errors import BadPointer, Cause

__all__ = ["check_version"]

COLUMN_TYPES = ("boolean", "date", "integer", "number", "string")
COLUMN_FORMATS = (
    *("int32", "int64", "float", "double", "byte", "date", "date-time", "password", "bsonobjectid", "uri", "email"),
    *("hostname", "ipv4", "ipv6", "cidr", "mac", "uuid", "uuid3", "uuid4", "uuid5", "isbn", "isbn10", "isbn13"),
    *("creditcard", "ssn", "hexcolor", "rgbcolor", "duration", "datetime"),
)
MOST_SELECTABLE = 8
LONGEST_WARNING = 256


def check_version(version: Object, path: str) -> list[Cause]:
    """Everything that is wrong with a version of a definition."""
    name = version.get("name") or ""
    causes: list[Cause] = []
    if check_dns1035_label(name):
        causes.append(wording.invalid(f"{path}.name", name, "; ".join(check_dns1035_label(name))))
    causes += _check_warning(version, path)
    schema = part(version, "schema").get("openAPIV3Schema")
    if schema is None:
        causes.append(wording.required(f"{path}.schema.openAPIV3Schema", "schemas are required"))
    else:
        status = part(version, "subresources").get("status") is not None
        wrong = check_structural(schema, f"{path}.schema.openAPIV3Schema", status=status)
        causes += wrong or check_expressions(schema, f"{path}.schema.openAPIV3Schema")
    causes += _check_scale(part(version, "subresources").get("scale"), f"{path}.subresources.scale")
    for index, column in enumerate(items(version, "additionalPrinterColumns")):
        causes += _check_column(column, f"{path}.additionalPrinterColumns[{index}]")
    causes += _check_selectable(items(version, "selectableFields"), schema, f"{path}.selectableFields")
    return causes


def _check_warning(version: Object, path: str) -> Iterator[Cause]:
    warning = version.get("deprecationWarning")
    if warning is None:
        return
    field = f"{path}.deprecationWarning"
    if not version.get("deprecated"):
        yield wording.invalid(field, warning, "can only be set for deprecated versions")
    if not warning or len(warning) > LONGEST_WARNING or not warning.isprintable():
        yield wording.invalid(field, warning, f"must be 1 to {LONGEST_WARNING} printable characters")


def _check_scale(scale: Any, path: str) -> Iterator[Cause]:
    if scale is None:
        return
    fields = (
        ("specReplicasPath", (".spec.",), True),
        ("statusReplicasPath", (".status.",), True),
        ("labelSelectorPath", (".spec.", ".status."), False),
    )
    for field, roots, needed in fields:
        value = scale.get(field) or ""
        if not value:
            if needed:
                yield wording.required(f"{path}.{field}")
        elif not value.startswith(roots) or _plain_names(value) is None:
            detail = f"should be a JSONPath of member names under {' or '.join(roots)}"
            yield wording.invalid(f"{path}.{field}", value, detail)


def _check_column(column: Object, path: str) -> Iterator[Cause]:
    for field in ("name", "type", "jsonPath"):
        if not column.get(field):
            yield wording.required(f"{path}.{field}")
    kind, shape, way = column.get("type"), column.get("format"), column.get("jsonPath")
    if kind and kind not in COLUMN_TYPES:
        yield wording.invalid(f"{path}.type", kind, f"must be one of {', '.join(COLUMN_TYPES)}")
    if shape and shape not in COLUMN_FORMATS:
        yield wording.invalid(f"{path}.format", shape, f"must be one of {', '.join(COLUMN_FORMATS)}")
    if way and not _is_path(way):
        yield wording.invalid(f"{path}.jsonPath", way, "must be a JSONPath that begins with a dot")


def _is_path(text: str) -> bool:
    try:
        parse_path(text)
    except BadPointer:
        return False
    return text.startswith((".", "[", "{"))


def _check_selectable(fields: list[Any], schema: Any, path: str) -> Iterator[Cause]:
    if len(fields) > MOST_SELECTABLE:
        yield wording.too_many(path, len(fields), MOST_SELECTABLE)
    seen: set[str] = set()
    for index, field in enumerate(fields):
        text = field.get("jsonPath") or ""
        at = f"{path}[{index}].jsonPath"
        if not text:
            yield wording.required(at)
            continue
        if text in seen:
            yield wording.duplicate(at, text)
        seen.add(text)
        problem = _selectable_problem(text, schema)
        if problem:
            yield wording.invalid(at, text, problem)


def _selectable_problem(text: str, schema: Any) -> str:
    """Why this path cannot be selected by; empty if it can."""
    names = _plain_names(text)
    if names is None or not text.startswith("."):
        return "must be a simple path such as .spec.color"
    if names[0] == "metadata":
        return "must not point to fields in metadata"
    node: Any = schema
    for name in names:
        properties = node.get("properties") if isinstance(node, dict) else None  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType] - a JSON tree
        node = properties.get(name) if isinstance(properties, dict) else None  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType] - a JSON tree
        if node is None:
            return "must point to a field that the schema specifies"
    if not isinstance(node, dict) or node.get("type") not in ("string", "boolean", "integer"):  # pyright: ignore[reportUnknownMemberType] - a JSON tree
        return "must point to a field of type string, boolean or integer"
    return ""


def _plain_names(text: str) -> tuple[str, ...] | None:
    """The member names of a path that has nothing else in it, or None."""
    try:
        return parse_path(text).names or None
    except BadPointer:
        return None
