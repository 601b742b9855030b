r"""JSONPath of printer columns, scale paths and selectable fields: a path into an object, parsed once.

Supports `.spec.replicas`, `.metadata.labels['example\.com/a']`, `.items[0]`, `.items[-1]`, `.items[*].name`, `..name`
and filters such as `.conditions[?(@.type=="Ready")].status`. A missing member yields no value, never an error.
"""

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from levelset.errors import BadPointer
from levelset.objects.json_tree import is_list, is_map

__all__ = ["JsonPath", "parse_path"]

Step = Callable[[Any], Iterable[Any]]


@dataclass(frozen=True, slots=True)
class JsonPath:
    """A parsed path; `names` is set only for a path of plain member names, such as `.spec.replicas`."""

    text: str
    names: tuple[str, ...] | None
    _steps: tuple[Step, ...] = field(repr=False, compare=False)

    def find(self, tree: Any) -> list[Any]:
        """All values at the path, in document order."""
        found = [tree]
        for step in self._steps:
            found = [value for one in found for value in step(one)]
        return found

    def first(self, tree: Any) -> Any:
        """The first value at the path; None if there is none."""
        if self.names is None:
            found = self.find(tree)
            return found[0] if found else None
        for name in self.names:
            if not is_map(tree):
                return None
            tree = tree.get(name)
        return tree


@lru_cache(maxsize=4096)
def parse_path(text: str) -> JsonPath:
    """Parses a path, with or without braces around it; raises BadPointer with the position."""
    if not isinstance(text, str):
        raise BadPointer(f"a JSONPath must be a string, not {type(text).__name__}")
    body = text[1:-1] if text.startswith("{") and text.endswith("}") else text
    body = body.removeprefix("$")
    names: list[str | None] = []
    steps: list[Step] = []
    at = 0
    while at < len(body):
        at = _parse_step(body, at, names, steps)
    plain = tuple(name for name in names if name is not None)
    return JsonPath(text, plain if len(plain) == len(names) else None, tuple(steps))


_name = re.compile(r"(?:\\.|[^.\[\]\\'\"(){}*?@\s])+", re.DOTALL)
_escape = re.compile(r"\\(.)", re.DOTALL)
_quoted = re.compile(r"""'((?:\\.|[^'\\])*)'|"((?:\\.|[^"\\])*)\"""", re.DOTALL)
_index = re.compile(r"-?\d{1,9}")
_slice = re.compile(r"(-?\d{1,9})?:(-?\d{1,9})?")
_filter = re.compile(r"\?\(\s*@((?:\\.|[^=!<>\\\s)])*)\s*(?:(==|!=|<=|>=|<|>)\s*(.*?))?\s*\)\]", re.DOTALL)


def _parse_step(body: str, at: int, names: list[str | None], steps: list[Step]) -> int:
    if body.startswith("..", at):
        names.append(None)
        steps.append(_descend)
        if at + 2 == len(body):
            raise _bad(body, at, "expected a member name or [ after ..")
        # `..name` is a descent followed by a member: leave one dot for the next step to parse.
        return at + 2 if body[at + 2] == "[" else at + 1
    if body[at] == "[":
        return _parse_bracket(body, at, names, steps)
    start = at + 1 if body[at] == "." else at
    if start == len(body) and at == 0:
        return start  # `.` is the whole object
    if body.startswith("*", start):
        names.append(None)
        steps.append(_children)
        return start + 1
    found = _name.match(body, start)
    if found is None or (start == at and at > 0):
        raise _bad(body, start, "expected a member name")
    _add_name(_escape.sub(r"\1", found.group()), names, steps)
    return found.end()


def _parse_bracket(body: str, at: int, names: list[str | None], steps: list[Step]) -> int:
    inside = at + 1
    if found := _quoted.match(body, inside):
        if not body.startswith("]", found.end()):
            raise _bad(body, found.end(), "expected ]")
        raw = found.group(1) if found.group(1) is not None else found.group(2)
        _add_name(_escape.sub(r"\1", raw), names, steps)
        return found.end() + 1
    if found := _filter.match(body, inside):
        names.append(None)
        steps.append(_filter_step(parse_path(found.group(1) or "."), found.group(2), found.group(3), body, at))
        return found.end()
    end = body.find("]", inside)
    if end < 0:
        raise _bad(body, at, "this [ is not closed")
    names.append(None)
    steps.append(_bracket_step(body[inside:end].strip(), body, inside))
    return end + 1


def _bracket_step(inner: str, body: str, at: int) -> Step:
    if inner == "*":
        return _children
    if _index.fullmatch(inner):
        return _index_step(int(inner))
    if found := _slice.fullmatch(inner):
        return _slice_step(*(None if bound is None else int(bound) for bound in found.groups()))
    raise _bad(body, at, "expected an index, *, a quoted name or a filter")


def _add_name(name: str, names: list[str | None], steps: list[Step]) -> None:
    names.append(name)
    steps.append(lambda tree: (tree[name],) if is_map(tree) and name in tree else ())


def _children(tree: Any) -> Iterable[Any]:
    if is_map(tree):
        return tuple(tree.values())
    return tree if is_list(tree) else ()


def _descend(tree: Any) -> Iterable[Any]:
    """The value and all values inside it; iterative, since objects can be nested deeper than the Python stack."""
    found: list[Any] = []
    pending = [tree]
    while pending:
        one = pending.pop()
        found.append(one)
        pending.extend(reversed(list(_children(one))))
    return found


def _index_step(index: int) -> Step:
    return lambda tree: (tree[index],) if is_list(tree) and -len(tree) <= index < len(tree) else ()


def _slice_step(start: int | None = None, end: int | None = None) -> Step:
    return lambda tree: tree[start:end] if is_list(tree) else ()


def _filter_step(path: JsonPath, operator: str | None, operand: str | None, body: str, at: int) -> Step:
    if operator is None:
        return lambda tree: [one for one in _children(tree) if path.find(one)]
    wanted = _literal(operand or "", body, at)
    test = _COMPARISONS[operator]
    return lambda tree: [one for one in _children(tree) if any(test(value, wanted) for value in path.find(one))]


def _literal(text: str, body: str, at: int) -> Any:
    if found := _quoted.fullmatch(text):
        return _escape.sub(r"\1", found.group(1) if found.group(1) is not None else found.group(2))
    if text in _LITERALS:
        return _LITERALS[text]
    try:
        return float(text) if "." in text or "e" in text.lower() else int(text)
    except ValueError:
        raise _bad(body, at, f"{text[:40]!r} is not a value to compare with: put strings in quotes") from None


def _below(left: Any, right: Any) -> bool:
    if isinstance(left, str) and isinstance(right, str):
        return left < right
    return isinstance(left, int | float) and isinstance(right, int | float) and left < right


_LITERALS: dict[str, Any] = {"true": True, "false": False, "null": None, "nil": None}
_COMPARISONS: dict[str, Callable[[Any, Any], bool]] = {
    "==": lambda left, right: bool(left == right),
    "!=": lambda left, right: bool(left != right),
    "<": _below,
    ">": lambda left, right: _below(right, left),
    "<=": lambda left, right: _below(left, right) or bool(left == right),
    ">=": lambda left, right: _below(right, left) or bool(left == right),
}


def _bad(body: str, at: int, problem: str) -> BadPointer:
    shown = body if len(body) <= 80 else f"{body[:77]}..."
    return BadPointer(f"JSONPath {shown!r}, position {at}: {problem}", position=at)
