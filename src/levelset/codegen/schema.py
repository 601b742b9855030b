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
"""

import enum
from collections import abc
from dataclasses import replace
from typing import Any, Final, Literal, TypeVar, get_args, get_origin

import msgspec

from levelset.codegen.arranging import arrange
from levelset.codegen.constraints import PRESERVE, annotate, validations
from levelset.codegen.descriptions import describe, describe_fields
from levelset.codegen.hints import Place, Schema, options_of, unfold
from levelset.codegen.leaves import INT_OR_STRING, enum_schema, leaf_schema, values_schema
from levelset.codegen.variants import variants_schema
from levelset.errors import BadObject
from levelset.objects import codec
from levelset.objects.declarations import PreserveUnknown, rules_of
from levelset.objects.definition import definition_of
from levelset.objects.meta import Condition
from levelset.objects.resource import Object

__all__ = ["schema_for", "schema_of"]

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
