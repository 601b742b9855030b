"""Translates regular expressions for Python's `re`, and decides when using it is safe.

Python's engine backtracks, so some patterns take exponential time on some input. `safe_length` computes from the
pattern the length up to which that cannot happen: -1 where repetitions are nested or ambiguous, and less the more
repetitions and choices there are.
"""

import math

from msgspec import Struct

from levelset.re2.charsets import LAST, Charset, negate
from levelset.re2.parser import Alternation, Assertion, Expression, Repeat, Sequence

__all__ = ["Backtracking", "backtracking", "compile_steps", "safe_length", "translate"]

_MANY = 16  # from this count on, a counted repetition is treated as unbounded
_MAX_RANGES = 3_000  # ranges in all sets of characters; Python takes ten microseconds to compile one
_NODE_STEPS, _RANGE_STEPS, _WIDE_STEPS = (
    50,
    150,
    13_000,
)  # of compiling a node, a range, a set with characters above 255


class Backtracking(Struct, frozen=True):
    """How many steps Python's engine takes at most: `choices` times the `degree`th power of the text's length."""

    choices: int
    degree: int

    def steps(self, length: int) -> int:
        """The steps for a text of this length."""
        found: int = self.choices * length**self.degree
        return found

    def length(self, steps: int) -> int:
        """The maximum length of a text that takes at most this number of steps."""
        return int((steps / self.choices) ** (1 / self.degree))


def backtracking(tree: Expression, steps: int) -> Backtracking | None:
    """What Python's engine takes at most; None if it may take more than `steps` for a text of any length."""
    choices = _ways(tree, steps)
    if choices > steps or _ambiguous(tree, repeated=False) or _ranges(tree) > _MAX_RANGES:
        return None
    return Backtracking(max(choices, 1), max(_open_ends(tree) + (0 if _anchored(tree) else 1), 1))


def safe_length(tree: Expression, steps: int) -> int:
    """The maximum length of a text for which Python's engine takes at most `steps`; -1 if there is none."""
    found = backtracking(tree, steps)
    return -1 if found is None else found.length(steps)


def _ambiguous(tree: Expression, *, repeated: bool) -> bool:
    """Whether something inside a repetition can itself match in more than one way."""
    match tree:
        case Repeat(body, least, most):
            varies = least != most
            if repeated and varies:
                return True
            return _ambiguous(body, repeated=repeated or most is None or most > 1)
        case Alternation(options):
            return repeated or any(_ambiguous(one, repeated=repeated) for one in options)
        case Sequence(parts):
            return any(_ambiguous(one, repeated=repeated) for one in parts)
        case _:
            return False


def _open_ends(tree: Expression) -> int:
    """How many repetitions of unknown length are in sequence."""
    match tree:
        case Repeat(body, least, most):
            many = most is None or most - least >= _MANY
            return _open_ends(body) + many
        case Alternation(options):
            return max((_open_ends(one) for one in options), default=0)
        case Sequence(parts):
            return sum(_open_ends(one) for one in parts)
        case _:
            return 0


def _ways(tree: Expression, steps: int) -> int:
    """The number of ways in which choices and short repetitions in sequence can match, without those of `_open_ends`.

    Counts up to `steps` only: larger results are not exact.
    """
    match tree:
        case Repeat(body, least, most):
            varies = 0 if most is None or most - least >= _MANY else most - least
            return _ways(body, steps) + varies
        case Alternation(options):
            return sum(_ways(one, steps) for one in options)
        case Sequence(parts):
            return min(math.prod(_ways(one, steps) for one in parts), steps + 1)
        case _:
            return 1


def _ranges(tree: Expression) -> int:
    """The number of character ranges, each of which takes time to compile."""
    match tree:
        case Charset(ranges):
            return len(ranges) if len(ranges) > 1 else 0
        case Repeat(body, _, _):
            return _ranges(body)
        case Sequence(parts) | Alternation(parts):
            return sum(map(_ranges, parts))
        case _:
            return 0


def _anchored(tree: Expression) -> bool:
    """Whether the expression can only match at the start of the text."""
    match tree:
        case Assertion("start"):
            return True
        case Sequence(parts):
            return bool(parts) and _anchored(parts[0])
        case Alternation(options):
            return all(_anchored(one) for one in options)
        case _:
            return False


def compile_steps(tree: Expression) -> int:
    """The steps, see `step_budget.py`, that Python takes to compile the translation."""
    match tree:
        case Charset(ranges) if sum(high - low + 1 for low, high in ranges) > 1:
            _, spelled = _spelling(tree)
            is_wide = len(spelled) > 1 and spelled[-1][1] > 255
            characters = sum(high - low for low, high in spelled)
            return _NODE_STEPS + _RANGE_STEPS * len(spelled) + characters // 10 + _WIDE_STEPS * is_wide
        case Repeat(body, _, _):
            return _NODE_STEPS + compile_steps(body)
        case Sequence(parts) | Alternation(parts):
            return _NODE_STEPS + sum(map(compile_steps, parts))
        case _:
            return _NODE_STEPS


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
    """The expression in Python's syntax, without flags.

    It matches the same texts, but not always at the same position, because Python treats empty repetitions differently;
    greediness is therefore left out.
    """
    match tree:
        case Charset():
            return _bracket(tree)
        case Assertion(place):
            return _PLACES[place]
        case Sequence(parts):
            return "".join(f"(?:{translate(one)})" if isinstance(one, Alternation) else translate(one) for one in parts)
        case Alternation(options):
            return "|".join(translate(one) for one in options)
        case Repeat(body, least, most):
            text = translate(body) if isinstance(body, Charset) else f"(?:{translate(body)})"
            return text + _times(least, most)


def _times(least: int, most: int | None) -> str:
    if most is None and least < 2:
        return "+" if least else "*"
    return f"{{{least},{'' if most is None else most}}}"


def _bracket(charset: Charset) -> str:
    """The character set in Python's syntax; an empty set matches nothing."""
    if not charset.ranges:
        return "(?!)"
    low, high = charset.ranges[0]
    if len(charset.ranges) == 1 and low == high:
        return _literal(low)
    opening, ranges = _spelling(charset)
    if not ranges:
        return "(?s:.)"
    spans = (_literal(low) if low == high else f"{_literal(low)}-{_literal(high)}" for low, high in ranges)
    return f"{opening}{''.join(spans)}]"


def _spelling(charset: Charset) -> tuple[str, tuple[tuple[int, int], ...]]:
    """The opening bracket and the ranges to write: those that are not in a set that goes on to the last character.

    Python takes ten milliseconds to compile a range of all characters.
    """
    if charset.ranges[-1][1] == LAST:
        return "[^", negate(charset).ranges
    return "[", charset.ranges


def _literal(code: int) -> str:
    """One character, escaped so that it is literal inside and outside of brackets."""
    char = chr(code)
    if char.isascii() and char.isalnum():
        return char
    return f"\\x{code:02x}" if code < 256 else f"\\U{code:08x}"
