"""The enums of built-in kinds in OpenAPI documents, as kube-apiserver publishes them.

They are only published: what a field takes is a rule of its kind, whose messages the schema would not have.
"""

from functools import cache
from pathlib import Path
from typing import Any, Final

import msgspec

from levelset.apiserver.resources.served_resource import Object

__all__ = ["preload", "with_enums"]

_FILE: Final = Path(__file__).parent.parent / "data" / "enums.json"
_KEYWORDS: Final = frozenset({"items", "additionalProperties"})


def preload() -> None:
    """Reads the data file, so that no request waits for the disk."""
    _enums()


def with_enums(name: str, schema: Object) -> Object:
    """Returns the schema of this name with its enums; the given one is not changed."""
    for path, values in _enums().get(name, {}).items():
        schema = _with_enum(schema, path.split("."), values)
    return schema


def _with_enum(schema: Object, path: list[str], values: list[str]) -> Object:
    if not path:
        return {**schema, "enum": values}
    word, rest = path[0], path[1:]
    if word in _KEYWORDS:
        return {**schema, word: _with_enum(schema[word], rest, values)}
    properties: dict[str, Any] = schema["properties"]
    return {**schema, "properties": {**properties, word: _with_enum(properties[word], rest, values)}}


@cache
def _enums() -> dict[str, dict[str, list[str]]]:
    return msgspec.json.decode(_FILE.read_bytes(), type=dict[str, dict[str, list[str]]])
