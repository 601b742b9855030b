r"""What stands for one character in a regular expression: escapes such as `\n`, classes such as `\d` and `[^a-z]`.

Every function gets the pattern and where to read on, and gives what it found and where that ends.
"""

import re

from levelset.re2 import charsets
from levelset.re2.charsets import LAST, Charset
from levelset.re2.tree import BadRegex

__all__ = ["read_bracket", "read_escape", "read_escaped_class"]

_OCTAL = re.compile(r"0[0-7]{0,2}|[1-7][0-7]{1,2}")
_HEXADECIMAL = re.compile(r"x(?:\{0*([0-9A-Fa-f]{1,6})\}|([0-9A-Fa-f]{2}))")
_NO_HEXADECIMAL = re.compile(r"x(?:\{0*(?:10[0-9A-Fa-f]{4}|[0-9A-Fa-f]{0,5}).?|.{0,2})", re.DOTALL)
"""As much as is read before it is clear that this is no number."""

_SIGNS = {"a": 7, "f": 12, "t": 9, "n": 10, "r": 13, "v": 11}


def read_escape(pattern: str, at: int) -> tuple[int, int]:
    """The code point that a backslash and what follows stand for."""
    sign = pattern[at + 1 : at + 2]
    if not sign:
        raise BadRegex("trailing backslash at end of expression", "")
    if sign in _SIGNS:
        return _SIGNS[sign], at + 2
    if sign.isascii() and not sign.isalnum():
        return ord(sign), at + 2
    if sign == "x":
        return _read_hexadecimal(pattern, at)
    octal = _OCTAL.match(pattern, at + 1)
    if octal is None:
        raise BadRegex("invalid escape sequence", f"\\{sign}")
    return int(octal[0], 8), octal.end()


def _read_hexadecimal(pattern: str, at: int) -> tuple[int, int]:
    found = _HEXADECIMAL.match(pattern, at + 1)
    code = int(found[1] or found[2], 16) if found else LAST + 1
    if found is None or code > LAST:
        wrong = _NO_HEXADECIMAL.match(pattern, at + 1)
        raise BadRegex("invalid escape sequence", f"\\{wrong[0] if wrong else ''}")
    return code, found.end()


def read_escaped_class(pattern: str, at: int, *, fold: bool) -> tuple[Charset, int] | None:
    r"""The class that stands here, such as \d or \pL; None if it is an escaped character."""
    sign = pattern[at + 1 : at + 2]
    if sign in ("p", "P"):
        return _read_named(pattern, at, fold=fold)
    if sign.lower() not in charsets.PERL:
        return None
    return _signed(charsets.PERL[sign.lower()], fold=fold, negated=sign.isupper()), at + 2


def _read_named(pattern: str, at: int, *, fold: bool) -> tuple[Charset, int]:
    r"""A class of Unicode: \pL, \p{Greek}, \p{^Greek}."""
    name, end = pattern[at + 2 : at + 3], at + 3
    if name == "{":
        end = pattern.find("}", at) + 1 or len(pattern) + 1
        name = pattern[at + 3 : end - 1]
    found = charsets.named(name.removeprefix("^")) if end <= len(pattern) else None
    if found is None:
        raise BadRegex("invalid character class range", pattern[at:end])
    return _signed(found, fold=fold, negated=(pattern[at + 1] == "P") != name.startswith("^")), end


def read_bracket(pattern: str, at: int, *, fold: bool) -> tuple[Charset, int]:
    """A class in brackets."""
    start = at
    negated = pattern.startswith("^", at + 1)
    at = first = at + 1 + negated
    ranges: list[tuple[int, int]] = []
    while at == first or not pattern.startswith("]", at):
        found = _read_posix(pattern, at, fold=fold)
        if found is None and pattern.startswith("\\", at):
            found = read_escaped_class(pattern, at, fold=fold)
        if found is None:
            found = _read_range(pattern, at, start, fold=fold)
        ranges += found[0].ranges
        at = found[1]
    return _signed(charsets.union(ranges), fold=False, negated=negated), at + 1


def _read_posix(pattern: str, at: int, *, fold: bool) -> tuple[Charset, int] | None:
    """A class such as [:alpha:]; None if there is none here."""
    end = pattern.find(":]", at + 2) + 2 if pattern.startswith("[:", at) else 1
    if end == 1:
        return None
    name = pattern[at + 2 : end - 2]
    found = charsets.POSIX.get(name.removeprefix("^"))
    if found is None:
        raise BadRegex("invalid character class range", pattern[at:end])
    return _signed(found, fold=fold, negated=name.startswith("^")), end


def _read_range(pattern: str, at: int, start: int, *, fold: bool) -> tuple[Charset, int]:
    """One character in brackets, or several from one to another."""
    low, end = _read_char(pattern, at, start)
    high = low
    if pattern.startswith("-", end) and pattern[end + 1 : end + 2] not in ("]", ""):
        high, end = _read_char(pattern, end + 1, start)
    if high < low:
        raise BadRegex("invalid character class range", pattern[at:end])
    found = Charset(((low, high),))
    return (charsets.folded(found) if fold else found), end


def _read_char(pattern: str, at: int, start: int) -> tuple[int, int]:
    if at >= len(pattern):
        raise BadRegex("missing closing ]", pattern[start:])
    return read_escape(pattern, at) if pattern[at] == "\\" else (ord(pattern[at]), at + 1)


def _signed(charset: Charset, *, fold: bool, negated: bool) -> Charset:
    """The class in all cases if it is to fold, and then all but that if it is negated."""
    if fold:
        charset = charsets.folded(charset)
    return charsets.negate(charset) if negated else charset
