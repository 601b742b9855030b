"""Generates random sample objects from the fields of a class, for tests; the same ones for the same seed."""

import math
import string
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any, Final, TypeVar

import msgspec
from msgspec import inspect

from levelset.errors import ConfigError
from levelset.objects import codec
from levelset.objects.kind_definition import definition_of
from levelset.objects.quantity import Quantity
from levelset.objects.resource import Object
from levelset.objects.timestamps import MicroTime, format_time

__all__ = ["make_samples"]

O = TypeVar("O", bound=Object)  # noqa: E741  # the letter the type checker shows

_LETTERS: Final = string.ascii_lowercase + string.digits
_WORDS: Final = ("", "a", "web", "Ärger", "two words", "x-1", "0", "null", "a/b:c")
_START: Final = datetime(2026, 1, 1, tzinfo=UTC)
_MAX_DEPTH: Final = 4


def make_samples(kind: type[O], *, count: int = 100, seed: int = 0) -> Sequence[O]:
    """Generates `count` objects of a class; optional fields are present half of the time.

    ConfigError names a field for which no value can be generated, such as a string with a pattern: then create the
    objects yourself, or with a property testing library.
    """
    shape = inspect.type_info(kind)
    assert isinstance(shape, inspect.StructType)  # classes of objects are structs
    return [_sample(kind, shape, Random(f"{seed}/{index}")) for index in range(count)]  # noqa: S311 - samples for tests


def _sample(kind: type[O], shape: inspect.StructType, random: Random) -> O:
    definition = definition_of(kind)
    metadata: dict[str, Any] = {"name": _name(random), "uid": _name(random), "resourceVersion": "7"}
    if definition.namespaced:
        metadata["namespace"] = _name(random)
    for word in ("labels", "annotations"):
        if random.random() < 0.5:
            metadata[word] = {_name(random): _name(random) for _ in range(random.randint(1, 2))}
    tree: dict[str, Any] = {"apiVersion": definition.gvk.api_version, "kind": definition.gvk.kind, "metadata": metadata}
    for field in shape.fields:
        if field.encode_name not in tree and (field.required or random.random() < 0.5):
            tree[field.encode_name] = _value(field.type, random, field.encode_name, depth=0)
    return codec.from_tree(kind, tree)


def _value(shape: inspect.Type, random: Random, at: str, *, depth: int) -> Any:
    """A JSON value that fits the shape."""
    if isinstance(shape, inspect.Metadata):
        return _value(shape.type, random, at, depth=depth)
    if isinstance(shape, inspect.UnionType):
        return _value(_choice(shape, random, depth), random, at, depth=depth)
    if isinstance(shape, inspect.StructType):
        return _members(shape, random, at, depth=depth + 1)
    if isinstance(shape, inspect.DictType):
        return _dict(shape, random, at, depth=depth + 1)
    if isinstance(shape, inspect.ListType | inspect.SetType | inspect.FrozenSetType | inspect.VarTupleType):
        low = shape.min_length or 0
        high = min(low + 3, shape.max_length if shape.max_length is not None else low + 3)
        size = low if depth > _MAX_DEPTH else random.randint(low, high)
        return [_value(shape.item_type, random, f"{at}[{index}]", depth=depth + 1) for index in range(size)]
    if isinstance(shape, inspect.TupleType):
        return [_value(one, random, f"{at}[{index}]", depth=depth + 1) for index, one in enumerate(shape.item_types)]
    plain = _PLAIN.get(type(shape))
    if plain is None:
        raise ConfigError(f"{at}: cannot generate a {type(shape).__name__}; pass samples of your own")
    return plain(shape, random, at)


def _choice(shape: inspect.UnionType, random: Random, depth: int) -> inspect.Type:
    nothing = [one for one in shape.types if isinstance(one, inspect.NoneType)]
    return nothing[0] if nothing and depth > _MAX_DEPTH else random.choice(shape.types)


