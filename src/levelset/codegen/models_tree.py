"""What a schema says, as a small tree of values: between reading schemas and writing classes.

A `Shape` becomes a class and a `Member` one of its attributes. Shapes are compared by what they hold, so two places of
a schema that say the same share a class; descriptions do not count.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final, Literal, TypeAlias

__all__ = [
    "ANYTHING",
    "Choice",
    "Either",
    "Inline",
    "ListOf",
    "MapOf",
    "Member",
    "Named",
    "Role",
    "Shape",
    "Type",
    "Word",
    "inlined",
    "named",
]

Role: TypeAlias = Literal["Model", "Spec", "Status"]
"""The base of the class that a shape becomes."""


@dataclass(frozen=True, slots=True)
class Word:
    """A type that is there already, by the name it is written with: `str`, `datetime`, `Quantity`, `Any`."""

    name: str


@dataclass(frozen=True, slots=True)
class Choice:
    """One of some values."""

    values: tuple[str | int, ...]


@dataclass(frozen=True, slots=True)
class ListOf:
    """A list of items that are all alike."""

    item: "Type"


@dataclass(frozen=True, slots=True)
class MapOf:
    """A map from names of any kind to values that are all alike."""

    value: "Type"


@dataclass(frozen=True, slots=True)
class Either:
    """One type or another, such as a number or a text."""

    types: tuple["Type", ...]


@dataclass(frozen=True, slots=True)
class Named:
    """The class of a definition that other schemas refer to by its full name."""

    definition: str


@dataclass(frozen=True, slots=True)
class Inline:
    """A class that stands where it is used and has no name of its own."""

    shape: "Shape"


Type: TypeAlias = Word | Choice | ListOf | MapOf | Either | Named | Inline

ANYTHING: Final = Word("Any")


@dataclass(frozen=True, slots=True)
class Member:
    """An attribute: its name on the wire, its type, and when it may be missing.

    `fallback` is what stands in the class for a member that is missing: `None`, `()`, `{}`, or `new` for an empty
    object of its own class; without one the member must be given. `notes` are declarations as they are written, such
    as `ListMap("name")`.
    """

    wire: str
    type: Type
    nullable: bool = False
    fallback: str | None = None
    notes: tuple[str, ...] = ()
    description: str = field(default="", compare=False)

    @property
    def required(self) -> bool:
        """Whether an object without it is refused."""
        return self.fallback is None


@dataclass(frozen=True, slots=True)
class Shape:
    """A class to be: its members, those that are required first, and its base."""

    members: tuple[Member, ...]
    role: Role = "Model"
    description: str = field(default="", compare=False)

    @property
    def open(self) -> bool:
        """Whether an empty object has this shape."""
        return not any(member.required for member in self.members)


def inlined(kind: Type) -> Iterator[Shape]:
    """The shapes that a type holds, without going into them."""
    for one in _leaves(kind):
        if isinstance(one, Inline):
            yield one.shape


def named(kind: Type) -> Iterator[str]:
    """The definitions that a type refers to, without those of its shapes' members."""
    for one in _leaves(kind):
        if isinstance(one, Named):
            yield one.definition


def _leaves(kind: Type) -> Iterator[Type]:
    match kind:
        case ListOf(inner) | MapOf(inner):
            yield from _leaves(inner)
        case Either(types):
            for one in types:
                yield from _leaves(one)
        case _:
            yield kind
