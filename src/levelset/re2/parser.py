r"""The parser of RE2 regular expressions, in the dialect of Go's `regexp/syntax`, which Kubernetes uses.

There are no look-around and no back-references, because matching must take linear time; `\d` is ASCII, and `$` the end
of the text. Patterns that Go's `regexp/syntax` rejects are rejected with the same message. Also rejected are patterns
that nest deeper than MAX_DEPTH or are larger than the caller allows, and a repetition that is repeated with only flags
or an empty quote between, as in `a*(?i)*`, which would nest without bound.

Groups and their names do not affect what is matched: they are checked and dropped. Every `read_...` function takes the
pattern and an offset, and returns what it read and the offset after it.
"""

import re

from msgspec import Struct

from levelset.errors import Malformed
from levelset.re2 import charsets
from levelset.re2.charsets import LAST, Charset

__all__ = [
    "Alternation",
    "Assertion",
    "BadRegex",
    "Bounds",
    "Expression",
    "Flags",
    "Repeat",
    "Sequence",
    "parse",
    "read_bracket",
    "read_escape",
    "read_escaped_class",
    "repeats",
    "size",
]


class BadRegex(Malformed):
    """The pattern is not a valid RE2 regular expression; the message is that of Go."""

    def __init__(self, problem: str, part: str) -> None:
        super().__init__(f"error parsing regexp: {problem}: `{part[:80]}`")


class Assertion(Struct, frozen=True):
    """A position that consumes no character: start, end, line-start, line-end, boundary, no-boundary."""

    place: str


class Sequence(Struct, frozen=True):
    """Parts in sequence; an empty sequence matches the empty string."""

    parts: tuple["Expression", ...]


class Alternation(Struct, frozen=True):
    """One of several options; the first one that leads to a match is preferred."""

    options: tuple["Expression", ...]


class Repeat(Struct, frozen=True):
    """A repetition; `most` is None if unbounded. Prefers more iterations if greedy, else fewer."""

    body: "Expression"
    least: int
    most: int | None
    greedy: bool = True


Expression = Charset | Assertion | Sequence | Alternation | Repeat


def repeats(tree: Expression) -> int:
    """How often the innermost part occurs when every counted repetition is expanded."""
    match tree:
        case Repeat(body, least, most):
            return 1 if most == 0 else max(least, most or 1, 1) * repeats(body)
        case Sequence(parts) | Alternation(parts):
            return max((repeats(one) for one in parts), default=1)
        case _:
            return 1


def size(tree: Expression) -> int:
    """The number of characters and assertions in the expression when every counted repetition is expanded."""
    match tree:
        case Repeat(body, least, most):
            return max(least, most or 1, 1) * size(body) + 1
        case Sequence(parts) | Alternation(parts):
            return sum(size(one) for one in parts) + 1
        case _:
            return 1


_OCTAL = re.compile(r"0[0-7]{0,2}|[1-7][0-7]{1,2}")
_HEXADECIMAL = re.compile(r"x(?:\{0*([0-9A-Fa-f]{1,6})\}|([0-9A-Fa-f]{2}))")
_NO_HEXADECIMAL = re.compile(r"x(?:\{0*(?:10[0-9A-Fa-f]{4}|[0-9A-Fa-f]{0,5}).?|.{0,2})", re.DOTALL)
"""The prefix that is read before an invalid hexadecimal escape is detected, for the error message."""

_CONTROL_ESCAPES = {"a": 7, "f": 12, "t": 9, "n": 10, "r": 13, "v": 11}


def read_escape(pattern: str, at: int) -> tuple[int, int]:
    """The code point of an escape sequence."""
    sign = pattern[at + 1 : at + 2]
    if not sign:
        raise BadRegex("trailing backslash at end of expression", "")
    if sign in _CONTROL_ESCAPES:
        return _CONTROL_ESCAPES[sign], at + 2
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
    r"""The character class at this offset, such as \d or \pL; None if it is an escaped character."""
    sign = pattern[at + 1 : at + 2]
    if sign in ("p", "P"):
        return _read_named(pattern, at, fold=fold)
    if sign.lower() not in charsets.PERL:
        return None
    return _signed(charsets.PERL[sign.lower()], fold=fold, negated=sign.isupper()), at + 2


