"""Turns what stands in `Annotated` into keywords of a schema: bounds, patterns, list types, CEL rules."""

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

import msgspec

from levelset.codegen.hints import Place, Schema
from levelset.objects.declarations import Atomic, Embedded, ListMap, ListSet, PreserveUnknown, Rule
from levelset.objects.wirenames import wire_name

__all__ = ["PRESERVE", "annotate", "constrain", "validations"]

PRESERVE: Final = "x-kubernetes-preserve-unknown-fields"

_LENGTHS: Final = {"string": "Length", "array": "Items", "object": "Properties"}
_NUMBERS: Final = ("integer", "number")
# What Kubernetes fills in where a key is left out of one of its own objects.
_KEY_DEFAULTS: Final = {"protocol": "TCP"}
# Python's own inventions, which RE2 refuses: look-around, references back, conditions, possessive repetitions.
_NOT_RE2: Final = re.compile(r"\(\?(?:[=!#>(]|<[=!]|P=)|(?<!\\)(?:\\\\)*\\[1-9Z]|[*+?}]\+")


def annotate(schema: Schema, extras: Iterable[Any], place: Place) -> Schema:
    """The schema with what was declared beside its type; ConfigError if that does not go with the type."""
    made = dict(schema)
    for one in extras:
        if isinstance(one, msgspec.Meta):
            made.update(constrain(made, one, place))
        else:
            made.update(_declare(made, one, place))
    rules = [one for one in extras if isinstance(one, Rule)]
    if rules:
        made["x-kubernetes-validations"] = [*made.get("x-kubernetes-validations", []), *validations(rules)]
    return made


def constrain(schema: Mapping[str, Any], meta: msgspec.Meta, place: Place) -> Schema:
    """The keywords that a `Meta` amounts to."""
    made: Schema = {}
    kind = schema.get("type", "")
    for name, value in (("minimum", meta.ge), ("minimum", meta.gt), ("maximum", meta.le), ("maximum", meta.lt)):
        if value is not None:
            made[name] = _number(kind, value, place)
    made |= {"exclusiveMinimum": True} if meta.gt is not None else {}
    made |= {"exclusiveMaximum": True} if meta.lt is not None else {}
    if meta.multiple_of is not None:
        made["multipleOf"] = _number(kind, meta.multiple_of, place)
    for name, size in (("min", meta.min_length), ("max", meta.max_length)):
        if size is not None:
            made[name + _length(kind, place)] = size
    if meta.pattern is not None:
        made["pattern"] = _pattern(kind, meta.pattern, place)
    words = {"title": meta.title, "description": meta.description}
    return {**made, **{name: text for name, text in words.items() if text}, **(meta.extra_json_schema or {})}


def validations(rules: Iterable[Rule]) -> list[dict[str, Any]]:
    """Rules as a schema has them: only what they say."""
    return [{name: value for name, value in _rule(one).items() if value} for one in rules]


def _rule(rule: Rule) -> dict[str, Any]:
    return {
        "rule": rule.rule,
        "message": rule.message,
        "messageExpression": rule.message_expression,
        "reason": rule.reason,
        "fieldPath": rule.field_path,
        "optionalOldSelf": rule.optional_old_self,
    }


def _number(kind: str, value: float, place: Place) -> float:
    if kind not in _NUMBERS:
        raise place.refuse(f"a bound of {value} is for numbers; for other types write a Rule")
    return value


def _length(kind: str, place: Place) -> str:
    if kind not in _LENGTHS:
        raise place.refuse("a length is for texts, lists and maps; take min_length and max_length away")
    return _LENGTHS[kind]


def _pattern(kind: str, pattern: str, place: Place) -> str:
    if kind != "string":
        raise place.refuse("a pattern is for texts; take it away, or write a Rule")
    if _NOT_RE2.search(pattern):
        raise place.refuse(f"the pattern {pattern!r} has what only Python knows; servers read RE2, without look-around")
    return pattern


def _declare(schema: Schema, declared: Any, place: Place) -> Schema:
    match declared:
        case ListMap(keys):
            return _list_map(schema, keys, place)
        case ListSet():
            _require(schema, "array", "ListSet is for lists", place)
            return {"x-kubernetes-list-type": "set"}
        case Atomic():
            return {f"x-kubernetes-{_container(schema, place)}-type": "atomic"}
        case PreserveUnknown():
            return _open(schema)
        case Embedded():
            _require(schema, "object", "Embedded is for maps and classes", place)
            return {"x-kubernetes-embedded-resource": True}
        case _:
            return {}


def _require(schema: Schema, kind: str, rule: str, place: Place) -> None:
    if schema.get("type") != kind:
        raise place.refuse(f"{rule}, and this is of type {schema.get('type', 'any')}")


def _container(schema: Schema, place: Place) -> str:
    kind = {"array": "list", "object": "map"}.get(schema.get("type", ""))
    if kind is None:
        raise place.refuse("Atomic is for lists and maps; everything else is replaced as a whole anyway")
    return kind


def _open(schema: Schema) -> Schema:
    """Keeps what no schema names: of an object itself, of a list in its items."""
    if schema.get("type") == "array":
        return {"items": {**schema["items"], **_open(schema["items"])}}
    return {PRESERVE: True}


def _list_map(schema: Schema, keys: tuple[str, ...], place: Place) -> Schema:
    """A list whose items are told apart by members, by their names on the wire; each must be there in every item."""
    _require(schema, "array", "ListMap is for lists", place)
    items: Schema = schema["items"]
    known: dict[str, Schema] = dict(items.get("properties", {}))
    found: list[str] = []
    for key in keys:
        name = key if key in known else wire_name(key)
        if name not in known:
            raise place.refuse(f"ListMap({key!r}): its items have no such member, but {', '.join(known) or 'none'}")
        if name not in items.get("required", ()) and "default" not in known[name]:
            if not place.is_ours:
                raise place.refuse(f"ListMap({key!r}): the member must be there in every item; give it another default")
            known[name] = {**known[name], "default": _KEY_DEFAULTS.get(name, "")}
        found.append(name)
    items = {**items, "properties": known}
    return {"items": items, "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": found}
