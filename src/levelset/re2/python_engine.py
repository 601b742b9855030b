"""Regular expressions run by Python's own engine: the same expression as Python writes it, and where that is safe.

Python's engine backtracks, so a nasty pattern on a nasty text could take for ever. `safe_length` is the length up to
which that cannot happen, found by looking at the pattern: none where repetitions are nested or ambiguous, less the more
repetitions and choices there are.
"""

import math

from levelset.re2.charsets import Charset
from levelset.re2.parser import Choice, Edge, Expression, Repeat, Row

__all__ = ["safe_length", "translate"]

_MANY = 16  # from this count on, a counted repetition is as bad as one without a limit
_MOST_RANGES = 3_000  # in all sets of characters; Python needs ten microseconds to compile one


def safe_length(tree: Expression, steps: int) -> int:
    """How long a text may be so that Python's engine needs no more steps; -1 if even an empty one may need more."""
    choices = _ways(tree, steps)
    if choices > steps or _ambiguous(tree, repeated=False) or _ranges(tree) > _MOST_RANGES:
        return -1
    degree = _open_ends(tree) + (0 if _anchored(tree) else 1)
    return int((steps / choices) ** (1 / max(degree, 1)))


def _ambiguous(tree: Expression, *, repeated: bool) -> bool:
    """Whether something inside a repetition can itself match in more than one way."""
    match tree:
        case Repeat(body, least, most):
            varies = least != most
            if repeated and varies:
                return True
            return _ambiguous(body, repeated=repeated or most is None or most > 1)
        case Choice(options):
            return repeated or any(_ambiguous(one, repeated=repeated) for one in options)
        case Row(parts):
            return any(_ambiguous(one, repeated=repeated) for one in parts)
        case _:
            return False


def _open_ends(tree: Expression) -> int:
    """How many repetitions of unknown length follow each other."""
    match tree:
        case Repeat(body, least, most):
            many = most is None or most - least >= _MANY
            return _open_ends(body) + many
        case Choice(options):
            return max((_open_ends(one) for one in options), default=0)
        case Row(parts):
            return sum(_open_ends(one) for one in parts)
        case _:
            return 0


def _ways(tree: Expression, steps: int) -> int:
    """In how many ways choices and short repetitions can go on after each other; those of `_open_ends` do not count.

    Of more than `steps`, it is not said how many.
    """
    match tree:
        case Repeat(body, least, most):
            varies = 0 if most is None or most - least >= _MANY else most - least
            return _ways(body, steps) + varies
        case Choice(options):
            return sum(_ways(one, steps) for one in options)
        case Row(parts):
            return min(math.prod(_ways(one, steps) for one in parts), steps + 1)
        case _:
            return 1


def _ranges(tree: Expression) -> int:
    """How many ranges of characters there are, each of which takes a while to compile."""
    match tree:
        case Charset(ranges):
            return len(ranges) if len(ranges) > 1 else 0
        case Repeat(body, _, _):
            return _ranges(body)
        case Row(parts) | Choice(parts):
            return sum(map(_ranges, parts))
        case _:
            return 0


def _anchored(tree: Expression) -> bool:
    """Whether it can only match at the start of the text."""
    match tree:
        case Edge("start"):
            return True
        case Row(parts):
            return bool(parts) and _anchored(parts[0])
        case Choice(options):
            return all(_anchored(one) for one in options)
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
    """The expression in the syntax of Python, without any flag.

    It matches the same texts. Where it matches them may differ, for Python thinks otherwise of empty repetitions, and
    for that reason nothing is said of greed.
    """
    match tree:
        case Charset():
            return _bracket(tree)
        case Edge(place):
            return _PLACES[place]
        case Row(parts):
            return "".join(f"(?:{translate(one)})" if isinstance(one, Choice) else translate(one) for one in parts)
        case Choice(options):
            return "|".join(translate(one) for one in options)
        case Repeat(body, least, most):
            text = translate(body) if isinstance(body, Charset) else f"(?:{translate(body)})"
            return text + _times(least, most)


def _times(least: int, most: int | None) -> str:
    if most is None and least < 2:
        return "+" if least else "*"
    return f"{{{least},{'' if most is None else most}}}"


def _bracket(charset: Charset) -> str:
    """The characters as Python writes them; a set of none matches nothing."""
    if not charset.ranges:
        return "(?!)"
    low, high = charset.ranges[0]
    if len(charset.ranges) == 1 and low == high:
        return _literal(low)
    spans = (_literal(low) if low == high else f"{_literal(low)}-{_literal(high)}" for low, high in charset.ranges)
    return f"[{''.join(spans)}]"


def _literal(code: int) -> str:
    """One character, escaped so that it means itself inside and outside brackets."""
    char = chr(code)
    if char.isascii() and char.isalnum():
        return char
    return f"\\x{code:02x}" if code < 256 else f"\\U{code:08x}"
