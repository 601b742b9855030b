"""Field errors with the messages of Kubernetes: one `Cause` for each error.

`field` and `reason` are for programs, `message` is for people: `Invalid value: "x": spec.n in body must be of type
integer: "string"`.
"""

import json
from collections.abc import Iterable
from decimal import Decimal
from typing import Final

from levelset.apiserver.schema.schema_nodes import Tree
from levelset.errors import Cause

__all__ = [
    "duplicate",
    "forbidden",
    "invalid",
    "invalid_without_value",
    "join_causes",
    "kind_of",
    "not_found",
    "not_supported",
    "required",
    "show",
    "too_deep",
    "too_long",
    "too_many",
    "type_invalid",
    "undecodable",
]

LONGEST = 300


UNDECODABLE: Final = "Undecodable"
"""The reason of a cause that upstream finds while it decodes an object: it answers 400, and not 422."""


def show(value: Tree) -> str:
    """The value as JSON, shortened for a message."""
    if isinstance(value, float):
        return _in_go(value)
    try:
        text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    except (RecursionError, TypeError, ValueError):
        return f"<{kind_of(value)}>"
    return text if len(text) <= LONGEST else text[:LONGEST] + "..."


_EXPONENT: Final = 6  # from which on a number is written with an exponent


def _in_go(number: float) -> str:
    """A number with a fraction or an exponent, as Go's %v writes it."""
    text = repr(number)
    digits, _, exponent = f"{Decimal(text).normalize():E}".partition("E")
    if exponent and not -5 < int(exponent) < _EXPONENT:
        return f"{digits}e{exponent[0]}{exponent[1:]:0>2}"
    return text.removesuffix(".0") if "e" not in text else f"{Decimal(text):f}"


def kind_of(value: Tree) -> str:
    """The JSON type of a value."""
    match value:
        case None:
            return "null"
        case bool():
            return "boolean"
        case str():
            return "string"
        case int():
            return "integer"
        case float():
            return "number"
        case list():
            return "array"
        case _:
            return "object"


def undecodable(field: str, value: Tree, detail: str) -> Cause:
    """As `invalid`, for what is found while an object is decoded."""
    return Cause(field, UNDECODABLE, invalid(field, value, detail).message)


def invalid(field: str, value: Tree, detail: str) -> Cause:
    """A value that breaks a rule."""
    message = f"Invalid value: {show(value)}"
    return Cause(field, "FieldValueInvalid", f"{message}: {detail}" if detail else message)


def invalid_without_value(field: str, detail: str) -> Cause:
    """A value that breaks a rule, and is not shown."""
    return Cause(field, "FieldValueInvalid", f"Invalid value: {detail}")


def type_invalid(field: str, value: Tree, detail: str) -> Cause:
    """A value of the wrong type or format."""
    return Cause(field, "FieldValueTypeInvalid", f"Invalid value: {show(value)}: {detail}")


def required(field: str, detail: str = "") -> Cause:
    """A missing required value."""
    return Cause(field, "FieldValueRequired", f"Required value: {detail}" if detail else "Required value")


def forbidden(field: str, detail: str) -> Cause:
    """A value that is not allowed."""
    return Cause(field, "FieldValueForbidden", f"Forbidden: {detail}")


def not_supported(field: str, value: Tree, supported: Iterable[Tree]) -> Cause:
    """A value that is not one of the supported ones."""
    listed = ", ".join(show(one) for one in supported)
    return Cause(field, "FieldValueNotSupported", f"Unsupported value: {show(value)}: supported values: {listed}")


def not_found(field: str, value: Tree) -> Cause:
    """A reference to something that is not there."""
    return Cause(field, "FieldValueNotFound", f"Not found: {show(value)}")


def too_long(field: str, limit: int) -> Cause:
    """A string with too many characters."""
    return Cause(field, "FieldValueTooLong", f"Too long: may not be more than {limit} bytes")


def too_many(field: str, actual: int, limit: int) -> Cause:
    """A list or a map with too many items."""
    items = "item" if limit == 1 else "items"
    return Cause(field, "FieldValueTooMany", f"Too many: {actual}: must have at most {limit} {items}")


def duplicate(field: str, value: Tree) -> Cause:
    """A duplicate item."""
    return Cause(field, "FieldValueDuplicate", f"Duplicate value: {show(value)}")


def too_deep(field: str, limit: int) -> Cause:
    """A tree that is nested more deeply than the limit."""
    return Cause(field, "FieldValueInvalid", f"Invalid value: must not be nested more than {limit} levels deep")


def join_causes(causes: Iterable[Cause]) -> str:
    """All causes in one sentence."""
    # What is reported several times is said once, as upstream.
    messages = list(dict.fromkeys(f"{one.field}: {one.message}" if one.field else one.message for one in causes))
    return messages[0] if len(messages) == 1 else f"[{', '.join(messages)}]"
