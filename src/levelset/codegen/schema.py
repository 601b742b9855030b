"""Makes the structural OpenAPI v3 schema of a class, as a CustomResourceDefinition needs it.

```python
class WebsiteSpec(Spec, rules=[Rule("self.replicas <= self.most", "replicas must not be above most")]):
    image: Annotated[str, Meta(min_length=1)]
    replicas: Annotated[int, Meta(ge=0)] = 1
    most: int = 10
```

Attributes without a default are required; a default becomes one of the schema, so that the server fills it in. `None`
as the default means absence; where None is allowed and is not the default, null is a value of its own (`nullable`).
Docstrings, and texts under attributes, become descriptions.

Takes type annotations apart: what is inside `Annotated`, behind an alias, and beside `None`.

Turns what stands in `Annotated` into keywords of a schema: bounds, patterns, list types, CEL rules.

The schemas of types that have nothing inside: texts, numbers, times, quantities, enumerations.

Unions of classes that a tag tells apart, as far as a structural schema can say them.

Finds the words for a schema: docstrings of classes, and the texts that stand under their attributes.

Puts the keys of generated documents into the order in which people read them.
"""

import ast
import datetime as dt
import decimal
import enum
import inspect
import itertools
import re
import sys
import types
import uuid
from collections import abc
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Any, Final, Literal, NewType, TypeVar, Union, get_args, get_origin

import msgspec

from levelset.errors import BadObject, ConfigError
from levelset.objects import codec
from levelset.objects.field_markers import Atomic, Embedded, ListMap, ListSet, PreserveUnknown, Rule, rules_of
from levelset.objects.json_tree import is_list, is_map
from levelset.objects.kind_definition import definition_of
from levelset.objects.meta import Condition
from levelset.objects.model import wire_name
from levelset.objects.quantity import Quantity
from levelset.objects.resource import Object
from levelset.objects.timestamps import MicroTime

__all__ = [
    "ANYTHING",
    "INT_OR_STRING",
    "PRESERVE",
    "Place",
    "Schema",
    "annotate",
    "arrange",
    "constrain",
    "describe",
    "describe_fields",
    "enum_schema",
    "leaf_schema",
    "options_of",
    "schema_for",
    "schema_of",
    "unfold",
    "validations",
    "values_schema",
    "variants_schema",
]

_OURS: Final = ("levelset.kinds.", "levelset.objects.")

Schema = dict[str, Any]
"""A schema as it stands in a CustomResourceDefinition."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where in a class a schema is made: for what is said when none can be made, and for what is inside itself."""

    path: str
    inside: tuple[type, ...] = ()
    is_open: bool = False
    """Whether what the schema does not name is kept."""
    keeps_null: bool = True
    """Whether null is a value of its own here; it is not where it says the same as absence."""
    reads_source: bool = True
    """Whether words are looked for in source files."""

    @property
    def is_ours(self) -> bool:
        """Whether it is in a class that comes with the house, whose defaults stand for what is not there."""
        return bool(self.inside) and self.inside[-1].__module__.startswith(_OURS)

    def member(self, name: str, *, keeps_null: bool = True) -> "Place":
        """The place of a member of this one."""
        return replace(self, path=f"{self.path}.{name}", is_open=False, keeps_null=keeps_null)

    def items(self) -> "Place":
        """The place of what this one has many of."""
        return replace(self, path=f"{self.path}[]", keeps_null=True)

    def within(self, model: type) -> "Place":
        """The same place, inside of a class."""
        return replace(self, inside=(*self.inside, model), is_open=False)

    def refuse(self, why: str) -> ConfigError:
        """The error that says why there is no schema for this place."""
        return ConfigError(f"{self.path}: {why}")


def unfold(hint: Any) -> tuple[Any, tuple[Any, ...]]:
    """The type itself, and everything that `Annotated` puts beside it, the innermost first."""
    extras: tuple[Any, ...] = ()
    while True:
        if get_origin(hint) is Annotated:
            hint, more = hint.__origin__, hint.__metadata__
            extras = (*more, *extras)
        elif isinstance(hint, NewType):
            hint = hint.__supertype__
        elif type(hint).__name__ == "TypeAliasType":  # `type X = ...` of Python 3.12
            hint = hint.__value__
        else:
            return hint, extras


