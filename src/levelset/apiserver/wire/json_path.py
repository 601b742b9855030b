r"""JSONPath of printer columns, scale paths and selectable fields: a path into an object, parsed once.

The dialect is kubectl's: `.spec.replicas`, `.metadata.labels['example.com/a']`, `.spec.a\.b`, `.items[0]`,
`.items[-1]`, `.items[*].name`, `.items[0:4:2]`, `.items[0,1]`, `..name` and filters such as
`.conditions[?(@.type=="Ready")].status`. What kube-apiserver accepts is accepted, and a path that fits no value yields
none, never an error.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Final

from levelset.errors import BadPointer
from levelset.objects.json_tree import is_list, is_map
from levelset.objects.lazy_pattern import Pattern

__all__ = ["JsonPath", "parse_path"]

Step = Callable[[Sequence[Any]], Sequence[Any]]


class _NoMatch(Exception):
    """The path does not fit the value: an index out of bounds, a member of a number, a comparison of unlike types."""


@dataclass(frozen=True, slots=True)
class JsonPath:
    """A parsed path; `names` is set only for a path of plain member names, such as `.spec.replicas`."""

    text: str
    names: tuple[str, ...] | None
    steps: tuple[Step, ...] = field(repr=False, compare=False)

    def find(self, tree: Any) -> list[Any]:
        """All values at the path, in document order."""
        try:
            return list(self.walk((tree,)))
        except _NoMatch:
            return []

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

    def walk(self, values: Sequence[Any]) -> Sequence[Any]:
        """The values at the path below each of these; raises _NoMatch."""
        for step in self.steps:
            values = step(values)
        return values


def parse_path(text: str) -> JsonPath:
    """Parses a path, with or without braces around it; raises BadPointer with the position."""
    if not isinstance(text, str):
        raise BadPointer(f"a JSONPath must be a string, not {type(text).__name__}")
    return _cached_path(text) if len(text) <= _CACHED_LENGTH else _parse_path(text)


def _parse_path(text: str) -> JsonPath:
    return _Parser(text[1:-1] if text.startswith("{") and text.endswith("}") else text).parse(text)


_CACHED_LENGTH: Final = 500
_cached_path: Final = lru_cache(maxsize=4096)(_parse_path)


_NAME = Pattern(r"(?:\\.|[^\\ \t\r\n.,\[\]$@{}])*", re.DOTALL)
_WORD = Pattern(r"[\w][^ \t\r\n.,\[\]$@{}]*")
_NUMBER = Pattern(r"[+-]?[\d.]*")
_QUOTED = Pattern(r"""'((?:\\.|[^'\\\n])*)'|"((?:\\.|[^"\\\n])*)\"""")
_ESCAPE = Pattern(r"\\(.)", re.DOTALL)
_KEY = Pattern(r"'([^']*)'")
_SLICE = Pattern(r"(-?\d{0,9})(:-?\d{0,9})?(:-?\d{0,9})?")
_COMPARISON = Pattern(r"([^!<>=]+)([!<>=]+)(.+)", re.DOTALL)


class _Parser:
    """Reads one path from left to right."""

    def __init__(self, body: str) -> None:
        self._body = body
        self._at = 0
        self._steps: list[Step] = []
        self._names: list[str] = []

    def parse(self, text: str) -> JsonPath:
        while self._at < len(self._body) and self._body[self._at] != "}":  # what follows a brace is text, not a path
            self._part()
        is_plain = bool(self._names) and len(self._names) == len(self._steps)
        return JsonPath(text, tuple(self._names) if is_plain else None, tuple(self._steps))

    def _part(self) -> None:
        body, at = self._body, self._at
        sign = body[at]
        if body.startswith("[?(", at):
            self._filter()
        elif body.startswith("..", at):
            self._descent()
        elif sign in " @$":
            self._at += 1
        elif sign == "[":
            self._brackets()
        elif sign in "'\"":
            self._quoted()
        elif sign == ".":
            self._at += 1
            self._member()
        elif sign in "+-" or sign.isdigit():
            self._number()
        elif sign.isalpha() or sign == "_":
            self._word()
        else:
            raise self._bad("expected a member name, [ or a dot")

    def _descent(self) -> None:
        if self._steps and self._steps[-1] is _descend:
            raise self._bad("expected a member name or [ after ..")
        self._steps.append(_descend)
        self._at += 2
        following = self._body[self._at : self._at + 1]
        if following.isalnum() or following == "_":
            self._member()

    def _member(self) -> None:
        found = _NAME.match(self._body, self._at)
        assert found is not None
        self._at = found.end()
        if found.group() == "*":
            self._steps.append(_children)
        else:
            self._add_name(found.group().replace("\\", ""))

    def _add_name(self, name: str) -> None:
        self._names.append(name)
        self._steps.append(lambda values: [one[name] for one in values if is_map(one) and name in one])

    def _number(self) -> None:
        found = _NUMBER.match(self._body, self._at)
        assert found is not None
        try:
            number = float(found.group()) if "." in found.group() else int(found.group())
        except ValueError:
            raise self._bad(f"{found.group()[:40]!r} is not a number") from None
        self._at = found.end()
        self._steps.append(lambda values: [number] * len(values))

    def _word(self) -> None:
        found = _WORD.match(self._body, self._at)
        assert found is not None
        self._at = found.end()
        word = found.group()
        is_bool = word in ("true", "false")
        self._steps.append((lambda values: [word == "true"] * len(values)) if is_bool else _nothing)

    def _quoted(self) -> None:
        found = _QUOTED.match(self._body, self._at)
        if found is None:
            raise self._bad("this quote is not closed")
        self._at = found.end()
        text = _ESCAPE.sub(r"\1", found.group(1) if found.group(1) is not None else found.group(2))
        self._steps.append(lambda _: (text,))

    def _brackets(self) -> None:
        end = self._body.find("]", self._at)
        if end < 0 or "\n" in self._body[self._at : end]:
            raise self._bad("this [ is not closed")
        inside = self._body[self._at + 1 : end]
        if "," in inside:
            choices = [self._inner(f"[{each.strip(' ')}]") for each in inside.split(",")]
            self._steps.append(lambda values: [one for choice in choices for one in choice.walk(values)])
        elif found := _KEY.fullmatch(inside):
            key = self._inner(f".{found.group(1)}")
            self._names += key.names or ()
            self._steps += key.steps
        elif found := _SLICE.fullmatch(":" if inside == "*" else inside):
            self._steps.append(_slice(*found.groups()))
        else:
            raise self._bad("expected an index, *, a name in single quotes or a filter")
        self._at = end + 1

    def _filter(self) -> None:
        end = self._filter_end()
        text = self._body[self._at + 3 : end]
        if found := _COMPARISON.fullmatch(text):
            left, right = self._inner(found.group(1)), self._inner(found.group(3))
            self._steps.append(_comparison(left, found.group(2), right))
        else:
            self._steps.append(_existence(self._inner(text)))
        self._at = end + 2

    def _filter_end(self) -> int:
        """The position of the closing parenthesis; one inside a first pair of quotes does not count."""
        quote, is_closed = "", False
        for at in range(self._at + 3, len(self._body)):
            sign = self._body[at]
            if sign in "'\"":
                if not quote:
                    quote = sign
                elif sign == quote and self._body[at - 1] != "\\":
                    is_closed = True
            elif sign == ")" and (not quote or is_closed):
                if self._body[at + 1 : at + 2] != "]":
                    raise self._bad("expected ] after the filter")
                return at
        raise self._bad("this filter is not closed")

    def _inner(self, body: str) -> JsonPath:
        return _Parser(body).parse(body)

    def _bad(self, problem: str) -> BadPointer:
        shown = self._body if len(self._body) <= 80 else f"{self._body[:77]}..."
        return BadPointer(f"JSONPath {shown!r}, position {self._at}: {problem}", position=self._at)


