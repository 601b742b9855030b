"""Compiled regular expressions with bounded matching time, whatever the pattern and the text.

Short texts are matched with Python's engine where it cannot backtrack too much (`python_engine.py`); everything else
with the linear-time automaton (`automaton.py`).
"""

import functools
import re

from msgspec import Struct

from levelset.re2.automaton import Automaton, miss_steps
from levelset.re2.charsets import Charset
from levelset.re2.parser import Alternation, Expression, Repeat, Sequence, parse
from levelset.re2.python_engine import backtracking, compile_steps, translate
from levelset.re2.step_budget import charge

__all__ = ["LIMITS", "Limits", "Regex", "compile_regex"]


class Limits(Struct, frozen=True):
    """Limits on the server's time and memory that a regular expression may take."""

    size: int = 50_000
    """The maximum number of characters with all counted repetitions expanded."""
    steps: int = 100_000
    """The maximum backtracking steps of Python's engine in the worst case; these take less than a millisecond."""


LIMITS = Limits()
_FREE_STEPS = 100
_BACKTRACKING_PER_STEP = 10  # backtracking steps take some 10 ns, steps of the budget 100 ns
_STEPS_PER_CHARACTER = 50  # of parsing a pattern


class Regex:
    """A regular expression. It is compiled on first use; parsing and compiling are charged to the step budget."""

    __slots__ = ("_backtracking", "_machine", "_search", "free", "limit", "pattern", "tree")

    def __init__(self, pattern: str, limits: Limits = LIMITS) -> None:
        charge(_STEPS_PER_CHARACTER * len(pattern))
        self.pattern = pattern
        self.tree = parse(pattern, limits.size)
        self._backtracking = found = backtracking(self.tree, limits.steps)
        self.limit = -1 if found is None else found.length(limits.steps)
        """The length up to which texts are matched by Python's engine."""
        self.free = -1 if found is None else min(self.limit, found.length(_FREE_STEPS))
        """The length up to which a match takes a microsecond or two at most, which is not charged to the budget."""
        self._search: re.Pattern[str] | None = None
        self._machine: Automaton | None = None

    @property
    def steps_per_character(self) -> int:
        """The steps of the budget that a character of a text takes at most, see `step_budget.py`."""
        return miss_steps(_count(self.tree))

    def matches(self, text: str) -> bool:
        """Whether the expression matches somewhere in the text."""
        if len(text) <= self.limit and self._backtracking is not None:
            charge(self._backtracking.steps(len(text)) // _BACKTRACKING_PER_STEP)
            return self.backtracking().search(text) is not None
        return self.linear().matches(text)

    def find(self, text: str) -> str:
        """The first match, or None."""
        found = self.linear().search(text)
        return text[found[0] : found[1]] if found else ""

    def find_all(self, text: str, limit: int = -1) -> list[str]:
        """The successive matches: at most `limit` of them, or all if it is negative."""
        search = self.linear().search
        found: list[str] = []
        at, last = 0, -1
        while at <= len(text) and len(found) != limit:
            span = search(text, at)
            if span is None:
                break
            start, end = span
            if end > start or start != last:  # an empty match directly after another match does not count
                found.append(text[start:end])
            last = end
            at = end + 1 if end == start else end
        return found

    def backtracking(self) -> "re.Pattern[str]":
        """The pattern for Python's engine, which may be used for strings of at most `limit` characters."""
        if self._search is None:
            charge(compile_steps(self.tree))
            self._search = re.compile(translate(self.tree))
        return self._search

    def linear(self) -> Automaton:
        """The linear-time matcher."""
        if self._machine is None:
            charge(100 * _count(self.tree))  # first: what has no steps left for it must not build it
            self._machine = Automaton(self.tree)
        return self._machine


def _count(tree: Expression) -> int:
    """The number of consuming nodes, with counted repetitions expanded."""
    match tree:
        case Charset():
            return 1
        case Repeat(body, least, most):
            return _count(body) * max(least if most is None else most, 1)
        case Sequence(parts) | Alternation(parts):
            return sum(map(_count, parts))
        case _:
            return 0


@functools.lru_cache(512)
def compile_regex(pattern: str, limits: Limits = LIMITS) -> Regex:
    """The regular expression of this pattern; raises BadRegex if it is invalid or too large."""
    return Regex(pattern, limits)