def _read_named(pattern: str, at: int, *, fold: bool) -> tuple[Charset, int]:
    r"""A Unicode class: \pL, \p{Greek}, \p{^Greek}."""
    name, end = pattern[at + 2 : at + 3], at + 3
    if name == "{":
        end = pattern.find("}", at) + 1 or len(pattern) + 1
        name = pattern[at + 3 : end - 1]
    found = charsets.named(name.removeprefix("^")) if end <= len(pattern) else None
    if found is None:
        raise BadRegex("invalid character class range", pattern[at:end])
    return _signed(found, fold=fold, negated=(pattern[at + 1] == "P") != name.startswith("^")), end


def read_bracket(pattern: str, at: int, *, fold: bool) -> tuple[Charset, int]:
    """A bracket expression."""
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
    """A POSIX class such as [:alpha:]; None if there is none at this offset."""
    end = pattern.find(":]", at + 2) + 2 if pattern.startswith("[:", at) else 1
    if end == 1:
        return None
    name = pattern[at + 2 : end - 2]
    found = charsets.POSIX.get(name.removeprefix("^"))
    if found is None:
        raise BadRegex("invalid character class range", pattern[at:end])
    return _signed(found, fold=fold, negated=name.startswith("^")), end


def _read_range(pattern: str, at: int, start: int, *, fold: bool) -> tuple[Charset, int]:
    """One character or range of a bracket expression."""
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
    """The class, case-folded if requested, and then negated if requested."""
    if fold:
        charset = charsets.folded(charset)
    return charsets.negate(charset) if negated else charset


MAX_REPEATS = 1000
MAX_DEPTH = 60

Flags = frozenset[str]
"""The letters of the flags that are set: i, m, s, U."""

Bounds = tuple[int, int | None]
"""The minimum and maximum of a repetition; None if unbounded."""

_COUNTED = re.compile(r"\{(0|[1-9][0-9]*)(?:(,)(0|[1-9][0-9]*)?)?\}")
_REPEAT_SIGNS: dict[str, Bounds] = {"*": (0, None), "+": (1, None), "?": (0, 1)}
_FLAGS = re.compile(r"\(\?([imsU]*)(?:-([imsU]+))?([:)])")
_NO_FLAGS = re.compile(r"\(\?[imsU]*(?:-[imsU]*)?.?", re.DOTALL)
"""The prefix that is read before invalid flags are detected, for the error message."""

_NAMED = re.compile(r"\(\?P?<(?=.)[^>]*>?", re.DOTALL)
_SOUND_NAME = re.compile(r"\(\?P?<[A-Za-z0-9_]+>")
_PLACES = {"A": "start", "z": "end", "b": "boundary", "B": "no-boundary"}


def parse(pattern: str, largest: int) -> Expression:
    """The tree of the pattern; raises BadRegex, also if it has more than `largest` characters when expanded."""
    if len(pattern) > largest:
        raise BadRegex("expression too large", pattern)
    parser = _Parser(pattern)
    tree = parser.choice(frozenset(), 0)
    if parser.at < len(pattern):
        raise BadRegex("unexpected )", pattern)
    if size(tree) > largest:
        raise BadRegex("expression too large", pattern)
    return tree


