"""Charsets: sets of characters as ranges of code points, and the named ones of RE2."""

import functools
import sys
import unicodedata
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

__all__ = [
    "ANYTHING",
    "LAST",
    "NO_NEWLINE",
    "PERL",
    "POSIX",
    "Charset",
    "folded",
    "negate",
    "single",
    "unicode_class",
    "union",
]

LAST = sys.maxunicode
WIDEST_FOLD = 3000


@dataclass(frozen=True, slots=True)
class Charset:
    """Characters, as sorted ranges that neither overlap nor touch; both ends belong to a range."""

    ranges: tuple[tuple[int, int], ...]

    def __contains__(self, char: str) -> bool:
        code = ord(char)
        return any(low <= code <= high for low, high in self.ranges)


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


def single(code: int, *, fold: bool = False) -> Charset:
    """One character; with `fold` also in the other case."""
    return union(folded(code, code)) if fold else Charset(((code, code),))


def folded(low: int, high: int) -> list[tuple[int, int]]:
    """The range and the other case of its characters; wide ranges are taken to have both cases already."""
    ranges = [(low, high)]
    if high - low > WIDEST_FOLD:
        return ranges
    for code in range(low, high + 1):
        char = chr(code)
        others = {char.lower(), char.upper(), _MORE_CASES.get(char.lower(), char)}
        ranges.extend((ord(other), ord(other)) for other in others if len(other) == 1)
    return ranges


_MORE_CASES = {"k": "\u212a", "s": "\u017f", "\u00e5": "\u212b"}


def _of(text: str) -> Charset:
    """The set that is written as pairs of first and last characters."""
    return union((ord(text[at]), ord(text[at + 1])) for at in range(0, len(text), 2))


ANYTHING = Charset(((0, LAST),))
NO_NEWLINE = negate(_of("\n\n"))

_DIGIT, _WORD, _SPACE = _of("09"), _of("09AZaz__"), _of("\t\n\f\r  ")

PERL: Mapping[str, Charset] = {
    "d": _DIGIT,
    "D": negate(_DIGIT),
    "w": _WORD,
    "W": negate(_WORD),
    "s": _SPACE,
    "S": negate(_SPACE),
}

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


def unicode_class(name: str) -> Charset | None:
    """The characters of a general category (L, Lu, Nd) or script (Greek); None for an unknown name.

    Scripts are told by the names of their characters, which is right for letters and may miss signs.
    """
    if name == "Any":
        return ANYTHING
    if len(name) <= 2:
        return _categories().get(name)
    return _script({"Han": "CJK"}.get(name, name.replace("_", " ")).upper())


@functools.cache
def _categories() -> Mapping[str, Charset]:
    """All general categories, by both their letters; it looks at every character there is, once."""
    ranges: dict[str, list[tuple[int, int]]] = {}
    start, current = 0, unicodedata.category(chr(0))
    for code in range(1, LAST + 2):
        category = unicodedata.category(chr(code)) if code <= LAST else ""
        if category != current:
            ranges.setdefault(current, []).append((start, code - 1))
            ranges.setdefault(current[0], []).append((start, code - 1))
            start, current = code, category
    return {name: union(found) for name, found in ranges.items()}


@functools.cache
def _script(prefix: str) -> Charset | None:
    letters = _categories()["L"].ranges + _categories()["N"].ranges + _categories()["M"].ranges
    codes = (code for low, high in letters for code in range(low, high + 1))
    found = union((code, code) for code in codes if unicodedata.name(chr(code), "").startswith(prefix + " "))
    return found if found.ranges else None
