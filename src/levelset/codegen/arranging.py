"""Puts the keys of generated documents into the order in which people read them."""

from typing import Any, Final

from levelset.objects.trees import is_list, is_map

__all__ = ["arrange"]

_FIRST: Final = (
    *("rule", "description", "type", "format"),
    *("enum", "default", "nullable", "minimum", "exclusiveMinimum", "maximum", "exclusiveMaximum", "multipleOf"),
    *("minLength", "maxLength", "pattern", "minItems", "maxItems", "minProperties", "maxProperties"),
    *("required", "properties", "items", "additionalProperties"),
)
_RANK: Final = {name: rank for rank, name in enumerate(_FIRST)}
# Below these, keys are names that somebody chose, in an order that somebody chose.
_CHOSEN: Final = frozenset({"default", "enum", "example", "properties"})


def arrange(schema: dict[str, Any]) -> dict[str, Any]:
    """The same schema: what a value is, what is inside of it, extensions last; properties as they were declared."""
    made: dict[str, Any] = {}
    for name in sorted(schema, key=lambda one: (_RANK.get(one, len(_RANK)), one)):
        value = schema[name]
        if name == "properties":
            value = {member: arrange(child) for member, child in value.items()}
        elif name not in _CHOSEN:
            value = _arranged(value)
        made[name] = value
    return made


def _arranged(value: Any) -> Any:
    if is_map(value):
        return arrange(value)
    return [_arranged(one) for one in value] if is_list(value) else value
