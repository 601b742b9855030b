"""Generates the structural OpenAPI v3 schema of a class for a CustomResourceDefinition.

```python
class WebsiteSpec(Spec, rules=[Rule("self.replicas <= self.most", "replicas must not be above most")]):
    image: Annotated[str, Meta(min_length=1)]
    replicas: Annotated[int, Meta(ge=0)] = 1
    most: int = 10
```

Attributes without a default are required; a default becomes the default of the schema, which the server sets. `None` as
the default means absence; where None is allowed and not the default, the schema is `nullable`. Docstrings of classes
and of attributes become descriptions. `Annotated` metadata becomes bounds, patterns, list types and CEL rules. Unions
of tagged classes become one object with `oneOf` branches. Keys are ordered for readers.
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
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Any, Final, Literal, NewType, TypeVar, Union, get_args, get_origin

import msgspec
from msgspec.structs import replace

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
    "Schema",
    "SchemaPath",
    "annotate",
    "constrain",
    "describe",
    "describe_fields",
    "enum_schema",
    "leaf_schema",
    "options_of",
    "order_keys",
    "schema_for",
    "schema_of",
    "unwrap_annotated",
    "validations",
    "values_schema",
    "variants_schema",
]

_OWN_PACKAGES: Final = ("levelset.kinds.", "levelset.objects.")

Schema = dict[str, Any]
"""A schema as in a CustomResourceDefinition."""


class SchemaPath(msgspec.Struct, frozen=True):
    """The position in a class for which a schema is generated, for error messages and to detect recursion."""

    path: str
    inside: tuple[type, ...] = ()
    is_open: bool = False
    """Whether unknown fields are preserved."""
    distinguishes_null: bool = True
    """Whether null differs from absence here."""
    reads_source: bool = True
    """Whether descriptions are read from source files."""

    @property
    def is_own_class(self) -> bool:
        """Whether it is in a class of levelset, whose defaults mean absence."""
        return bool(self.inside) and self.inside[-1].__module__.startswith(_OWN_PACKAGES)

    def member(self, name: str, *, distinguishes_null: bool = True) -> "SchemaPath":
        """The path of a member."""
        return replace(self, path=f"{self.path}.{name}", is_open=False, distinguishes_null=distinguishes_null)

    def items(self) -> "SchemaPath":
        """The path of the items."""
        return replace(self, path=f"{self.path}[]", distinguishes_null=True)

    def within(self, model: type) -> "SchemaPath":
        """The same path, inside of a class."""
        return replace(self, inside=(*self.inside, model), is_open=False)

    def error(self, why: str) -> ConfigError:
        """The error for a type without a structural schema."""
        return ConfigError(f"{self.path}: {why}")


def unwrap_annotated(hint: Any) -> tuple[Any, tuple[Any, ...]]:
    """The type itself and its `Annotated` metadata, the innermost first; aliases are resolved."""
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
# The defaults of list map keys in built-in kinds.
_KEY_DEFAULTS: Final = {"protocol": "TCP"}
# Syntax that RE2 does not support: look-around, back references, conditions, possessive quantifiers.
_NOT_RE2: Final = re.compile(r"\(\?(?:[=!#>(]|<[=!]|P=)|(?<!\\)(?:\\\\)*\\[1-9Z]|[*+?}]\+")


def annotate(schema: Schema, extras: Iterable[Any], path: SchemaPath) -> Schema:
    """The schema with the `Annotated` metadata applied; ConfigError if it does not fit the type."""
    made = dict(schema)
    for one in extras:
        if isinstance(one, msgspec.Meta):
            made.update(constrain(made, one, path))
        else:
            made.update(_declare(made, one, path))
    rules = [one for one in extras if isinstance(one, Rule)]
    if rules:
        made["x-kubernetes-validations"] = [*made.get("x-kubernetes-validations", []), *validations(rules)]
    return made


def constrain(schema: Mapping[str, Any], meta: msgspec.Meta, path: SchemaPath) -> Schema:
    """The keywords of a `Meta`."""
    made: Schema = {}
    kind = schema.get("type", "")
    for name, value in (("minimum", meta.ge), ("minimum", meta.gt), ("maximum", meta.le), ("maximum", meta.lt)):
        if value is not None:
            made[name] = _number(kind, value, path)
    made |= {"exclusiveMinimum": True} if meta.gt is not None else {}
    made |= {"exclusiveMaximum": True} if meta.lt is not None else {}
    if meta.multiple_of is not None:
        made["multipleOf"] = _number(kind, meta.multiple_of, path)
    for name, size in (("min", meta.min_length), ("max", meta.max_length)):
        if size is not None:
            made[name + _length(kind, path)] = size
    if meta.pattern is not None:
        made["pattern"] = _pattern(kind, meta.pattern, path)
    words = {"title": meta.title, "description": meta.description}
    return {**made, **{name: text for name, text in words.items() if text}, **(meta.extra_json_schema or {})}


def validations(rules: Iterable[Rule]) -> list[dict[str, Any]]:
    """Rules as `x-kubernetes-validations`, without empty fields."""
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


def _number(kind: str, value: float, path: SchemaPath) -> float:
    if kind not in _NUMBERS:
        raise path.error(f"the bound {value} applies to numbers only; use a Rule for other types")
    return value


def _length(kind: str, path: SchemaPath) -> str:
    if kind not in _LENGTHS:
        raise path.error("a length applies to strings, lists and maps only; remove min_length and max_length")
    return _LENGTHS[kind]


def _pattern(kind: str, pattern: str, path: SchemaPath) -> str:
    if kind != "string":
        raise path.error("a pattern applies to strings only; remove it, or use a Rule")
    if _NOT_RE2.search(pattern):
        raise path.error(
            f"the pattern {pattern!r} is not valid RE2, which servers use: no look-around or back references"
        )
    return pattern


def _declare(schema: Schema, declared: Any, path: SchemaPath) -> Schema:
    match declared:
        case ListMap(keys):
            return _list_map(schema, keys, path)
        case ListSet():
            _require(schema, "array", "ListSet applies to lists", path)
            return {"x-kubernetes-list-type": "set"}
        case Atomic():
            return {f"x-kubernetes-{_container(schema, path)}-type": "atomic"}
        case PreserveUnknown():
            return _open(schema)
        case Embedded():
            _require(schema, "object", "Embedded applies to maps and classes", path)
            return {"x-kubernetes-embedded-resource": True}
        case _:
            return {}


def _require(schema: Schema, kind: str, rule: str, path: SchemaPath) -> None:
    if schema.get("type") != kind:
        raise path.error(f"{rule}, but this is of type {schema.get('type', 'any')}")


def _container(schema: Schema, path: SchemaPath) -> str:
    kind = {"array": "list", "object": "map"}.get(schema.get("type", ""))
    if kind is None:
        raise path.error("Atomic applies to lists and maps only; other types are always replaced as a whole")
    return kind


def _open(schema: Schema) -> Schema:
    """Preserves unknown fields: of an object itself, or of the items of a list."""
    if schema.get("type") == "array":
        return {"items": {**schema["items"], **_open(schema["items"])}}
    return {PRESERVE: True}


def _list_map(schema: Schema, keys: tuple[str, ...], path: SchemaPath) -> Schema:
    """A list map; its keys are wire names, and every item must have them (or a default)."""
    _require(schema, "array", "ListMap applies to lists", path)
    items: Schema = schema["items"]
    known: dict[str, Schema] = dict(items.get("properties", {}))
    found: list[str] = []
    for key in keys:
        name = key if key in known else wire_name(key)
        if name not in known:
            raise path.error(f"ListMap({key!r}): its items have no such field; they have {', '.join(known) or 'none'}")
        if name not in items.get("required", ()) and "default" not in known[name]:
            if not path.is_own_class:
                raise path.error(f"ListMap({key!r}): the key must be present in every item; give it a default")
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
"""A number or a string, such as a port or a percentage: 8080, "http", "25%"."""

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
    # No OpenAPI format matches what Python writes for these.
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
    """The schema of a scalar type; None for other types."""
    try:
        found = _LEAVES.get(hint)
    except TypeError:  # an unhashable hint is not a scalar type
        return None
    return None if found is None else dict(found)


def enum_schema(kind: type[enum.Enum], path: SchemaPath) -> Schema:
    """The schema of an enumeration: the values of its members."""
    return values_schema([one.value for one in kind], path)


def values_schema(values: Sequence[Any], path: SchemaPath) -> Schema:
    """The schema of an enumeration of values, which must have one type."""
    found = {_kind(one) for one in values}
    if len(found) != 1 or "" in found:
        shown = ", ".join(map(repr, values))
        raise path.error(f"the values {shown} have several types, or one without a schema; use strings")
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


def variants_schema(models: Sequence[type[Any]], schemas: Sequence[Schema], path: SchemaPath) -> Schema:
    """One object with the fields of all variants; the tag decides which are required.

    A structural schema defines every field once, outside of `oneOf`: variants with different schemas for one field name
    are rejected.
    """
    tags = {model.__struct_config__.tag_field for model in models}
    if len(tags) != 1 or None in tags:
        names = " | ".join(model.__name__ for model in models)
        raise path.error(
            f"{names} cannot be distinguished; give each a tag: class A(Model, tag=True, tag_field='type')"
        )
    (tag,) = tags
    values = [model.__struct_config__.tag for model in models]
    merged: Schema = {tag: {"type": "string", "enum": values}}
    for model, schema in zip(models, schemas, strict=True):
        _reject_rules(model, schema, path)
        for name, child in schema["properties"].items():
            if name != tag and merged.setdefault(name, _shared(name, child, schemas)) != _shared(name, child, schemas):
                raise path.error(f"{name} of {model.__name__} has another schema than in another variant; rename one")
    branches = [
        {"properties": {tag: {"enum": [value]}}, "required": list(schema.get("required", ()))}
        for value, schema in zip(values, schemas, strict=True)
    ]
    return {"type": "object", "required": [tag], "properties": merged, "oneOf": branches}


def _shared(name: str, child: Schema, schemas: Sequence[Schema]) -> Schema:
    """A field of all variants; a default is dropped unless all have the field, since it would apply to all of them."""
    if all(name in one["properties"] for one in schemas):
        return child
    return {keyword: value for keyword, value in child.items() if keyword != "default"}


def _reject_rules(model: type[Any], schema: Schema, path: SchemaPath) -> None:
    """Raises ConfigError for rules of one variant, which would apply to all of them."""
    if "x-kubernetes-validations" in schema:
        raise path.error(f"the rules of {model.__name__} would apply to every variant; put them on the union")


_OWN_PREFIX = "levelset."


def describe(model: type) -> str:
    """The docstring of a class itself, not of a base class, without indentation; empty if it has none."""
    return inspect.cleandoc(vars(model).get("__doc__") or "")


def describe_fields(model: type) -> Mapping[str, str]:
    """The attribute docstrings of a class by Python name; those of a subclass take precedence.

    Needs the source file: classes defined at a prompt have no attribute docstrings.
    """
    found: dict[str, str] = {}
    for one in reversed(model.__mro__):
        path = _file_of(one)
        if path is not None:
            found.update(
                _read_docstrings(path, path.stat().st_mtime_ns).get(one.__qualname__.replace(".<locals>", ""), {})
            )
    return found


def _file_of(model: type) -> Path | None:
    if model.__module__.startswith(_OWN_PREFIX) or model is object:
        return None
    name = getattr(sys.modules.get(model.__module__), "__file__", None)
    path = None if name is None else Path(name)
    return path if path is not None and path.suffix == ".py" and path.is_file() else None


@lru_cache(maxsize=256)
def _read_docstrings(path: Path, _: int) -> Mapping[str, Mapping[str, str]]:
    """The attribute docstrings of all classes in a file, by qualified name; cached until the file changes."""
    try:
        tree = ast.parse(path.read_text(encoding="utf-8"))
    except (OSError, SyntaxError, ValueError):
        return {}
    return dict(_classes(tree.body, ""))


def _classes(body: Sequence[ast.stmt], prefix: str) -> Iterator[tuple[str, Mapping[str, str]]]:
    for one in body:
        if isinstance(one, ast.ClassDef):
            yield f"{prefix}{one.name}", _attribute_docstrings(one.body)
        if isinstance(one, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield from _classes(one.body, f"{prefix}{one.name}.")


def _attribute_docstrings(body: Sequence[ast.stmt]) -> Mapping[str, str]:
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
# Keys below these are user-defined and keep their order.
_USER_KEYS: Final = frozenset({"default", "enum", "example", "properties"})


def order_keys(schema: dict[str, Any]) -> dict[str, Any]:
    """The schema with ordered keys: type and bounds, then members, then extensions; properties as declared."""
    made: dict[str, Any] = {}
    for name in sorted(schema, key=lambda one: (_RANK.get(one, len(_RANK)), one)):
        value = schema[name]
        if name == "properties":
            value = {member: order_keys(child) for member, child in value.items()}
        elif name not in _USER_KEYS:
            value = _ordered(value)
        made[name] = value
    return made


def _ordered(value: Any) -> Any:
    if is_map(value):
        return order_keys(value)
    return [_ordered(one) for one in value] if is_list(value) else value


_LISTS: Final = (list, tuple, abc.Sequence, abc.MutableSequence, abc.Collection, abc.Iterable)
_SETS: Final = (set, frozenset, abc.Set, abc.MutableSet)
_MAPS: Final = (dict, abc.Mapping, abc.MutableMapping)
_IDENTITY: Final = ("apiVersion", "kind", "metadata")
_ABSENT: Final = (None, msgspec.UNSET, msgspec.NODEFAULT)


def schema_of(kind: type[Object], *, reads_source: bool = True) -> Schema:
    """The schema of a kind: the value of `openAPIV3Schema`.

    ConfigError names the attribute, such as `Website.spec.ports`, that has no structural schema. Attribute docstrings
    are read from source files; `reads_source=False` skips them where file access must not block.
    """
    definition_of(kind)
    path = SchemaPath(kind.__name__, reads_source=reads_source)
    made = _struct_schema(kind, path, without=_IDENTITY)
    identity: Schema = {"apiVersion": {"type": "string"}, "kind": {"type": "string"}, "metadata": {"type": "object"}}
    return order_keys({**made, "properties": {**identity, **made["properties"]}})


def schema_for(hint: Any, path: SchemaPath) -> Schema:
    """The schema of a type annotation."""
    base, extras = unwrap_annotated(hint)
    if any(isinstance(one, PreserveUnknown) for one in extras):
        path = replace(path, is_open=True)
    options, is_nullable = options_of(base)
    inner = replace(path, distinguishes_null=False) if is_nullable else path
    if len(options) == 1 and options[0] is not base:
        made = schema_for(options[0], inner)
    elif len(options) == 1:
        made = _type_schema(base, path)
    else:
        made = _union_schema(options, inner)
    made = annotate(made, extras, path)
    return _nullable(made) if is_nullable and path.distinguishes_null else made


def _nullable(schema: Schema) -> Schema:
    return {**schema, "nullable": True, **({"enum": [*schema["enum"], None]} if "enum" in schema else {})}


def _type_schema(hint: Any, path: SchemaPath) -> Schema:
    found = leaf_schema(hint)
    if found is not None:
        return found
    origin, arguments = get_origin(hint) or hint, get_args(hint)
    if origin is Literal:
        return _literal_schema(arguments, path)
    if isinstance(hint, TypeVar):
        return _type_schema(hint.__bound__ or Any, path)
    if origin in _LISTS or origin in _SETS:
        return _list_schema(origin, arguments, path)
    if origin in _MAPS:
        return _map_schema(arguments, path)
    if isinstance(origin, type) and issubclass(origin, enum.Enum):
        return enum_schema(origin, path)
    if isinstance(origin, type) and issubclass(origin, Object):
        return _embedded_schema(origin, hint, path)
    if isinstance(origin, type) and issubclass(origin, msgspec.Struct):
        return _struct_schema(hint, path)
    shown = getattr(hint, "__name__", str(hint))
    raise path.error(f"there is no schema for {shown}; use a Model, a list, a dict with string keys, or a scalar type")


def _literal_schema(values: tuple[Any, ...], path: SchemaPath) -> Schema:
    made = values_schema([one for one in values if one is not None], path)
    return _nullable(made) if None in values and path.distinguishes_null else made


def _list_schema(origin: Any, arguments: tuple[Any, ...], path: SchemaPath) -> Schema:
    if origin is tuple and arguments and arguments[-1] is not Ellipsis:
        return _fixed_schema(arguments, path)
    item = arguments[0] if arguments else Any
    made: Schema = {"type": "array", "items": schema_for(item, path.items())}
    if origin in _SETS:
        made["x-kubernetes-list-type"] = "set"
    elif unwrap_annotated(item)[0] is Condition:
        made |= {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"]}
    return made


def _fixed_schema(arguments: tuple[Any, ...], path: SchemaPath) -> Schema:
    """A tuple of fixed length: a list of that length, if all items have one type."""
    if any(one != arguments[0] for one in arguments):
        raise path.error("a tuple of several types has no structural schema; use a Model with named fields")
    size = len(arguments)
    return {"type": "array", "items": schema_for(arguments[0], path.items()), "minItems": size, "maxItems": size}


def _map_schema(arguments: tuple[Any, ...], path: SchemaPath) -> Schema:
    key, value = arguments or (str, Any)
    base, extras = unwrap_annotated(key)
    if base is not str or any(isinstance(one, msgspec.Meta) for one in extras):
        raise path.error("keys of a map must be plain strings; use a Rule to constrain them")
    if unwrap_annotated(value)[0] in (Any, object):
        return {"type": "object", PRESERVE: True}
    return {"type": "object", "additionalProperties": schema_for(value, path.items())}


def _union_schema(options: list[Any], path: SchemaPath) -> Schema:
    bases = [unwrap_annotated(one)[0] for one in options]
    if {int, float} >= set(bases):
        return schema_for(options[bases.index(float)], path)
    if set(bases) == {int, str}:
        return dict(INT_OR_STRING)
    if all(get_origin(one) is Literal for one in bases):
        return values_schema([value for one in bases for value in get_args(one)], path)
    if all(isinstance(one, type) and issubclass(one, msgspec.Struct) for one in bases):
        return variants_schema(bases, [_struct_schema(one, path) for one in bases], path)
    shown = " | ".join(getattr(one, "__name__", str(one)) for one in bases)
    raise path.error(f"{shown} has no structural schema; use int | str, tagged Models, or Any with a Rule")


def _embedded_schema(kind: type[Object], hint: Any, path: SchemaPath) -> Schema:
    """An embedded object: with the fields of its class if it defines some, else with unknown fields preserved."""
    made = _struct_schema(hint, path, without=_IDENTITY)
    made["x-kubernetes-embedded-resource"] = True
    if not made["properties"] or "__definition__" not in vars(kind):
        for name in ("description", "properties", "required"):
            made.pop(name, None)
        return {**made, PRESERVE: True}
    return made


def _struct_schema(hint: Any, path: SchemaPath, *, without: tuple[str, ...] = ()) -> Schema:
    """The schema of a class, without the members of these names."""
    model: type[msgspec.Struct] = get_origin(hint) or hint
    config = model.__struct_config__
    if model in path.inside:
        if path.is_open:
            return {"type": "object", PRESERVE: True}
        raise path.error(
            f"{model.__name__} is recursive, which a structural schema cannot express; use PreserveUnknown()"
        )
    if config.array_like:
        raise path.error(f"{model.__name__} is array_like, which has no structural schema; remove array_like")
    inner = path.within(model)
    properties: Schema = {}
    required: list[str] = []
    if config.tag_field is not None:
        properties[config.tag_field] = values_schema([config.tag], path)
        required.append(config.tag_field)
    words: abc.Mapping[str, str] = describe_fields(model) if path.reads_source else {}
    for one in _fields(hint):
        if one.type is type(None) or one.encode_name in without:
            continue
        member = _member_schema(one, inner, words.get(one.name, ""))
        default = None if inner.is_own_class else _default_of(one, inner.member(one.encode_name))
        if default is not None:
            # A server evaluates the rules of a default before it sets the defaults within.
            member = {**member, "default": _complete(default, member) if _has_rules(member) else default}
        properties[one.encode_name] = member
        if one.required:
            required.append(one.encode_name)
    made: Schema = {"type": "object", "properties": properties}
    made |= {"description": describe(model)} if describe(model) else {}
    made |= {"required": required} if required else {}
    rules = rules_of(model)
    return {**made, **({"x-kubernetes-validations": validations(rules)} if rules else {})}


@lru_cache(maxsize=1024)
def _fields(hint: Any) -> tuple[msgspec.structs.FieldInfo, ...]:
    """The fields of a class, whose annotations take a while to resolve: many kinds share their classes."""
    return msgspec.structs.fields(hint)


def _member_schema(field: msgspec.structs.FieldInfo, path: SchemaPath, words: str) -> Schema:
    at = path.member(field.encode_name, distinguishes_null=field.required or not _is_absent(field.default))
    made = schema_for(field.type, at)
    if words and not _has_description(field.type):
        made["description"] = words
    return made


def _has_rules(schema: Any) -> bool:
    return is_map(schema) and ("x-kubernetes-validations" in schema or any(map(_has_rules, schema.values())))


def _complete(tree: Any, schema: Any) -> Any:
    """The tree with the defaults of what it leaves out."""
    if not is_map(schema):
        return tree
    if is_list(tree):
        return [_complete(one, schema.get("items")) for one in tree]
    if not is_map(tree):
        return tree
    known, others = schema.get("properties", {}), schema.get("additionalProperties")
    given = {name: _complete(one, known.get(name, others)) for name, one in tree.items()}
    return {**{name: one["default"] for name, one in known.items() if "default" in one}, **given}


def _is_absent(value: Any) -> bool:
    return any(value is one for one in _ABSENT)


def _has_description(hint: Any) -> bool:
    """Whether the annotation has a description, which takes precedence."""
    return any(isinstance(one, msgspec.Meta) and one.description for one in unwrap_annotated(hint)[1])


def _default_of(field: msgspec.structs.FieldInfo, path: SchemaPath) -> Any:
    """The default of the schema; None if it is the same as absence.

    Only default factories that are classes are called: other functions may return a different value each time.
    """
    default: Any = field.default
    if default is msgspec.NODEFAULT and isinstance(field.default_factory, type):
        default = field.default_factory()
    if _is_absent(default):
        return None
    try:
        tree = codec.to_tree(default)
    except BadObject as error:
        raise path.error(f"the default {default!r} cannot be encoded: {error}") from error
    is_empty = tree in ({}, []) and not isinstance(default, msgspec.Struct)
    return None if is_empty else tree
