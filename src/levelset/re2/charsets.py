"""Sets of characters as ranges of code points: the Perl and POSIX classes (ASCII only), and case folding."""

import functools
import sys
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping

from msgspec import Struct

from levelset.re2 import unicode_data

__all__ = ["ANYTHING", "LAST", "NO_NEWLINE", "PERL", "POSIX", "Charset", "folded", "named", "negate", "single", "union"]

LAST = sys.maxunicode


class Charset(Struct, frozen=True):
    """A set of characters, as sorted ranges that neither overlap nor touch; both ends are inclusive."""

    ranges: tuple[tuple[int, int], ...]

    def __contains__(self, char: str) -> bool:
        code = ord(char)
        at = bisect_right(self.ranges, (code, LAST)) - 1
        return at >= 0 and code <= self.ranges[at][1]


def union(ranges: Iterable[tuple[int, int]]) -> Charset:
    """The set of all characters in these ranges."""
    merged: list[tuple[int, int]] = []
    for low, high in sorted(ranges):
        if merged and low <= merged[-1][1] + 1:
            merged[-1] = (merged[-1][0], max(high, merged[-1][1]))
        else:
            merged.append((low, high))
    return Charset(tuple(merged))


def negate(charset: Charset) -> Charset:
    """All characters that are not in the set."""
    ranges: list[tuple[int, int]] = []
    start = 0
    for low, high in charset.ranges:
        if start < low:
            ranges.append((start, low - 1))
        start = high + 1
    if start <= LAST:
        ranges.append((start, LAST))
    return Charset(tuple(ranges))


@functools.lru_cache(256)
def single(code: int) -> Charset:
    """One character."""
    return Charset(((code, code),))


@functools.lru_cache(64)
def folded(charset: Charset) -> Charset:
    """The set with all characters that differ from one of its characters only in case."""
    families, cased = unicode_data.families(), unicode_data.cased()
    found = list(charset.ranges)
    for low, high in charset.ranges:
        for code in cased[bisect_left(cased, low) : bisect_right(cased, high)]:
            found += ((other, other) for other in families[code] if not low <= other <= high)
    return union(found)


@functools.lru_cache(64)
def named(name: str) -> Charset | None:
    r"""The characters of a category or a script of Unicode, as in `\p{Greek}`; None if the name is unknown."""
    match unicode_data.canonical(name):
        case "Any":
            return ANYTHING
        case "Ascii":
            return POSIX["ascii"]
        case "Assigned":
            return negate(union(unicode_data.ranges_of("Cn") or ()))
        case _:
            ranges = unicode_data.ranges_of(name)
            return None if ranges is None else union(ranges)


def _of(text: str) -> Charset:
    """The set given as pairs of first and last characters."""
    return union((ord(text[at]), ord(text[at + 1])) for at in range(0, len(text), 2))


ANYTHING = Charset(((0, LAST),))
NO_NEWLINE = negate(_of("\n\n"))

_DIGIT, _WORD, _SPACE = _of("09"), _of("09AZaz__"), _of("\t\n\f\r  ")

PERL: Mapping[str, Charset] = {"d": _DIGIT, "w": _WORD, "s": _SPACE}

POSIX: Mapping[str, Charset] = {
    "alnum": _of("09AZaz"),
    "alpha": _of("AZaz"),
    "ascii": _of("\x00\x7f"),
    "blank": _of("\t\t  "),
    "cntrl": _of("\x00\x1f\x7f\x7f"),
    "digit": _DIGIT,
    "graph": _of("!~"),
    "lower": _of("az"),
    "print": _of(" ~"),
    "punct": _of("!/:@[`{~"),
    "space": _of("\t\r  "),
    "upper": _of("AZ"),
    "word": _WORD,
    "xdigit": _of("09AFaf"),
}
