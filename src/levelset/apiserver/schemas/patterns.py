"""Patterns: RE2 expressions that run in Python, in a time that the text's author cannot blow up.

Short texts are matched by Python's `re`, on a translation with the same meaning. `re` backtracks, so a nasty pattern on
a nasty text could take for ever: `Pattern.limit` is the length up to which that cannot happen (found by looking at the
pattern: none where repetitions are nested or ambiguous, less the more repetitions and choices there are). Longer texts
go to `automata.py`, which takes the same time for every character.
"""

import math
import re

from levelset.apiserver.schemas.automata import Automaton
from levelset.apiserver.schemas.charsets import Charset
from levelset.apiserver.schemas.expressions import Assertion, Choice, Expression, Repeat, Sequence_, parse

__all__ = [
    "Pattern",
    "ambiguous",
    "anchored",
    "bracket",
    "compile_pattern",
    "literal",
    "open_ends",
    "safe_length",
    "times",
    "translate",
    "ways",
]

STEPS = 1_000_000
"""How many steps of backtracking a match may cost in the worst case."""

MANY = 16
"""From this count on, a counted repetition is as bad as one without a limit."""


class Pattern:
    """A compiled expression: `pattern.matches(text)` says whether it is found anywhere in the text."""

    __slots__ = ("_automaton", "_search", "limit", "text", "tree")

    def __init__(self, text: str, tree: Expression) -> None:
        self.text = text
        self.tree = tree
        self.limit = safe_length(tree)
        self._search: re.Pattern[str] | None = None
        self._automaton: Automaton | None = None

    def matches(self, text: str) -> bool:
        """Whether the expression is found in the text."""
        if len(text) <= self.limit:
            return self.quick().search(text) is not None
        return self.steady().matches(text)

    def quick(self) -> "re.Pattern[str]":
        """The translation for `re`, good for texts up to `limit`."""
        if self._search is None:
            self._search = re.compile(translate(self.tree))
        return self._search

    def steady(self) -> Automaton:
        """The matcher that never backtracks."""
        if self._automaton is None:
            self._automaton = Automaton(self.tree)
        return self._automaton


def compile_pattern(text: str) -> Pattern:
    """The pattern ready to match; raises BadPattern if RE2 would not take it. Nothing costly happens before a match."""
    return Pattern(text, parse(text))


def safe_length(tree: Expression) -> int:
    """How long a text may be for `re` to stay below STEPS; -1 if even an empty one can take longer."""
    choices = ways(tree)
    if choices > STEPS or ambiguous(tree, repeated=False):
        return -1
    degree = open_ends(tree) + (0 if anchored(tree) else 1)
    return int((STEPS / choices) ** (1 / max(degree, 1)))


def ambiguous(tree: Expression, *, repeated: bool) -> bool:
    """Whether something inside a repetition can itself match in more than one way."""
    match tree:
        case Repeat(body, least, most):
            varies = least != most
            if repeated and varies:
                return True
            return ambiguous(body, repeated=repeated or most is None or most > 1)
        case Choice(options):
            return repeated or any(ambiguous(one, repeated=repeated) for one in options)
        case Sequence_(parts):
            return any(ambiguous(one, repeated=repeated) for one in parts)
        case _:
            return False


def open_ends(tree: Expression) -> int:
    """How many repetitions of unknown length follow each other."""
    match tree:
        case Repeat(body, least, most):
            many = most is None or most - least >= MANY
            return open_ends(body) + many
        case Choice(options):
            return max((open_ends(one) for one in options), default=0)
        case Sequence_(parts):
            return sum(open_ends(one) for one in parts)
        case _:
            return 0


def ways(tree: Expression) -> int:
    """In how many ways choices and short repetitions can go on after each other; those of `open_ends` do not count."""
    match tree:
        case Repeat(body, least, most):
            varies = 0 if most is None or most - least >= MANY else most - least
            return ways(body) + varies
        case Choice(options):
            return sum(ways(one) for one in options)
        case Sequence_(parts):
            return min(math.prod(ways(one) for one in parts), 2 * STEPS)
        case _:
            return 1


def anchored(tree: Expression) -> bool:
    """Whether it can only match at the start of the text."""
    match tree:
        case Assertion("start"):
            return True
        case Sequence_(parts):
            return bool(parts) and anchored(parts[0])
        case Choice(options):
            return all(anchored(one) for one in options)
        case _:
            return False


_WORD = "[0-9A-Za-z_]"
_PLACES = {
    "start": r"\A",
    "end": r"\Z",
    "line-start": "(?m:^)",
    "line-end": "(?m:$)",
    "boundary": f"(?:(?<={_WORD})(?!{_WORD})|(?<!{_WORD})(?={_WORD}))",
    "no-boundary": f"(?:(?<={_WORD})(?={_WORD})|(?<!{_WORD})(?!{_WORD}))",
}


def translate(tree: Expression) -> str:
    """The expression in the syntax of Python's `re`, without any flag."""
    match tree:
        case Charset():
            return bracket(tree)
        case Assertion(place):
            return _PLACES[place]
        case Sequence_(parts):
            return "".join(f"(?:{translate(one)})" if isinstance(one, Choice) else translate(one) for one in parts)
        case Choice(options):
            return "|".join(translate(one) for one in options)
        case Repeat(body, least, most):
            text = translate(body) if isinstance(body, Charset) else f"(?:{translate(body)})"
            return text + times(least, most)


def times(least: int, most: int | None) -> str:
    """The repetition as a suffix."""
    if most is None and least < 2:
        return "+" if least else "*"
    return f"{{{least},{'' if most is None else most}}}"


def bracket(charset: Charset) -> str:
    """The characters as `re` writes them; a set of none matches nothing."""
    if not charset.ranges:
        return "(?!)"
    low, high = charset.ranges[0]
    if len(charset.ranges) == 1 and low == high:
        return literal(low)
    spans = (literal(low) if low == high else f"{literal(low)}-{literal(high)}" for low, high in charset.ranges)
    return f"[{''.join(spans)}]"


def literal(code: int) -> str:
    """One character, escaped so that it means itself inside and outside brackets."""
    char = chr(code)
    if char.isascii() and char.isalnum():
        return char
    return f"\\x{code:02x}" if code < 256 else f"\\U{code:08x}"
