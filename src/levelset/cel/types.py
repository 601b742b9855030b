"""CEL types with the size limits of schemas, and the declarations of functions: signature and implementation."""

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any

import msgspec

__all__ = [
    "BOOL",
    "BYTES",
    "DOUBLE",
    "DURATION",
    "DYN",
    "INT",
    "NULL",
    "OPAQUE",
    "STRING",
    "TIMESTAMP",
    "TYPE_NAMES",
    "UINT",
    "Overload",
    "Row",
    "Type",
    "declare",
    "list_of",
    "map_of",
    "object_of",
    "opaque",
    "optional_of",
    "param",
    "type_of",
]

_NO_FIELDS: Mapping[str, "Type"] = {}


class Type(msgspec.Struct, frozen=True, eq=False):
    """A type. Two types are the same if `same` returns True; sizes and nullability are ignored.

    `fields` are those of an object, by the names that expressions use for them, and `keys` the names in the JSON tree
    of those fields for which they differ. `max_elements` is the maximum size of a value (characters, items, entries) if
    the schema limits it, and `min_size` the minimum number of bytes of its JSON.
    """

    kind: str
    name: str = ""
    params: tuple["Type", ...] = ()
    fields: Mapping[str, "Type"] = msgspec.field(default_factory=lambda: _NO_FIELDS)
    keys: Mapping[str, str] = msgspec.field(default_factory=dict[str, str])
    max_elements: int | None = None
    min_size: int = 0
    nullable: bool = False

    def same(self, other: "Type") -> bool:
        """Whether both are the same type."""
        if self.kind != other.kind or self.name != other.name or len(self.params) != len(other.params):
            return False
        if self.kind == "object" and self.fields is not other.fields:
            return False
        return all(one.same(two) for one, two in zip(self.params, other.params, strict=True))

    def field_type(self, name: str) -> "Type | None":
        """The type of a field of an object; one that is called like a keyword is found with and without its escape."""
        return self.fields.get(name) or self.fields.get(f"__{name}__")

    def __str__(self) -> str:
        name = self.name or _SHOWN.get(self.kind, self.kind)
        return f"{name}({', '.join(map(str, self.params))})" if self.params else name


_SHOWN = {"null_type": "null", "param": "dyn", "optional": "optional_type"}

BOOL = Type("bool", min_size=4)
INT = Type("int", min_size=1)
UINT = Type("uint", min_size=1)
DOUBLE = Type("double", min_size=1)
STRING = Type("string", min_size=2)
BYTES = Type("bytes", min_size=2)
NULL = Type("null_type", min_size=4)
DYN = Type("dyn", min_size=1)
TIMESTAMP = Type("timestamp", min_size=21)
DURATION = Type("duration", min_size=3)


def list_of(item: Type, *, max_elements: int | None = None) -> Type:
    """The type of lists with items of this type."""
    return Type("list", params=(item,), max_elements=max_elements, min_size=2)


def map_of(key: Type, value: Type, *, max_elements: int | None = None) -> Type:
    """The type of maps with these key and value types."""
    return Type("map", params=(key, value), max_elements=max_elements, min_size=2)


def optional_of(value: Type) -> Type:
    """The type of optional values."""
    return Type("optional", params=(value,))


def type_of(value: Type) -> Type:
    """The type of a type."""
    return Type("type", params=(value,))


def object_of(fields: Mapping[str, Type], *, name: str = "object", keys: Mapping[str, str] | None = None) -> Type:
    """The type of objects with exactly these fields; each call creates a distinct type."""
    return Type("object", name=name, fields=dict(fields), keys=keys or {}, min_size=2)


def opaque(name: str) -> Type:
    """An opaque type, whose values only functions can use."""
    return Type("opaque", name=name)


def param(name: str) -> Type:
    """A type parameter; all uses in one signature are the same type."""
    return Type("param", name=name)


