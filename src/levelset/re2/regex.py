"""Regular expressions ready to be used, in a time that neither the pattern's nor the text's author can blow up.

Whether a short text matches is asked of Python's engine, as far as that cannot run away (`quick.py`); all else of the
machine, which takes the same time for every character (`machine.py`).
"""

import functools
import re

from msgspec import Struct

from levelset.re2.automaton import Machine
from levelset.re2.parser import parse
from levelset.re2.python_engine import safe_length, translate

__all__ = ["LIMITS", "Limits", "Regex", "compile_regex"]


class Limits(Struct, frozen=True):
    """How much of the server's time and memory a regular expression may take."""

    size: int = 50_000
    """How many characters it may have when its repetitions are written out."""
    steps: int = 1_000_000
    """How many steps Python's engine may go back in the worst case; a hundred thousand take less than a millisecond."""


LIMITS = Limits()


class Regex:
    """A regular expression. Nothing costly happens before it is used."""

    __slots__ = ("_machine", "_search", "limit", "pattern", "tree")

    def __init__(self, pattern: str, limits: Limits = LIMITS) -> None:
        self.pattern = pattern
        self.tree = parse(pattern, limits.size)
        self.limit = safe_length(self.tree, limits.steps)
        self._search: re.Pattern[str] | None = None
        self._machine: Machine | None = None

    def matches(self, text: str) -> bool:
        """Whether the expression is found in the text."""
        if len(text) <= self.limit:
            return self.quick().search(text) is not None
        return self.steady().matches(text)

    def find(self, text: str) -> str:
        """The first match, or nothing."""
        found = self.steady().search(text)
        return text[found[0] : found[1]] if found else ""

    def find_all(self, text: str, limit: int = -1) -> list[str]:
        """The matches one after the other, at most `limit` of them unless it is negative."""
        search = self.steady().search
        found: list[str] = []
        at, last = 0, -1
        while at <= len(text) and len(found) != limit:
            span = search(text, at)
            if span is None:
                break
            start, end = span
            if end > start or start != last:  # an empty match right behind another one does not count
                found.append(text[start:end])
            last = end
            at = end + 1 if end == start else end
        return found

    def quick(self) -> "re.Pattern[str]":
        """The translation for Python's engine, which says whether a text matches if it is no longer than `limit`."""
        if self._search is None:
            self._search = re.compile(translate(self.tree))
        return self._search

    def steady(self) -> Machine:
        """The matcher that never goes back."""
        if self._machine is None:
            self._machine = Machine(self.tree)
        return self._machine


@functools.lru_cache(512)
def compile_regex(pattern: str, limits: Limits = LIMITS) -> Regex:
    """The regular expression of this pattern; raises BadRegex if it is none, or larger than it may be."""
    return Regex(pattern, limits)
