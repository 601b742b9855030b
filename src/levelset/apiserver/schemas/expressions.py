r"""Expressions: the regular expressions of Kubernetes (RE2) parsed into a small tree.

Patterns in schemas are RE2, as Go reads them: no look-around, no back-references, `\d` is ASCII, `$` is the end of the
text. The tree that `parse` gives is all that matching needs; `patterns.py` turns it into something that runs. Groups,
names and greediness say nothing about whether a text matches, so they are checked and forgotten.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from levelset.apiserver.schemas import charsets
from levelset.apiserver.schemas.charsets import Charset
from levelset.errors import Malformed

__all__ = ["Assertion", "BadPattern", "Choice", "Expression", "Repeat", "Sequence_", "parse", "repeats", "size"]

MOST_REPEATS = 1000
DEEPEST = 60
LARGEST = 50_000


class BadPattern(Malformed):
    """The text is no regular expression that RE2 would accept."""


@dataclass(frozen=True, slots=True)
class Assertion:
    """A place that takes no character: start, end, line-start, line-end, boundary, no-boundary."""

    place: str


@dataclass(frozen=True, slots=True)
class Sequence_:  # noqa: N801 - `Sequence` is taken by the language
    """One part after the other; no part matches the empty text."""

    parts: tuple["Expression", ...]


@dataclass(frozen=True, slots=True)
class Choice:
    """One of several."""

    options: tuple["Expression", ...]


@dataclass(frozen=True, slots=True)
class Repeat:
    """The same several times; `most` is None without a limit."""

    body: "Expression"
    least: int
    most: int | None


Expression = Charset | Assertion | Sequence_ | Choice | Repeat


def parse(pattern: str) -> Expression:
    """The tree of the pattern; raises BadPattern with the reason."""
    parser = _Parser(pattern)
    tree = parser.choice(frozenset(), 0)
    if parser.at < len(pattern):
        raise BadPattern("unexpected )")
    if repeats(tree) > MOST_REPEATS:
        raise BadPattern("invalid repeat count")
    if size(tree) > LARGEST:
        raise BadPattern("expression too large")
    return tree


def repeats(tree: Expression) -> int:
    """How often the innermost part is written out when every counted repetition is."""
    match tree:
        case Repeat(body, least, most):
            return max(least, most or 1, 1) * repeats(body)
        case Sequence_(parts) | Choice(parts):
            return max((repeats(one) for one in parts), default=1)
        case _:
            return 1


def size(tree: Expression) -> int:
    """How many characters and places the expression has when every counted repetition is written out."""
    match tree:
        case Repeat(body, least, most):
            return max(least, most or 1, 1) * size(body) + 1
        case Sequence_(parts) | Choice(parts):
            return sum(size(one) for one in parts) + 1
        case _:
            return 1


_REPEAT = re.compile(r"\{([0-9]+)(?:(,)([0-9]*))?\}")
_GROUP_NAME = re.compile(r"P?<([A-Za-z0-9_]+)>")
_FLAGS = re.compile(r"([imsU]*)(-[imsU]+)?([:)])")
_UNICODE = re.compile(r"\\[pP](?:\{(\^?)([A-Za-z_]+)\}|([A-Z]))")
_OCTAL = re.compile(r"\\(0[0-7]{0,2}|[1-7][0-7]{1,2})")
_HEXADECIMAL = re.compile(r"\\x(?:\{([0-9A-Fa-f]+)\}|([0-9A-Fa-f]{2}))")
_POSIX = re.compile(r"\[:(\^?)([a-z]+):\]")
_SIMPLE = {"a": 7, "f": 12, "t": 9, "n": 10, "r": 13, "v": 11}
_PLACES = {"A": "start", "z": "end", "b": "boundary", "B": "no-boundary"}


class _Parser:
    """Reads a pattern from left to right; flags are a set of letters that belongs to the open group."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self.names: set[str] = set()

    def choice(self, flags: frozenset[str], depth: int) -> Expression:
        """Options up to the end of the group; a flag that is set inside holds for the later options too."""
        if depth > DEEPEST:
            raise BadPattern("expression nests too deeply")
        options: list[Expression] = []
        while True:
            part, flags = self.sequence(flags, depth)
            options.append(part)
            if not self.text.startswith("|", self.at):
                break
            self.at += 1
        return options[0] if len(options) == 1 else Choice(tuple(options))

    def sequence(self, flags: frozenset[str], depth: int) -> tuple[Expression, frozenset[str]]:
        parts: list[Expression] = []
        while self.at < len(self.text) and self.text[self.at] not in "|)":
            if self.text.startswith("\\Q", self.at):
                parts.extend(self.quoted(flags))
                continue
            found = self.atom(flags, depth)
            if isinstance(found, frozenset):
                flags = found
                if self.at < len(self.text) and self.text[self.at] in "*+?":
                    raise BadPattern("missing argument to repetition operator")
                continue
            parts.append(self.repeated(found))
        return (parts[0] if len(parts) == 1 else Sequence_(tuple(parts))), flags

    def quoted(self, flags: frozenset[str]) -> list[Expression]:
        r"""The literal text between \Q and \E, its last character perhaps repeated."""
        end = self.text.find("\\E", self.at)
        literal = self.text[self.at + 2 : end if end >= 0 else None]
        self.at = end + 2 if end >= 0 else len(self.text)
        parts: list[Expression] = [charsets.single(ord(one), fold="i" in flags) for one in literal]
        if parts:
            parts[-1] = self.repeated(parts[-1])
        return parts

    def atom(self, flags: frozenset[str], depth: int) -> Expression | frozenset[str]:
        """One character, class, place or group; new flags where the text only sets flags."""
        char = self.text[self.at]
        match char:
            case "(":
                return self.group(flags, depth)
            case "[":
                return self.bracket("i" in flags)
            case "\\":
                return self.escape("i" in flags)
            case "*" | "+" | "?":
                raise BadPattern(f"missing argument to repetition operator: {char}")
            case _:
                pass
        self.at += 1
        if char == ".":
            return charsets.ANYTHING if "s" in flags else charsets.NO_NEWLINE
        if char == "^":
            return Assertion("line-start" if "m" in flags else "start")
        if char == "$":
            return Assertion("line-end" if "m" in flags else "end")
        return charsets.single(ord(char), fold="i" in flags)

    def repeated(self, body: Expression) -> Expression:
        """The part with the repetition that follows it; a second one is refused, a `?` after it changes nothing."""
        bounds = self.bounds()
        if bounds is None:
            return body
        if self.text.startswith("?", self.at):
            self.at += 1
        if self.bounds() is not None:
            raise BadPattern("invalid nested repetition operator")
        return Repeat(body, *bounds)

    def bounds(self) -> tuple[int, int | None] | None:
        char = self.text[self.at : self.at + 1]
        if char in ("*", "+", "?"):
            self.at += 1
            return (1 if char == "+" else 0), (1 if char == "?" else None)
        counted = _REPEAT.match(self.text, self.at)
        if counted is None:
            return None
        self.at = counted.end()
        least = int(counted[1])
        most = int(counted[3]) if counted[3] else (None if counted[2] else least)
        if least > MOST_REPEATS or (most is not None and (most > MOST_REPEATS or most < least)):
            raise BadPattern(f"invalid repeat count: {counted[0]}")
        return least, most

    def group(self, flags: frozenset[str], depth: int) -> Expression | frozenset[str]:
        self.at += 1
        if self.text.startswith("?", self.at):
            self.at += 1
            named = _GROUP_NAME.match(self.text, self.at)
            if named is not None:
                self.name(named)
            else:
                flags, closed = self.set_flags(flags)
                if closed:
                    return flags
        body = self.choice(flags, depth + 1)
        if not self.text.startswith(")", self.at):
            raise BadPattern("missing closing )")
        self.at += 1
        return body

    def name(self, named: "re.Match[str]") -> None:
        if named[1] in self.names:
            raise BadPattern(f"duplicate capture group name: {named[1]}")
        self.names.add(named[1])
        self.at = named.end()

    def set_flags(self, flags: frozenset[str]) -> tuple[frozenset[str], bool]:
        found = _FLAGS.match(self.text, self.at)
        if found is None or (found[3] == ")" and not found[1] and not found[2]):
            raise BadPattern(f"invalid or unsupported Perl syntax: (?{self.text[self.at : self.at + 2]}")
        self.at = found.end()
        return (flags | set(found[1])) - set(found[2] or ""), found[3] == ")"

    def escape(self, fold: bool) -> Expression:
        letter = self.text[self.at + 1 : self.at + 2]
        if letter in _PLACES and letter:
            self.at += 2
            return Assertion(_PLACES[letter])
        found = self.escaped_class()
        if found is not None:
            return found
        return charsets.single(self.escaped_char(), fold=fold)

    def escaped_class(self) -> Charset | None:
        r"""A class such as \d or \pL at this place, or None if it is an escaped character."""
        letter = self.text[self.at + 1 : self.at + 2]
        if letter and letter in charsets.PERL:
            self.at += 2
            return charsets.PERL[letter]
        if letter not in ("p", "P"):
            return None
        named = _UNICODE.match(self.text, self.at)
        found = charsets.unicode_class(named[2] or named[3]) if named else None
        if named is None or found is None:
            raise BadPattern("invalid character class range")
        self.at = named.end()
        return charsets.negate(found) if (letter == "P") != bool(named[1]) else found

    def escaped_char(self) -> int:
        """The code point that a backslash sequence stands for."""
        at = self.at
        letter = self.text[at + 1 : at + 2]
        octal = _OCTAL.match(self.text, at)
        hexadecimal = _HEXADECIMAL.match(self.text, at)
        if octal is not None:
            self.at = octal.end()
            return int(octal[1], 8)
        if hexadecimal is not None:
            self.at = hexadecimal.end()
            digits = (hexadecimal[1] or hexadecimal[2]).lstrip("0") or "0"
            code = int(digits[:7], 16)
            if code > charsets.LAST:
                raise BadPattern(f"invalid escape sequence: {hexadecimal[0]}")
            return code
        self.at += 2
        if letter in _SIMPLE:
            return _SIMPLE[letter]
        if letter and letter < "\x80" and not letter.isalnum():
            return ord(letter)
        raise BadPattern(
            f"invalid escape sequence: \\{letter}" if letter else "trailing backslash at end of expression"
        )

    def bracket(self, fold: bool) -> Charset:
        """A class in brackets."""
        self.at += 1
        negated = self.text.startswith("^", self.at)
        self.at += negated
        ranges: list[tuple[int, int]] = []
        first = True
        while first or not self.text.startswith("]", self.at):
            if self.at >= len(self.text):
                raise BadPattern("missing closing ]")
            ranges.extend(self.bracket_item(fold))
            first = False
        self.at += 1
        found = charsets.union(ranges)
        return charsets.negate(found) if negated else found

    def bracket_item(self, fold: bool) -> Sequence[tuple[int, int]]:
        posix = _POSIX.match(self.text, self.at)
        if posix is not None:
            if posix[2] not in charsets.POSIX:
                raise BadPattern(f"invalid character class range: {posix[0]}")
            self.at = posix.end()
            found = charsets.POSIX[posix[2]]
            return charsets.negate(found).ranges if posix[1] else found.ranges
        if self.text.startswith("\\", self.at):
            escaped = self.escaped_class()
            if escaped is not None:
                return escaped.ranges
        low = high = self.bracket_char()
        if self.text.startswith("-", self.at) and not self.text.startswith("-]", self.at):
            self.at += 1
            high = self.bracket_char()
        if high < low:
            raise BadPattern(f"invalid character class range: {chr(low)}-{chr(high)}")
        return charsets.folded(low, high) if fold else [(low, high)]

    def bracket_char(self) -> int:
        if self.at >= len(self.text):
            raise BadPattern("missing closing ]")
        if self.text[self.at] == "\\":
            return self.escaped_char()
        self.at += 1
        return ord(self.text[self.at - 1])
