"""Checks what an expression has written out: patterns, times, formats, lists and maps, conversions of constants."""

from collections.abc import Callable, Iterator
from typing import Any

from levelset.cel.errors import BadProgram, CompileError, EvaluationError, Issue
from levelset.cel.format_literals import format_issue
from levelset.cel.library.regexes import compile_pattern
from levelset.cel.syntax_tree import Call, ListOf, Literal, MapOf, Node, walk
from levelset.cel.types import Type
from levelset.cel.values import MAX_TIME, MIN_TIME, parse_duration, parse_timestamp
from levelset.re2 import BadRegex

__all__ = ["check_literals"]

_PARSERS: dict[str, Callable[[str], object]] = {"duration": parse_duration, "timestamp": parse_timestamp}
_PATTERNS = frozenset(("matches", "find", "findAll"))
_CONVERSIONS = frozenset(("bool", "bytes", "double", "dyn", "duration", "int", "string", "timestamp", "type", "uint"))


def check_literals(text: str, tree: Node) -> None:
    """Raises CompileError for what is written out and invalid, in the words of cel-go; the tree has types."""
    found = [issue for node in walk(tree) if isinstance(node, Call) for issue in _issues(text, node)]
    found += _mixed_literals(tree)
    if found:
        raise CompileError(text, found)
    for node in walk(tree):
        _constant(text, node)


def _mixed_literals(tree: Node) -> Iterator[Issue]:
    """What is wrong with literal lists and maps: their elements must have one type, and dyn is one, too."""
    formats = [node for node in walk(tree) if isinstance(node, Call) and node.function == "format"]
    exempt = {id(each) for node in formats for each in walk(node)}
    for node in walk(tree):
        if id(node) in exempt:
            continue
        if isinstance(node, ListOf):
            yield from _of_other_types([(one, index in node.optional) for index, one in enumerate(node.elements)])
        elif isinstance(node, MapOf):
            yield from _of_other_types([(entry.key, False) for entry in node.entries])
            yield from _of_other_types([(entry.value, entry.optional) for entry in node.entries])


def _of_other_types(elements: list[tuple[Node, bool]]) -> Iterator[Issue]:
    """Elements, each with whether it is an optional value, that are not of the type of the first one."""
    first: Type | None = None
    for node, is_optional in elements:
        kind = node.type.params[0] if is_optional and node.type.params else node.type
        first = first or kind
        if not first.same(kind):
            yield Issue(node.position, f"expected type '{first}' but found '{kind}'")


def _constant(text: str, node: Node) -> tuple[Any] | None:
    """The value of a constant, or of its conversion, which upstream computes when it plans a program.

    Raises BadProgram if it cannot be converted.
    """
    if isinstance(node, Literal):
        return (node.value,)
    if not isinstance(node, Call) or node.function not in _CONVERSIONS or len(node.overloads) != 1 or node.target:
        return None
    found = _constant(text, node.arguments[0])
    try:
        return None if found is None else (node.overloads[0].run(found[0]),)
    except EvaluationError as error:
        raise BadProgram(text, node.position, str(error)) from None


def _issues(text: str, node: Call) -> list[Issue]:
    if node.function == "format":
        issue = format_issue(node)
        return [] if issue is None else [issue]
    arguments = node.arguments if node.target is None else [node.target, *node.arguments]
    place = 1 if node.function in _PATTERNS else 0
    literal = arguments[place] if len(arguments) > place else None
    if node.function == "timestamp" and isinstance(literal, Literal) and type(literal.value) is int:
        is_time = MIN_TIME <= literal.value * 10**9 <= MAX_TIME
        return [] if is_time else [Issue(literal.position, "invalid timestamp argument")]
    if not isinstance(literal, Literal) or not isinstance(literal.value, str):
        return []
    try:
        if node.function in _PATTERNS:
            compile_pattern(literal.value)
        elif node.function in _PARSERS and node.target is None:
            _PARSERS[node.function](literal.value)
    except BadRegex as error:
        if node.function != "matches":
            raise BadProgram(text, literal.position, str(error)) from None
        return [Issue(literal.position, f"invalid matches argument: {error}")]
    except EvaluationError:
        return [Issue(literal.position, f"invalid {node.function} argument")]
    return []