def options_of(hint: Any) -> tuple[list[Any], bool]:
    """The alternatives of a type, None and the unset value left out, and whether None was among them."""
    if get_origin(hint) not in (Union, types.UnionType):
        return [hint], False
    options: list[Any] = []
    is_nullable = False
    for one in get_args(hint):
        if one is type(None):
            is_nullable = True
        elif one is not msgspec.UnsetType:
            options.append(one)
    return options, is_nullable


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


ANYTHING: Final[Mapping[str, Any]] = {PRESERVE: True}
"""Any JSON value."""

INT_OR_STRING: Final[Mapping[str, Any]] = {
    "anyOf": [{"type": "integer"}, {"type": "string"}],
    "x-kubernetes-int-or-string": True,
}
"""A number or a text, as a port or a share is: 8080, "http", "25%"."""

_AMOUNT: Final = r"^[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([KMGTPE]i|[numkMGTPE]|[eE][+-]?[0-9]+)?$"

_LEAVES: Final[Mapping[Any, Mapping[str, Any]]] = {
    str: {"type": "string"},
    bool: {"type": "boolean"},
    int: {"type": "integer", "format": "int64"},
    float: {"type": "number", "format": "double"},
    bytes: {"type": "string", "format": "byte"},
    dt.datetime: {"type": "string", "format": "date-time"},
    MicroTime: {"type": "string", "format": "date-time"},
    dt.date: {"type": "string", "format": "date"},
    # Neither has a format that a server would read as Python writes it.
    dt.time: {"type": "string"},
    dt.timedelta: {"type": "string"},
    uuid.UUID: {"type": "string", "format": "uuid"},
    decimal.Decimal: {"type": "string"},
    Quantity: {**INT_OR_STRING, "pattern": _AMOUNT},
    Any: ANYTHING,
    object: ANYTHING,
    msgspec.Raw: ANYTHING,
}


def leaf_schema(hint: Any) -> Schema | None:
    """The schema of a type without parts, or None for one that has some."""
    try:
        found = _LEAVES.get(hint)
    except TypeError:  # a hint that cannot be a key is no leaf
        return None
    return None if found is None else dict(found)


def enum_schema(kind: type[enum.Enum], place: Place) -> Schema:
    """The schema of an enumeration: the values of its members."""
    return values_schema([one.value for one in kind], place)


def values_schema(values: Sequence[Any], place: Place) -> Schema:
    """The schema of a choice of values, which must be of one type."""
    found = {_kind(one) for one in values}
    if len(found) != 1 or "" in found:
        shown = ", ".join(map(repr, values))
        raise place.refuse(f"a choice of {shown} is of several types, or of one without a schema; choose among texts")
    return {"type": found.pop(), "enum": list(values)}


def _kind(value: Any) -> str:
    match value:
        case bool():
            return "boolean"
        case str():
            return "string"
        case int():
            return "integer"
        case float():
            return "number"
        case _:
            return ""


def variants_schema(models: Sequence[type[Any]], schemas: Sequence[Schema], place: Place) -> Schema:
    """One object with the members of all variants; which of them must be there depends on the tag.

    A structural schema names every member once, outside of the alternatives: variants that give one name to two
    different things have none.
    """
    tags = {model.__struct_config__.tag_field for model in models}
    if len(tags) != 1 or None in tags:
        names = " | ".join(model.__name__ for model in models)
        raise place.refuse(f"{names} cannot be told apart; give each a tag: class A(Model, tag=True, tag_field='type')")
    (tag,) = tags
    values = [model.__struct_config__.tag for model in models]
    merged: Schema = {tag: {"type": "string", "enum": values}}
    for model, schema in zip(models, schemas, strict=True):
        _refuse_rules(model, schema, place)
        for name, child in schema["properties"].items():
            if name != tag and merged.setdefault(name, _shared(name, child, schemas)) != _shared(name, child, schemas):
                raise place.refuse(f"{name} of {model.__name__} has another schema than in another variant; rename one")
    branches = [
        {"properties": {tag: {"enum": [value]}}, "required": list(schema.get("required", ()))}
        for value, schema in zip(values, schemas, strict=True)
    ]
    return {"type": "object", "required": [tag], "properties": merged, "oneOf": branches}