OPAQUE: Mapping[str, Type] = {
    "URL": opaque("kubernetes.URL"),
    "Quantity": opaque("kubernetes.Quantity"),
    "Semver": opaque("kubernetes.Semver"),
    "Format": opaque("kubernetes.NamedFormat"),
    "IP": opaque("net.IP"),
    "CIDR": opaque("net.CIDR"),
    "Authorizer": opaque("kubernetes.authorization.Authorizer"),
    "PathCheck": opaque("kubernetes.authorization.PathCheck"),
    "GroupCheck": opaque("kubernetes.authorization.GroupCheck"),
    "ResourceCheck": opaque("kubernetes.authorization.ResourceCheck"),
    "Decision": opaque("kubernetes.authorization.Decision"),
}

TYPE_NAMES: Mapping[str, Type] = {
    "bool": BOOL,
    "int": INT,
    "uint": UINT,
    "double": DOUBLE,
    "string": STRING,
    "bytes": BYTES,
    "null_type": NULL,
    "list": list_of(DYN),
    "map": map_of(DYN, DYN),
    "type": type_of(DYN),
    "optional_type": optional_of(DYN),
    "google.protobuf.Timestamp": TIMESTAMP,
    "google.protobuf.Duration": DURATION,
    **{kind.name: kind for kind in OPAQUE.values()},
}


Run = Callable[[], Any] | Callable[[Any], Any] | Callable[[Any, Any], Any] | Callable[[Any, Any, Any], Any]
Row = tuple[str, Run] | tuple[str, Run, str]


class Overload(msgspec.Struct, frozen=True):
    """One overload of a function.

    `inline` is Python source with {0}, {1} for the arguments, used instead of a call where the types are known.
    `charge` is the cost of a call beyond one step: see levelset.cel.runtime_cost.
    """

    name: str
    params: tuple[Type, ...]
    result: Type
    is_method: bool
    run: Callable[..., Any]
    inline: str = ""
    charge: str = ""

    @property
    def is_generic(self) -> bool:
        """Whether some parameter is a type parameter."""
        return any(_has_param(kind) for kind in (*self.params, self.result))


def declare(rows: Sequence[Row], *, charge: str = "") -> list[Overload]:
    """Overloads from lines such as `startsWith: string.(string) bool`; without receiver, `size: (list(A)) int`."""
    return [_overload(row[0], row[1], row[2] if len(row) > 2 else "", charge) for row in rows]


_SIMPLE = {str(kind): kind for kind in (BOOL, BYTES, DOUBLE, DURATION, DYN, INT, STRING, TIMESTAMP, UINT)} | {
    "null": NULL,
    **OPAQUE,
}
_MAKERS: dict[str, Callable[..., Type]] = {"list": list_of, "map": map_of, "optional": optional_of, "type": type_of}


def _overload(line: str, run: Run, inline: str, charge: str) -> Overload:
    name, _, rest = line.partition(": ")
    head, result = _split_result(rest)
    receiver, _, inside = head.partition("(") if head.startswith("(") else head.partition(".(")
    params = [_type(word) for word in _split(inside[:-1])]
    if receiver:
        params.insert(0, _type(receiver))
    return Overload(name, tuple(params), _type(result), bool(receiver), run, inline, charge)


def _split_result(rest: str) -> tuple[str, str]:
    """The text up to the bracket that closes the parameters, and the result after it."""
    start = 0 if rest.startswith("(") else rest.index(".(") + 1
    depth = 0
    for at in range(start, len(rest)):
        depth += {"(": 1, ")": -1}.get(rest[at], 0)
        if depth == 0:
            return rest[: at + 1], rest[at + 2 :]
    raise ValueError(f"not a signature: {rest}")


def _split(words: str) -> list[str]:
    """Splits at commas outside of brackets."""
    found, depth, last = list[str](), 0, 0
    for at, sign in enumerate(words):
        depth += {"(": 1, ")": -1}.get(sign, 0)
        if sign == "," and depth == 0:
            found.append(words[last:at])
            last = at + 1
    return [word.strip() for word in [*found, words[last:]] if word.strip()]


@cache
def _type(word: str) -> Type:
    if word in _SIMPLE:
        return _SIMPLE[word]
    if len(word) == 1 and word.isupper():
        return param(word)
    name, _, inside = word.partition("(")
    return _MAKERS[name](*(_type(each) for each in _split(inside[:-1])))


def _has_param(kind: Type) -> bool:
    return kind.kind == "param" or any(map(_has_param, kind.params))
