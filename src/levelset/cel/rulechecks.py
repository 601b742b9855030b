"""What must hold of a rule before its expressions are looked at."""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from levelset.cel.rulenodes import Finding
from levelset.cel.rulepaths import field_path
from levelset.cel.values import is_map

__all__ = ["REASONS", "check_rule"]

REASONS = ("FieldValueInvalid", "FieldValueDuplicate", "FieldValueForbidden", "FieldValueRequired")
_BREAK = re.compile(r"[\n\r]")
_INVALID, _REQUIRED = "FieldValueInvalid", "FieldValueRequired"


def check_rule(rule: Any, schema: Mapping[str, Any], path: str) -> Iterator[Finding]:
    """What is wrong with a rule of this schema, apart from its expressions."""
    if not is_map(rule):
        yield Finding(f"{path}.rule", _REQUIRED, "rule is not specified")
        return
    members: Mapping[str, Any] = rule
    text, message = _text(members, "rule").strip(), _text(members, "message")
    if not text:
        yield Finding(f"{path}.rule", _REQUIRED, "rule is not specified")
    elif message and not message.strip():
        yield Finding(f"{path}.message", _INVALID, "must be non-empty if specified", message)
    elif _BREAK.search(message.strip()):
        yield Finding(f"{path}.message", _INVALID, "must not contain line breaks", message)
    elif _BREAK.search(text) and not message.strip():
        yield Finding(f"{path}.message", _REQUIRED, "message must be specified if rule contains line breaks")
    computed = _text(members, "messageExpression")
    if computed and not computed.strip():
        yield Finding(f"{path}.messageExpression", _REQUIRED, "messageExpression must be non-empty if specified")
    reason = members.get("reason")
    if reason is not None and reason not in REASONS:
        told = "supported values: " + ", ".join(f'"{each}"' for each in sorted(REASONS))
        yield Finding(f"{path}.reason", "FieldValueNotSupported", told, reason)
    yield from _check_field(_text(members, "fieldPath"), schema, f"{path}.fieldPath")


def _check_field(text: str, schema: Mapping[str, Any], path: str) -> Iterator[Finding]:
    if text and not text.strip():
        yield Finding(path, _INVALID, "must be non-empty if specified", text)
    if _BREAK.search(text):
        yield Finding(path, _INVALID, "must not contain line breaks", text)
    if text and field_path(text, schema) is None:
        yield Finding(path, _INVALID, "must be a valid path", text)


def _text(rule: Mapping[str, Any], name: str) -> str:
    found = rule.get(name)
    return found if isinstance(found, str) else ""