def _shared(name: str, child: Schema, schemas: Sequence[Schema]) -> Schema:
    """A member as all variants have it: the default of one variant would be filled in for the others too."""
    if all(name in one["properties"] for one in schemas):
        return child
    return {keyword: value for keyword, value in child.items() if keyword != "default"}


def _refuse_rules(model: type[Any], schema: Schema, place: Place) -> None:
    """A rule of one variant would be asked of all of them."""
    if "x-kubernetes-validations" in schema:
        raise place.refuse(
            f"the rules of {model.__name__} would hold for every variant; put them where the union stands"
        )


_OWN_PREFIX = "levelset."


def describe(model: type) -> str:
    """The docstring of a class itself, not of a base, with its indentation taken away; empty if it has none."""
    return inspect.cleandoc(vars(model).get("__doc__") or "")


def describe_fields(model: type) -> Mapping[str, str]:
    """What stands as a text under each attribute, by its Python name; a subclass's words win.

    Needs the source: a class that was made at a prompt has no such words.
    """
    found: dict[str, str] = {}
    for one in reversed(model.__mro__):
        path = _file_of(one)
        if path is not None:
            found.update(_read(path, path.stat().st_mtime_ns).get(one.__qualname__.replace(".<locals>", ""), {}))
    return found


def _file_of(model: type) -> Path | None:
    if model.__module__.startswith(_OWN_PREFIX) or model is object:
        return None
    name = getattr(sys.modules.get(model.__module__), "__file__", None)
    path = None if name is None else Path(name)
    return path if path is not None and path.suffix == ".py" and path.is_file() else None


@lru_cache(maxsize=256)
def _read(path: Path, _: int) -> Mapping[str, Mapping[str, str]]:
    """The words of all classes in a file, by their qualified names; a file that has changed is read again."""
    try:
        tree = ast.parse(path.read_text(encoding="utf-8"))
    except (OSError, SyntaxError, ValueError):
        return {}
    return dict(_classes(tree.body, ""))


