"""Unknown keywords of schemas inside of schemas, which Go drops without a word.

The schemas of `items` and `additionalProperties` are decoded by code of their own, which does not report unknown
fields; all others are those of the kind, and are pruned with it.
"""

from collections.abc import Iterator
from typing import Any, Final

from levelset.apiserver.schema.builtin_schemas import library
from levelset.objects.json_tree import is_list, is_map

__all__ = ["drop_unknown_keywords"]

_SCHEMA: Final = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaProps"
_MAPS: Final = ("properties", "patternProperties", "definitions")
_LISTS: Final = ("allOf", "anyOf", "oneOf")
_FREE: Final = ("items", "additionalProperties", "additionalItems")


def drop_unknown_keywords(schema: Any, *, is_free: bool = False) -> None:
    """Drops unknown keywords from the schemas inside of a schema, in place; from itself if it `is_free`."""
    if not is_map(schema):
        return
    if is_free:
        known: Any = library()[_SCHEMA]["properties"]
        for name in [name for name in schema if name not in known]:
            del schema[name]
    for one in _inside(schema):
        drop_unknown_keywords(one, is_free=is_free)
    for name in schema.keys() & _FREE:
        for one in schema[name] if is_list(schema[name]) else (schema[name],):
            drop_unknown_keywords(one, is_free=True)


def _inside(schema: Any) -> Iterator[Any]:
    """The schemas inside of a schema that are decoded as it is."""
    for name in schema.keys() & _MAPS:
        if is_map(schema[name]):
            yield from schema[name].values()
    for name in schema.keys() & _LISTS:
        if is_list(schema[name]):
            yield from schema[name]
    yield schema.get("not")
