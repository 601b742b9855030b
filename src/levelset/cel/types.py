"""The types of CEL: what an expression gives, what a function takes, and how large a value of it may be."""

from collections.abc import Mapping
from dataclasses import dataclass, field

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
    "Type",
    "list_of",
    "map_of",
    "object_of",
    "opaque",
    "optional_of",
    "param",
    "type_of",
]

_NO_FIELDS: Mapping[str, "Type"] = {}


@dataclass(frozen=True, slots=True, eq=False)
class Type:
    """A type. Two types are the same if `same` says so; sizes and nullability do not count.

    `fields` are those of an object, by the names that expressions use for them, and `keys` the names that the tree has
    for those fields which differ. `max_elements` is the largest size of a value (characters, items, entries) as far as
    a schema says so, and `min_size` the fewest bytes of its JSON.
    """

    kind: str
    name: str = ""
    params: tuple["Type", ...] = ()
    fields: Mapping[str, "Type"] = field(default_factory=lambda: _NO_FIELDS)
    keys: Mapping[str, str] = field(default_factory=dict[str, str])
    max_elements: int | None = None
    min_size: int = 0
    nullable: bool = False

    def same(self, other: "Type") -> bool:
        """Whether both are one type."""
        if self.kind != other.kind or self.name != other.name or len(self.params) != len(other.params):
            return False
        if self.kind == "object" and self.fields is not other.fields:
            return False
        return all(one.same(two) for one, two in zip(self.params, other.params, strict=True))

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
    """The type of lists of such items."""
    return Type("list", params=(item,), max_elements=max_elements, min_size=2)


def map_of(key: Type, value: Type, *, max_elements: int | None = None) -> Type:
    """The type of maps from such keys to such values."""
    return Type("map", params=(key, value), max_elements=max_elements, min_size=2)


def optional_of(value: Type) -> Type:
    """The type of values that may be there."""
    return Type("optional", params=(value,))


def type_of(value: Type) -> Type:
    """The type of a type."""
    return Type("type", params=(value,))


def object_of(fields: Mapping[str, Type], *, name: str = "object", keys: Mapping[str, str] | None = None) -> Type:
    """The type of objects with these fields and no others; each call makes another type."""
    return Type("object", name=name, fields=dict(fields), keys=keys or {}, min_size=2)


def opaque(name: str) -> Type:
    """A type that only functions know how to handle."""
    return Type("opaque", name=name)


def param(name: str) -> Type:
    """A type that stands for any, the same wherever it stands in a signature."""
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