def _nothing(_: Sequence[Any]) -> Sequence[Any]:
    raise _NoMatch


def _children(values: Sequence[Any]) -> Sequence[Any]:
    return [below for one in values for below in _below(one)]


def _below(value: Any) -> Sequence[Any]:
    if is_map(value):
        return tuple(value.values())
    return value if is_list(value) else ()


def _descend(values: Sequence[Any]) -> Sequence[Any]:
    """The values and all values inside them; iterative, since objects can be nested deeper than the Python stack."""
    found: list[Any] = []
    pending = list(reversed(values))
    while pending:
        one = pending.pop()
        if is_map(one) or is_list(one):
            found.append(one)
            pending.extend(reversed(_below(one)))
    return found


def _slice(start: str, end: str | None, step: str | None) -> Step:
    first = int(start) if start not in ("", "-") else 0
    last = first + 1 if end is None else int(end[1:]) if end[1:] not in ("", "-") else None
    stride = int(step[1:]) if step is not None and step[1:] not in ("", "-") else 1

    def take(values: Sequence[Any]) -> Sequence[Any]:
        return [each for one in values if one is not None for each in _taken(one, first, last, stride, end is None)]

    return take


def _taken(value: Any, first: int, last: int | None, stride: int, is_index: bool) -> Sequence[Any]:
    if not is_list(value):
        raise _NoMatch
    length = len(value)
    first += length if first < 0 else 0
    if last is None:
        last = length
    elif last < 0 or (last == 0 and is_index):
        last += length
    if first == last:
        return ()
    if not 0 <= first < length or not 0 <= last <= length or first > last or stride <= 0:
        raise _NoMatch
    return value[first:last:stride]


def _existence(path: JsonPath) -> Step:
    return lambda values: [one for value in values for one in _items(value) if path.find(one)]


def _comparison(left: JsonPath, operator: str, right: JsonPath) -> Step:
    test = _COMPARISONS.get(operator)

    def is_wanted(item: Any) -> bool:
        one, two = left.walk((item,)), right.walk((item,))
        if len(one) == 0 or len(two) == 0:
            return False
        if len(one) > 1 or len(two) > 1 or test is None:
            raise _NoMatch
        return test(one[0], two[0])

    return lambda values: [one for value in values for one in _items(value) if is_wanted(one)]


def _items(value: Any) -> Sequence[Any]:
    if not is_list(value):
        raise _NoMatch
    return value


def _equal(left: Any, right: Any) -> bool:
    return bool(_alike(left) == _alike(right) and left == right)


def _less(left: Any, right: Any) -> bool:
    if _alike(left) != _alike(right) or _alike(left) not in ("text", "number"):
        raise _NoMatch
    return bool(left < right)


def _alike(value: Any) -> str:
    if isinstance(value, bool):
        return "bool"
    if isinstance(value, int | float):
        return "number"
    if isinstance(value, str):
        return "text"
    raise _NoMatch


_COMPARISONS: dict[str, Callable[[Any, Any], bool]] = {
    "==": _equal,
    "!=": lambda left, right: not _equal(left, right),
    "<": _less,
    ">": lambda left, right: _less(right, left),
    "<=": lambda left, right: not _less(right, left),
    ">=": lambda left, right: not _less(left, right),
}