class _Parser:
    """Parses a pattern from left to right; the flags are those of the current group."""

    def __init__(self, pattern: str) -> None:
        self.pattern = pattern
        self.at = 0

    def choice(self, flags: Flags, depth: int) -> Expression:
        """The options up to the end of the group; flags set inside one also apply to the later ones."""
        if depth > MAX_DEPTH:
            raise BadRegex("expression nests too deeply", self.pattern)
        options: list[Expression] = []
        while True:
            part, flags = self.row(flags, depth)
            options.append(part)
            if not self.pattern.startswith("|", self.at):
                return options[0] if len(options) == 1 else Alternation(tuple(options))
            self.at += 1

    def row(self, flags: Flags, depth: int) -> tuple[Expression, Flags]:
        """The parts up to the end of the option, and the flags at its end."""
        pattern = self.pattern
        parts: list[Expression] = []
        repeated, since = 0, 0  # the number of parts at the last repetition, and the offset of that repetition
        while self.at < len(pattern) and (sign := pattern[self.at]) not in "|)":
            start = self.at
            bounds = self.bounds(sign)
            if bounds is not None:
                greedy = self.greedy(flags)
                if repeated and repeated == len(parts):
                    raise BadRegex("invalid nested repetition operator", pattern[since : self.at])
                self.repeat(parts, bounds, start, greedy=greedy)
                repeated, since = len(parts), start
            elif sign == "(":
                flags = self.group(parts, flags, depth)
            elif pattern.startswith("\\Q", start):
                self.quote(parts, flags)
            else:
                parts.append(self.atom(sign, flags))
        return (parts[0] if len(parts) == 1 else Sequence(tuple(parts))), flags

    def bounds(self, sign: str) -> Bounds | None:
        """The repetition at this offset, or None; a brace that does not start one is a literal character."""
        if sign in _REPEAT_SIGNS:
            self.at += 1
            return _REPEAT_SIGNS[sign]
        counted = _COUNTED.match(self.pattern, self.at) if sign == "{" else None
        if counted is None:
            return None
        least = _count(counted[1])
        most = _count(counted[3]) if counted[3] else (None if counted[2] else least)
        if least > MAX_REPEATS or (most is not None and (most > MAX_REPEATS or most < least)):
            raise BadRegex("invalid repeat count", counted[0])
        self.at = counted.end()
        return least, most

    def greedy(self, flags: Flags) -> bool:
        """Whether the repetition that ends here is greedy; skips the sign that inverts it."""
        reverse = self.pattern.startswith("?", self.at)
        self.at += reverse
        return reverse == ("U" in flags)

    def repeat(self, parts: list[Expression], bounds: Bounds, start: int, *, greedy: bool) -> None:
        """Repeats the last part."""
        if not parts:
            raise BadRegex("missing argument to repetition operator", self.pattern[start : self.at])
        least, most = bounds
        parts[-1] = Repeat(parts[-1], least, most, greedy)
        if max(least, most or 0) > 1 and repeats(parts[-1]) > MAX_REPEATS:
            raise BadRegex("invalid repeat count", self.pattern[start : self.at])

    def group(self, parts: list[Expression], flags: Flags, depth: int) -> Flags:
        """Adds the group at this offset; if it only sets flags, they apply from here on."""
        inside, closed = self.opening(flags)
        if closed:
            return inside
        parts.append(self.choice(inside, depth + 1))
        if not self.pattern.startswith(")", self.at):
            raise BadRegex("missing closing )", self.pattern)
        self.at += 1
        return flags

    def opening(self, flags: Flags) -> tuple[Flags, bool]:
        """Skips the opening of a group; returns the flags inside it, and whether it only sets flags."""
        if not self.pattern.startswith("(?", self.at):
            self.at += 1
            return flags, False
        named = _NAMED.match(self.pattern, self.at)
        if named is not None:
            if not _SOUND_NAME.fullmatch(named[0]):
                raise BadRegex("invalid named capture", named[0])
            self.at = named.end()
            return flags, False
        found = _FLAGS.match(self.pattern, self.at)
        if found is None:
            wrong = _NO_FLAGS.match(self.pattern, self.at)
            raise BadRegex("invalid or unsupported Perl syntax", wrong[0] if wrong else "")
        self.at = found.end()
        return (flags | set(found[1])) - set(found[2] or ""), found[3] == ")"

    def quote(self, parts: list[Expression], flags: Flags) -> None:
        r"""Adds the characters between \Q and \E, which are literal."""
        start, end = self.at + 2, self.pattern.find("\\E", self.at + 2)
        text = self.pattern[start:] if end < 0 else self.pattern[start:end]
        parts += (_literal(ord(char), flags) for char in text)
        self.at = len(self.pattern) if end < 0 else end + 2

    def atom(self, sign: str, flags: Flags) -> Expression:
        """One character, class or assertion."""
        if sign == "[":
            found, self.at = read_bracket(self.pattern, self.at, fold="i" in flags)
            return found
        if sign == "\\":
            return self.escape(flags)
        self.at += 1
        match sign:
            case ".":
                return charsets.ANYTHING if "s" in flags else charsets.NO_NEWLINE
            case "^":
                return Assertion("line-start" if "m" in flags else "start")
            case "$":
                return Assertion("line-end" if "m" in flags else "end")
            case _:
                return _literal(ord(sign), flags)

    def escape(self, flags: Flags) -> Expression:
        place = _PLACES.get(self.pattern[self.at + 1 : self.at + 2])
        if place is not None:
            self.at += 2
            return Assertion(place)
        found = read_escaped_class(self.pattern, self.at, fold="i" in flags)
        if found is not None:
            charset, self.at = found
            return charset
        code, self.at = read_escape(self.pattern, self.at)
        return _literal(code, flags)


def _literal(code: int, flags: Flags) -> Expression:
    return charsets.folded(charsets.single(code)) if "i" in flags else charsets.single(code)


def _count(digits: str) -> int:
    """The number; very large ones are replaced by one that is also rejected as too large."""
    return int(digits[: len(str(MAX_REPEATS)) + 1])