def _classes(body: Sequence[ast.stmt], prefix: str) -> Iterator[tuple[str, Mapping[str, str]]]:
    for one in body:
        if isinstance(one, ast.ClassDef):
            yield f"{prefix}{one.name}", _words(one.body)
        if isinstance(one, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield from _classes(one.body, f"{prefix}{one.name}.")


def _words(body: Sequence[ast.stmt]) -> Mapping[str, str]:
    return {
        first.target.id: inspect.cleandoc(second.value.value)
        for first, second in itertools.pairwise(body)
        if isinstance(first, ast.AnnAssign)
        and isinstance(first.target, ast.Name)
        and isinstance(second, ast.Expr)
        and isinstance(second.value, ast.Constant)
        and isinstance(second.value.value, str)
    }


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


_LISTS: Final = (list, tuple, abc.Sequence, abc.MutableSequence, abc.Collection, abc.Iterable)
_SETS: Final = (set, frozenset, abc.Set, abc.MutableSet)
_MAPS: Final = (dict, abc.Mapping, abc.MutableMapping)
_IDENTITY: Final = ("apiVersion", "kind", "metadata")
_ABSENT: Final = (None, msgspec.UNSET, msgspec.NODEFAULT)


def schema_of(kind: type[Object], *, reads_source: bool = True) -> Schema:
    """The schema of a kind: everything that stands under `openAPIV3Schema`.

    ConfigError names the attribute, such as `Website.spec.ports`, for which there is no structural schema. The texts
    under attributes are read from source files; `reads_source=False` goes without, where nothing may block.
    """
    definition_of(kind)
    place = Place(kind.__name__, reads_source=reads_source)
    made = _struct_schema(kind, place)
    own = {name: value for name, value in made["properties"].items() if name not in _IDENTITY}
    identity: Schema = {"apiVersion": {"type": "string"}, "kind": {"type": "string"}, "metadata": {"type": "object"}}
    required = [name for name in made.pop("required", ()) if name in own]
    return arrange({**made, "properties": {**identity, **own}, **({"required": required} if required else {})})


def schema_for(hint: Any, place: Place) -> Schema:
    """The schema of any type that may stand in a class."""
    base, extras = unfold(hint)
    if any(isinstance(one, PreserveUnknown) for one in extras):
        place = replace(place, is_open=True)
    options, is_nullable = options_of(base)
    inner = replace(place, keeps_null=False) if is_nullable else place
    if len(options) == 1 and options[0] is not base:
        made = schema_for(options[0], inner)
    elif len(options) == 1:
        made = _type_schema(base, place)
    else:
        made = _union_schema(options, inner)
    made = annotate(made, extras, place)
    return _nullable(made) if is_nullable and place.keeps_null else made


def _nullable(schema: Schema) -> Schema:
    return {**schema, "nullable": True, **({"enum": [*schema["enum"], None]} if "enum" in schema else {})}


def _type_schema(hint: Any, place: Place) -> Schema:
    found = leaf_schema(hint)
    if found is not None:
        return found
    origin, arguments = get_origin(hint) or hint, get_args(hint)
    if origin is Literal:
        return _literal_schema(arguments, place)
    if isinstance(hint, TypeVar):
        return _type_schema(hint.__bound__ or Any, place)
    if origin in _LISTS or origin in _SETS:
        return _list_schema(origin, arguments, place)
    if origin in _MAPS:
        return _map_schema(arguments, place)
    if isinstance(origin, type) and issubclass(origin, enum.Enum):
        return enum_schema(origin, place)
    if isinstance(origin, type) and issubclass(origin, Object):
        return _embedded_schema(origin, hint, place)
    if isinstance(origin, type) and issubclass(origin, msgspec.Struct):
        return _struct_schema(hint, place)
    shown = getattr(hint, "__name__", str(hint))
    raise place.refuse(
        f"there is no schema for {shown}; use a Model, a list, a dict with texts as keys, or a plain type"
    )


def _literal_schema(values: tuple[Any, ...], place: Place) -> Schema:
    made = values_schema([one for one in values if one is not None], place)
    return _nullable(made) if None in values and place.keeps_null else made


def _list_schema(origin: Any, arguments: tuple[Any, ...], place: Place) -> Schema:
    if origin is tuple and arguments and arguments[-1] is not Ellipsis:
        return _fixed_schema(arguments, place)
    item = arguments[0] if arguments else Any
    made: Schema = {"type": "array", "items": schema_for(item, place.items())}
    if origin in _SETS:
        made["x-kubernetes-list-type"] = "set"
    elif unfold(item)[0] is Condition:
        made |= {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"]}
    return made


def _fixed_schema(arguments: tuple[Any, ...], place: Place) -> Schema:
    """A tuple of so many items: a list of that length, if all are of one type."""
    if any(one != arguments[0] for one in arguments):
        raise place.refuse("a tuple of several types has no structural schema; make it a Model with a name for each")
    size = len(arguments)
    return {"type": "array", "items": schema_for(arguments[0], place.items()), "minItems": size, "maxItems": size}


def _map_schema(arguments: tuple[Any, ...], place: Place) -> Schema:
    key, value = arguments or (str, Any)
    base, extras = unfold(key)
    if base is not str or any(isinstance(one, msgspec.Meta) for one in extras):
        raise place.refuse("keys of a map are texts and no more can be said of them; write a Rule about the map")
    if unfold(value)[0] in (Any, object):
        return {"type": "object", PRESERVE: True}
    return {"type": "object", "additionalProperties": schema_for(value, place.items())}


def _union_schema(options: list[Any], place: Place) -> Schema:
    bases = [unfold(one)[0] for one in options]
    if {int, float} >= set(bases):
        return schema_for(options[bases.index(float)], place)
    if set(bases) == {int, str}:
        return dict(INT_OR_STRING)
    if all(get_origin(one) is Literal for one in bases):
        return values_schema([value for one in bases for value in get_args(one)], place)
    if all(isinstance(one, type) and issubclass(one, msgspec.Struct) for one in bases):
        return variants_schema(bases, [_struct_schema(one, place) for one in bases], place)
    shown = " | ".join(getattr(one, "__name__", str(one)) for one in bases)
    raise place.refuse(f"{shown} has no structural schema; use int | str, tagged Models, or Any with a Rule")


def _embedded_schema(kind: type[Object], hint: Any, place: Place) -> Schema:
    """An object inside of an object: with its own members if its class says which, else with whatever it has."""
    made = _struct_schema(hint, place)
    own = {name: value for name, value in made["properties"].items() if name not in _IDENTITY}
    made.pop("properties")
    required = [name for name in made.pop("required", ()) if name in own]
    made["x-kubernetes-embedded-resource"] = True
    if not own or "__definition__" not in vars(kind):
        made.pop("description", None)
        return {**made, PRESERVE: True}
    return {**made, "properties": own, **({"required": required} if required else {})}


def _struct_schema(hint: Any, place: Place) -> Schema:
    model: type[msgspec.Struct] = get_origin(hint) or hint
    config = model.__struct_config__
    if model in place.inside:
        if place.is_open:
            return {"type": "object", PRESERVE: True}
        raise place.refuse(
            f"{model.__name__} is inside of itself, which a schema cannot say; declare PreserveUnknown()"
        )
    if config.array_like:
        raise place.refuse(f"{model.__name__} is array_like, and a list has no names; take array_like away")
    inner = place.within(model)
    properties: Schema = {}
    required: list[str] = []
    if config.tag_field is not None:
        properties[config.tag_field] = values_schema([config.tag], place)
        required.append(config.tag_field)
    words: abc.Mapping[str, str] = describe_fields(model) if place.reads_source else {}
    for one in msgspec.structs.fields(hint):
        if one.type is type(None):
            continue
        member = _member_schema(one, inner, words.get(one.name, ""))
        default = None if inner.is_ours else _default_of(one, inner.member(one.encode_name))
        properties[one.encode_name] = member if default is None else {**member, "default": default}
        if one.required:
            required.append(one.encode_name)
    made: Schema = {"type": "object", "properties": properties}
    made |= {"description": describe(model)} if describe(model) else {}
    made |= {"required": required} if required else {}
    rules = rules_of(model)
    return {**made, **({"x-kubernetes-validations": validations(rules)} if rules else {})}


def _member_schema(field: msgspec.structs.FieldInfo, place: Place, words: str) -> Schema:
    at = place.member(field.encode_name, keeps_null=field.required or not _is_absent(field.default))
    made = schema_for(field.type, at)
    if words and not _says_so(field.type):
        made["description"] = words
    return made


def _is_absent(value: Any) -> bool:
    return any(value is one for one in _ABSENT)


def _says_so(hint: Any) -> bool:
    """Whether a description stands beside the type: the nearest word wins."""
    return any(isinstance(one, msgspec.Meta) and one.description for one in unfold(hint)[1])


def _default_of(field: msgspec.structs.FieldInfo, place: Place) -> Any:
    """What the server shall fill in; None where an absent member says the same.

    A function that makes a default may make another one each time, so that only those of classes are asked.
    """
    default: Any = field.default
    if default is msgspec.NODEFAULT and isinstance(field.default_factory, type):
        default = field.default_factory()
    if _is_absent(default):
        return None
    try:
        tree = codec.to_tree(default)
    except BadObject as error:
        raise place.refuse(f"the default {default!r} cannot be written: {error}") from error
    is_empty = tree in ({}, []) and not isinstance(default, msgspec.Struct)
    return None if is_empty else tree
