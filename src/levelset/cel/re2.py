"""Regular expressions with the meaning and the safety of RE2: no pattern takes more than linear time.

Short texts and patterns that can be tried in few ways go to Python's own engine, which is faster; the number of ways
is counted beforehand. All else goes to the linear machine.
"""

import re
from functools import lru_cache

from levelset.cel.re2machine import Machine
from levelset.cel.re2sets import CharSet
from levelset.cel.re2syntax import BadRegex, Choice, Edge, Empty, One, Part, Repeat, Row, parse_regex

__all__ = ["BadRegex", "Regex", "compile_regex"]

_SHORT = 100  # characters of a text
_MAX_WAYS = 20_000


class Regex:
    """A regular expression, ready to be used."""

    __slots__ = ("_fast", "_machine", "pattern")

    def __init__(self, pattern: str) -> None:
        self.pattern = pattern
        part = parse_regex(pattern)
        self._machine = Machine(part)
        source = _python(part) if _ways(part) * (1 if _is_anchored(part) else _SHORT) <= _MAX_WAYS else None
        self._fast = re.compile(source, re.ASCII).search if source is not None else None

    def matches(self, text: str) -> bool:
        """Whether some part of the text matches."""
        if self._fast is not None and len(text) <= _SHORT:
            return self._fast(text) is not None
        return self._machine.matches(text)

    def find(self, text: str) -> str:
        """The first match, or nothing."""
        found = self._machine.search(text)
        return text[found[0] : found[1]] if found else ""

    def find_all(self, text: str, limit: int = -1) -> list[str]:
        """The matches one after the other, at most `limit` of them unless it is negative."""
        found: list[str] = []
        at, last = 0, -1
        while at <= len(text) and len(found) != limit:
            span = self._machine.search(text, at)
            if span is None:
                break
            start, end = span
            if end > start or start != last:  # an empty match right behind another one does not count
                found.append(text[start:end])
            last = end
            at = end + 1 if end == start else end
        return found


@lru_cache(512)
def compile_regex(pattern: str) -> Regex:
    """The regular expression of this pattern; raises BadRegex."""
    return Regex(pattern)


def _is_anchored(part: Part) -> bool:
    if isinstance(part, Row):
        return _is_anchored(part.parts[0])
    return isinstance(part, Edge) and part.kind == "start"


def _ways(part: Part) -> int:
    """At most so many ways to try a part on a short text."""
    match part:
        case Row(parts):
            total = 1
            for each in parts:
                total = min(total * _ways(each), _MAX_WAYS + 1)
            return total
        case Choice(parts):
            return sum(map(_ways, parts))
        case Repeat(inner, least, most, _):
            return _ways_to_repeat(inner, least, most)
        case _:
            return 1


def _ways_to_repeat(inner: Part, least: int, most: int | None) -> int:
    if isinstance(inner, One):
        return 1 if least == most else min(_SHORT if most is None else most, _SHORT) + 1
    if most is None or most > 3:
        return _MAX_WAYS + 1
    return int((1 + _ways(inner)) ** max(most, 1))


_EDGES = {
    "start": r"\A",
    "end": r"\Z",
    "line": r"(?<![^\n])",
    "line-end": r"(?![^\n])",
    "word": r"\b",
    "inside": r"\B",
}


def _python(part: Part) -> str | None:
    """The same pattern as Python writes it; None if it cannot."""
    match part:
        case One(chars):
            return _class(chars)
        case Edge(kind):
            return None if kind == "inside" else _EDGES[kind]
        case Empty():
            return ""
        case Row(parts):
            return _all(parts, "")
        case Choice(parts):
            inside = _all(parts, "|")
            return None if inside is None else f"(?:{inside})"
        case Repeat(inner, least, most, is_greedy):
            body = _python(inner)
            if body is None:
                return None
            return f"(?:{body}){{{least},{'' if most is None else most}}}{'' if is_greedy else '?'}"


def _all(parts: tuple[Part, ...], between: str) -> str | None:
    found = [_python(each) for each in parts]
    return between.join(each for each in found if each is not None) if None not in found else None


def _class(chars: CharSet) -> str | None:
    if not chars.is_plain or chars.others:
        return None
    if not chars.ranges:
        return r"[\s\S]" if chars.is_negated else r"(?!)"
    spans = "".join(f"\\U{low:08x}-\\U{high:08x}" for low, high in chars.ranges)
    return f"[{'^' if chars.is_negated else ''}{spans}]"
