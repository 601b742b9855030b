"""The syntax tree of CEL expressions: built by the parser, typed by the checker, and compiled to Python."""

from collections.abc import Iterator
from typing import Any

import msgspec

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


class _Positioned(msgspec.Struct, eq=False):
    position: int


class Node(_Positioned, kw_only=True):
    """Any expression: its position in the source, its depth, and, once checked, its type."""

    height: int = 1
    type: Type = DYN

    def rest_on(self, *children: "Node | None") -> None:
        """Sets the depth from the depths of the children."""
        self.height = 1 + max((child.height for child in children if child is not None), default=0)


class Literal(Node):
    """A constant."""

    value: Any


class Ident(Node):
    """A name: a variable, or a type when `named` is set by the checker."""

    name: str
    named: Type | None = None


class Select(Node):
    """A field selection on an object or map; with `test`, a presence test; with `optional`, an optional value.

    The checker sets `named` if it is the name of a type, `variable` if it is the qualified name of a variable.
    """

    operand: Node
    field: str
    test: bool = False
    optional: bool = False
    named: Type | None = None
    variable: str = ""


class Call(Node):
    """A function or operator, with a receiver if it is a method; the checker fills in the candidate overloads."""

    function: str
    target: Node | None
    arguments: list[Node]
    overloads: list[Any] = []


class Logic(Node):
    """`&&` or `||` of two or more operands."""

    operator: str
    operands: list[Node]


class ListOf(Node):
    """A list literal; the elements at the indices in `optional` may be absent."""

    elements: list[Node]
    optional: frozenset[int] = frozenset()


class Entry(_Positioned):
    """One entry of a map literal, or field of an object literal."""

    key: Any
    value: Node
    optional: bool


class MapOf(Node):
    """A map literal; keys are nodes."""

    entries: list[Entry]


class Struct(Node):
    """An object literal of a named type; keys are field names."""

    name: str
    entries: list[Entry]


class Fold(Node):
    """A macro that iterates over a range with one or two variables: all, exists, map, filter and the like."""

    macro: str
    over: Node
    names: tuple[str, ...]
    body: Node
    when: Node | None = None


class Bind(Node):
    """A local variable (`cel.bind`) and the expression that uses it."""

    name: str
    value: Node
    body: Node


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
