"""The `fieldPath` of a rule: which field to blame, as a path such as `.spec.name` or `.labels['app']`."""

import re
from collections.abc import Mapping
from typing import Any

from levelset.cel.values import is_map

__all__ = ["child_path", "field_path", "key_path"]

_STEP = re.compile(r"\.(?P<name>[^.\[\]']+)|\['(?P<key>(?:\\.|[^'\\])*)'\]")
_ESCAPE = re.compile(r"\\(.)")
_ESCAPES = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v", "'": "'", "\\": "\\"}


def field_path(text: str, schema: Mapping[str, Any]) -> str | None:
    """The path below a value of this schema, in the form that causes have; None if it leads nowhere."""
    at, found = 0, ""
    while at < len(text):
        match = _STEP.match(text, at)
        if match is None:
            return None
        name = match["name"] if match["name"] is not None else _unescaped(match["key"])
        properties, values = schema.get("properties"), schema.get("additionalProperties")
        if name is not None and properties:
            if name not in properties:
                return None
            schema, found = properties[name], child_path(found, name)
        elif name is not None and is_map(values):
            schema, found = values, key_path(found, name)
        else:
            return None
        at = match.end()
    return found or None


def child_path(path: str, name: str) -> str:
    """The path of a field."""
    return f"{path}.{name}" if path else name


def key_path(path: str, key: str) -> str:
    """The path of an entry of a map."""
    return f"{path}[{key}]"


def _unescaped(text: str) -> str | None:
    if any(sign not in _ESCAPES for sign in _ESCAPE.findall(text)):
        return None
    return _ESCAPE.sub(lambda match: _ESCAPES[match[1]], text)