def _members(shape: inspect.StructType, random: Random, at: str, *, depth: int) -> dict[str, Any]:
    made: dict[str, Any] = {} if shape.tag_field is None else {shape.tag_field: shape.tag}
    for field in shape.fields:
        if field.required or (depth <= _MAX_DEPTH and random.random() < 0.5):
            made[field.encode_name] = _value(field.type, random, f"{at}.{field.encode_name}", depth=depth)
    return made


def _dict(shape: inspect.DictType, random: Random, at: str, *, depth: int) -> dict[str, Any]:
    low = shape.min_length or 0
    high = min(low + 2, shape.max_length if shape.max_length is not None else low + 2)
    size = low if depth > _MAX_DEPTH else random.randint(low, high)
    keys = {str(_value(shape.key_type, random, at, depth=depth)) or "k" for _ in range(size)}
    return {key: _value(shape.value_type, random, f"{at}.{key}", depth=depth) for key in sorted(keys)}


def _text(shape: Any, random: Random, at: str) -> str:
    if shape.pattern is not None:
        raise ConfigError(f"{at}: cannot generate a string that matches {shape.pattern!r}; pass samples of your own")
    low = shape.min_length or 0
    found = random.choice(_WORDS)
    if len(found) < low:
        found += "".join(random.choice(_LETTERS) for _ in range(low - len(found)))
    return found if shape.max_length is None else found[: shape.max_length]


def _whole(shape: Any, random: Random, _at: str) -> int:
    step = shape.multiple_of or 1
    low = shape.ge if shape.ge is not None else (shape.gt + 1 if shape.gt is not None else None)
    high = shape.le if shape.le is not None else (shape.lt - 1 if shape.lt is not None else None)
    if low is None:
        low = -5 * step if high is None else high - 100 * step
    if high is None:
        high = low + 100 * step
    return random.randint(-(-low // step), high // step) * step


def _number(shape: Any, random: Random, _at: str) -> float:
    low = shape.ge if shape.ge is not None else (math.nextafter(shape.gt, math.inf) if shape.gt is not None else -10.0)
    high = (
        shape.le
        if shape.le is not None
        else (math.nextafter(shape.lt, -math.inf) if shape.lt is not None else low + 20)
    )
    return round(random.uniform(low, high) * 4) / 4 if high - low >= 1 else random.uniform(low, high)


def _time(_shape: Any, random: Random, _at: str) -> str:
    return format_time(_START + timedelta(seconds=random.randint(0, 10**8)))


def _special(shape: Any, random: Random, at: str) -> Any:
    if shape.cls is Quantity:
        return random.choice(("500m", "1", "1Gi", "250M"))
    if shape.cls is MicroTime:
        return f"{_START + timedelta(microseconds=random.randint(0, 10**12)):%Y-%m-%dT%H:%M:%S.%fZ}"
    raise ConfigError(f"{at}: cannot generate a {shape.cls.__name__}; pass samples of your own")


def _free(_shape: Any, random: Random, _at: str) -> Any:
    return random.choice((True, 3, "free", ["a"], {"free": "form"}))


def _name(random: Random) -> str:
    return random.choice(string.ascii_lowercase) + "".join(random.choice(_LETTERS) for _ in range(5))


_PLAIN: Final[dict[type, Callable[[Any, Random, str], Any]]] = {
    inspect.StrType: _text,
    inspect.IntType: _whole,
    inspect.FloatType: _number,
    inspect.BoolType: lambda _shape, random, _at: random.random() < 0.5,
    inspect.NoneType: lambda _shape, _random, _at: None,
    inspect.LiteralType: lambda shape, random, _at: random.choice(list(shape.values)),
    inspect.EnumType: lambda shape, random, _at: msgspec.to_builtins(random.choice(list(shape.cls))),
    inspect.DateTimeType: _time,
    inspect.CustomType: _special,
    inspect.AnyType: _free,
    inspect.RawType: _free,
}
