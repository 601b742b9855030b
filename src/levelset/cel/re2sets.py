"""Sets of characters: ranges, categories of Unicode, and their opposites."""

import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import lru_cache

__all__ = ["CLASSES", "PERL", "CharSet", "category"]


@dataclass(frozen=True, slots=True)
class CharSet:
    """Characters in some ranges, or of some categories, or in other sets; with `is_folded`, in either case."""

    ranges: tuple[tuple[int, int], ...]
    categories: frozenset[str] = frozenset()
    others: tuple["CharSet", ...] = ()
    is_folded: bool = False
    is_negated: bool = False

    @property
    def is_plain(self) -> bool:
        """Whether the ranges say all."""
        return not self.categories and not self.is_folded and all(other.is_plain for other in self.others)

    def negated(self) -> "CharSet":
        """All other characters."""
        return replace(self, is_negated=not self.is_negated)

    def joined(self, other: "CharSet") -> "CharSet":
        """The characters of both; `self` must not be negated."""
        if other.is_negated or other.others or other.is_folded != self.is_folded:
            return replace(self, others=(*self.others, other))
        return replace(self, ranges=self.ranges + other.ranges, categories=self.categories | other.categories)

    def has(self, char: str) -> bool:
        """Whether this character is one of them."""
        found = self._has(char)
        if not found and self.is_folded:
            found = any(self._has(each) for each in (char.lower(), char.upper(), char.swapcase()) if len(each) == 1)
        return found != self.is_negated

    def _has(self, char: str) -> bool:
        code = ord(char)
        if any(low <= code <= high for low, high in self.ranges):
            return True
        if self.categories:
            name = unicodedata.category(char)
            if name in self.categories or name[0] in self.categories:
                return True
        return any(other.has(char) for other in self.others)


def _chars(*spans: str) -> CharSet:
    return CharSet(tuple((ord(span[0]), ord(span[-1])) for span in spans))


_DIGIT = _chars("09")
_WORD = _chars("09", "AZ", "_", "az")
_SPACE = _chars("\t", "\n", "\f", "\r", " ")
PERL = {
    "d": _DIGIT,
    "w": _WORD,
    "s": _SPACE,
    "D": _DIGIT.negated(),
    "W": _WORD.negated(),
    "S": _SPACE.negated(),
}
CLASSES = {
    "alnum": _chars("09", "AZ", "az"),
    "alpha": _chars("AZ", "az"),
    "ascii": _chars("\x00\x7f"),
    "blank": _chars("\t", " "),
    "cntrl": _chars("\x00\x1f", "\x7f"),
    "digit": _DIGIT,
    "graph": _chars("!~"),
    "lower": _chars("az"),
    "print": _chars(" ~"),
    "punct": _chars("!/", ":@", "[`", "{~"),
    "space": _chars("\t\r", " "),
    "upper": _chars("AZ"),
    "word": _WORD,
    "xdigit": _chars("09", "AF", "af"),
}
_CATEGORIES = frozenset(
    [
        "C",
        "Cc",
        "Cf",
        "Co",
        "Cs",
        "L",
        "Ll",
        "Lm",
        "Lo",
        "Lt",
        "Lu",
        "M",
        "Mc",
        "Me",
        "Mn",
        "N",
        "Nd",
        "Nl",
        "No",
        "P",
        "Pc",
        "Pd",
        "Pe",
        "Pf",
        "Pi",
        "Po",
        "Ps",
        "S",
        "Sc",
        "Sk",
        "Sm",
        "So",
        "Z",
        "Zl",
        "Zp",
        "Zs",
    ]
)
_SCRIPTS = {
    "Latin": "LATIN",
    "Greek": "GREEK",
    "Cyrillic": "CYRILLIC",
    "Han": "CJK",
    "Arabic": "ARABIC",
    "Hebrew": "HEBREW",
    "Hiragana": "HIRAGANA",
    "Katakana": "KATAKANA",
    "Thai": "THAI",
    "Hangul": "HANGUL",
}


@lru_cache(64)
def category(name: str) -> CharSet | None:
    """The characters of a category or one of the common scripts of Unicode; None if it is not known."""
    if name in _CATEGORIES:
        return CharSet((), frozenset((name,)))
    if name == "Any":
        return CharSet(((0, 0x10FFFF),))
    if name not in _SCRIPTS:
        return None
    word = _SCRIPTS[name]
    codes = (code for code in range(0x20000) if unicodedata.name(chr(code), "").startswith(word))
    return CharSet(_spans(codes))


def _spans(codes: Iterable[int]) -> tuple[tuple[int, int], ...]:
    found: list[list[int]] = []
    for code in codes:
        if found and found[-1][1] == code - 1:
            found[-1][1] = code
        else:
            found.append([code, code])
    return tuple((low, high) for low, high in found)
