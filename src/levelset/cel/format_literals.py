"""Checks calls of `format` whose string and list are written out: each clause against the type of its argument."""

import re
from collections.abc import Iterator

from levelset.cel.errors import Issue
from levelset.cel.syntax_tree import Call, ListOf, Literal, MapOf, Node
from levelset.cel.types import Type
from levelset.objects.lazy_pattern import Pattern

__all__ = ["format_issue"]

_CLAUSE = Pattern(r"%(?:(%)|(\.[0-9]*)?(.)?)", re.DOTALL)
_TEXTS = "list map int uint double bool string timestamp bytes duration type null_type"
_PLAIN = (
    "string clause can only be used on strings, bools, bytes, ints, doubles, maps, lists, types, durations, "
    "and timestamps"
)
_HEX = ("int uint string bytes", "only integers, byte buffers, and strings can be formatted as hex")
# The kinds of types that a clause takes, and what is said of others. A text may be NaN or an infinity.
_CLAUSES = {
    "s": (_TEXTS, _PLAIN),
    "d": ("int uint", "decimal clause can only be used on integers"),
    "f": ("double string", "fixed-point clause can only be used on doubles"),
    "e": ("double string", "scientific clause can only be used on doubles"),
    "b": ("int uint bool", "only integers and bools can be formatted as binary"),
    "o": ("int uint", "octal clause can only be used on integers"),
    "x": _HEX,
    "X": _HEX,
}
_NAMES = {
    "timestamp": "google.protobuf.Timestamp",
    "duration": "google.protobuf.Duration",
    "optional": "optional_type",
    "param": "dyn",
}
_MAX_PRECISION = 2**63 - 1


def format_issue(node: Call) -> Issue | None:
    """What is wrong with a call of `format`; None if nothing is, or if it can only be known when it is evaluated."""
    if not isinstance(node.target, Literal) or not isinstance(node.target.value, str):
        return None
    if len(node.arguments) != 1 or not isinstance(node.arguments[0], ListOf):
        return None
    values = node.arguments[0].elements
    used = 0
    for match in _CLAUSE.finditer(node.target.value):
        if match[1]:
            continue
        value = values[used] if used < len(values) else None
        issue = _clause_issue(node.position, match[2], match[3], value, used)
        if issue is not None:
            return issue
        used += 1
    if len(values) > used:
        given = f"(expected {used}, got {len(values)})"
        return Issue(node.position, f"too many arguments supplied to string.format {given}")
    return None


def _clause_issue(
    position: int, precision: str | None, sign: str | None, value: Node | None, index: int
) -> Issue | None:
    if sign is None and precision is None:
        return Issue(position, "unexpected end of string")
    if value is None:
        return Issue(position, f"index {index} out of range")
    problem = _unparsed(precision, sign)
    if problem:
        return Issue(position, f"could not parse formatting clause: {problem}")
    kinds, words = _CLAUSES[sign or ""]
    bad = next(_of_other_kinds(value, kinds.split()), None)
    if bad is None:
        return None
    return Issue(bad.position, f"error during formatting: {words}, was given {_name(bad.type)}")


def _unparsed(precision: str | None, sign: str | None) -> str:
    """Why a clause cannot be parsed; empty if it can."""
    if precision is not None:
        digits, where = precision[1:], "error while parsing precision: "
        failed = f'{where}error while converting precision to integer: strconv.Atoi: parsing "{digits}": '
        if sign is None:
            return f"{where}could not find end of precision specifier"
        if not digits:
            return f"{failed}invalid syntax"
        if len(digits) > 100 or int(digits) > _MAX_PRECISION:
            return f"{failed}value out of range"
    return "" if sign in _CLAUSES else f'unrecognized formatting clause "{sign}"'


def _of_other_kinds(node: Node, kinds: list[str]) -> Iterator[Node]:
    """The nodes that have none of these kinds of types: the argument, or what a literal list or map contains."""
    if node.type.kind not in kinds and node.type.kind not in ("dyn", "param"):
        yield node
    elif "list" not in kinds:
        return
    elif isinstance(node, ListOf):
        for each in node.elements:
            yield from _of_other_kinds(each, kinds)
    elif isinstance(node, MapOf):
        for entry in node.entries:
            yield from _of_other_kinds(entry.key, kinds)
            yield from _of_other_kinds(entry.value, kinds)


def _name(kind: Type) -> str:
    return kind.name or _NAMES.get(kind.kind, kind.kind)
