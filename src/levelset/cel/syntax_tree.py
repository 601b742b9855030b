"""The syntax tree of CEL expressions: built by the parser, typed by the checker, and compiled to Python."""

import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from levelset.cel.types import DYN, Type

__all__ = [
    "Bind",
    "Call",
    "Entry",
    "Fold",
    "Ident",
    "ListOf",
    "Literal",
    "Logic",
    "MapOf",
    "Node",
    "OptMap",
    "Select",
    "Struct",
    "walk",
]


@dataclass(slots=True, eq=False)
class Node:
    """Any expression: its position in the source, its depth, and, once checked, its type."""

    position: int
    height: int = dataclasses.field(default=1, init=False)
    type: Type = dataclasses.field(default=DYN, init=False)

    def rest_on(self, *children: "Node | None") -> None:
        """Sets the depth from the depths of the children."""
        self.height = 1 + max((child.height for child in children if child is not None), default=0)


@dataclass(slots=True, eq=False)
class Literal(Node):
    """A constant."""

    value: Any


@dataclass(slots=True, eq=False)
class Ident(Node):
    """A name: a variable, or a type when `named` is set by the checker."""

    name: str
    named: Type | None = dataclasses.field(default=None, init=False)


@dataclass(slots=True, eq=False)
class Select(Node):
    """A field selection on an object or map; with `test`, a presence test; with `optional`, an optional value.

    The checker sets `named` if it is the name of a type, `variable` if it is the qualified name of a variable.
    """

    operand: Node
    field: str
    test: bool = False
    optional: bool = False
    named: Type | None = dataclasses.field(default=None, init=False)
    variable: str = dataclasses.field(default="", init=False)


@dataclass(slots=True, eq=False)
class Call(Node):
    """A function or operator, with a receiver if it is a method; the checker fills in the candidate overloads."""

    function: str
    target: Node | None
    arguments: list[Node]
    overloads: list[Any] = dataclasses.field(default_factory=list[Any], init=False)


@dataclass(slots=True, eq=False)
class Logic(Node):
    """`&&` or `||` of two or more operands."""

    operator: str
    operands: list[Node]


@dataclass(slots=True, eq=False)
class ListOf(Node):
    """A list literal; the elements at the indices in `optional` may be absent."""

    elements: list[Node]
    optional: frozenset[int] = frozenset()


@dataclass(slots=True, eq=False)
class Entry:
    """One entry of a map literal, or field of an object literal."""

    position: int
    key: Any
    value: Node
    optional: bool


@dataclass(slots=True, eq=False)
class MapOf(Node):
    """A map literal; keys are nodes."""

    entries: list[Entry]


@dataclass(slots=True, eq=False)
class Struct(Node):
    """An object literal of a named type; keys are field names."""

    name: str
    entries: list[Entry]


@dataclass(slots=True, eq=False)
class Fold(Node):
    """A macro that iterates over a range with one or two variables: all, exists, map, filter and the like."""

    macro: str
    over: Node
    names: tuple[str, ...]
    body: Node
    when: Node | None = None


@dataclass(slots=True, eq=False)
class Bind(Node):
    """A local variable (`cel.bind`) and the expression that uses it."""

    name: str
    value: Node
    body: Node


@dataclass(slots=True, eq=False)
class OptMap(Node):
    """`optMap`: maps a present optional value; with `flat` (`optFlatMap`) the body returns an optional value itself."""

    target: Node
    name: str
    body: Node
    flat: bool


def walk(tree: Node) -> Iterator[Node]:
    """The node and all its descendants."""
    waiting = [tree]
    while waiting:
        node = waiting.pop()
        yield node
        waiting.extend(child for child in _children(node) if child is not None)


def _children(node: Node) -> list[Node | None]:
    match node:
        case Select():
            return [node.operand]
        case Call():
            return [node.target, *node.arguments]
        case Logic():
            return [*node.operands]
        case ListOf():
            return [*node.elements]
        case MapOf():
            return [each for entry in node.entries for each in (entry.key, entry.value)]
        case Struct():
            return [entry.value for entry in node.entries]
        case Fold():
            return [node.over, node.when, node.body]
        case Bind():
            return [node.value, node.body]
        case OptMap():
            return [node.target, node.body]
        case _:
            return []
