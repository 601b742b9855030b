"""Regular expressions read as RE2 reads them: no look-around, no back-references, nothing that cannot be linear."""

import re
import string
from dataclasses import dataclass

from levelset.cel.re2sets import CLASSES, PERL, CharSet, category

__all__ = ["BadRegex", "Choice", "Edge", "Empty", "One", "Part", "Repeat", "Row", "parse_regex"]


class BadRegex(ValueError):
    """A text that is no regular expression."""

    def __init__(self, problem: str, part: str) -> None:
        super().__init__(f"error parsing regexp: {problem}: `{part[:80]}`")


@dataclass(frozen=True, slots=True)
class One:
    """One character of a set."""

    chars: CharSet


@dataclass(frozen=True, slots=True)
class Edge:
    """A place between characters: the beginning or end of the text or a line, or a word's edge."""

    kind: str


@dataclass(frozen=True, slots=True)
class Empty:
    """Nothing at all."""


@dataclass(frozen=True, slots=True)
class Row:
    """Parts one after the other."""

    parts: tuple["Part", ...]


@dataclass(frozen=True, slots=True)
class Choice:
    """One of several parts, the first that leads to a match."""

    parts: tuple["Part", ...]


@dataclass(frozen=True, slots=True)
class Repeat:
    """A part again and again; `most` is None where there is no limit."""

    part: "Part"
    least: int
    most: int | None
    is_greedy: bool


Part = One | Edge | Empty | Row | Choice | Repeat

_MAX_DEPTH = 60
_MAX_REPEAT = 1000
_MAX_LENGTH = 10_000
_REPEAT = re.compile(r"\{([0-9]{1,9})(?:(,)([0-9]{1,9})?)?\}")
_GROUP = re.compile(r"\(\?P?<([A-Za-z_][A-Za-z0-9_]*)>")
_FLAGS = re.compile(r"\(\?([imsU]*)(?:-([imsU]+))?([:)])")
_CODE = re.compile(r"\\(?:x([0-9A-Fa-f]{2})|x\{([0-9A-Fa-f]{1,8})\}|([0-7]{3})|(0))")
_SHORT = {"a": "\a", "f": "\f", "t": "\t", "n": "\n", "r": "\r", "v": "\v"}
_EDGES = {"A": "start", "z": "end", "b": "word", "B": "inside"}
_BOUNDS = {"*": (0, None), "+": (1, None), "?": (0, 1)}
_ANY = CharSet(((0, 0x10FFFF),))
_NOT_NEWLINE = CharSet(((0, 9), (11, 0x10FFFF)))


def parse_regex(pattern: str) -> Part:
    """The parts of a regular expression; raises BadRegex."""
    if len(pattern) > _MAX_LENGTH:
        raise BadRegex("expression too large", pattern)
    parser = _Parser(pattern)
    found = parser.choice(frozenset(), 0)
    if parser.at < len(pattern):
        raise BadRegex("unexpected )", pattern)
    return found


class _Parser:
    def __init__(self, pattern: str) -> None:
        self.pattern = pattern
        self.at = 0

    def _peek(self) -> str:
        return self.pattern[self.at : self.at + 1]

    def choice(self, flags: frozenset[str], depth: int) -> Part:
        if depth > _MAX_DEPTH:
            raise BadRegex("expression nests too deeply", self.pattern)
        rows: list[Part] = []
        while True:
            row, flags = self._row(flags, depth)
            rows.append(row)
            if self._peek() != "|":
                return rows[0] if len(rows) == 1 else Choice(tuple(rows))
            self.at += 1

    def _row(self, flags: frozenset[str], depth: int) -> tuple[Part, frozenset[str]]:
        parts: list[Part] = []
        while self._peek() not in ("", "|", ")"):
            if self.pattern.startswith("\\Q", self.at):
                parts += self._quoted(flags)
                continue
            match = _FLAGS.match(self.pattern, self.at)
            if match and match[3] == ")" and (match[1] or match[2]):
                flags = _with(flags, match)
                self.at = match.end()
                continue
            start = self.at
            parts.append(self._repeated(self._atom(flags, depth), start, flags))
        if len(parts) == 1:
            return parts[0], flags
        return (Row(tuple(parts)) if parts else Empty()), flags

    def _quoted(self, flags: frozenset[str]) -> list[Part]:
        end = self.pattern.find("\\E", self.at)
        text = self.pattern[self.at + 2 : end if end >= 0 else len(self.pattern)]
        self.at = end + 2 if end >= 0 else len(self.pattern)
        return [One(_single(char, flags)) for char in text]

    def _repeated(self, part: Part, start: int, flags: frozenset[str]) -> Part:
        is_repeated = False
        while (bounds := self._bounds()) is not None:
            if is_repeated:
                raise BadRegex("invalid nested repetition operator", self.pattern[start : self.at])
            is_lazy = self._peek() == "?"
            self.at += is_lazy
            part = Repeat(part, bounds[0], bounds[1], is_greedy=is_lazy == ("U" in flags))
            is_repeated = True
        return part

    def _bounds(self) -> tuple[int, int | None] | None:
        sign = self._peek()
        if sign in _BOUNDS:
            self.at += 1
            return _BOUNDS[sign]
        match = _REPEAT.match(self.pattern, self.at) if sign == "{" else None
        if match is None:
            return None
        least = int(match[1])
        most = least if match[2] is None else int(match[3]) if match[3] else None
        if least > _MAX_REPEAT or (most is not None and (most > _MAX_REPEAT or most < least)):
            raise BadRegex("invalid repeat count", match[0])
        self.at = match.end()
        return least, most

    def _atom(self, flags: frozenset[str], depth: int) -> Part:
        sign = self._peek()
        if sign == "(":
            return self._group(flags, depth)
        if sign in _BOUNDS:
            raise BadRegex("missing argument to repetition operator", sign)
        if sign == "[":
            return One(self._class(flags))
        if sign == "\\":
            return self._escape(flags)
        self.at += 1
        if sign == ".":
            return One(_ANY if "s" in flags else _NOT_NEWLINE)
        if sign == "^":
            return Edge("line" if "m" in flags else "start")
        if sign == "$":
            return Edge("line-end" if "m" in flags else "end")
        return One(_single(sign, flags))

    def _group(self, flags: frozenset[str], depth: int) -> Part:
        start = self.at
        match = _FLAGS.match(self.pattern, self.at)
        named = _GROUP.match(self.pattern, self.at)
        if match and match[3] == ":":
            flags = _with(flags, match)
            self.at = match.end()
        elif named:
            self.at = named.end()
        elif self.pattern.startswith("(?", self.at):
            raise BadRegex("invalid or unsupported Perl syntax", self.pattern[start : start + 3])
        else:
            self.at += 1
        inner = self.choice(flags, depth + 1)
        if self._peek() != ")":
            raise BadRegex("missing closing )", self.pattern)
        self.at += 1
        return inner if not isinstance(inner, Repeat) else Row((inner,))

    def _escape(self, flags: frozenset[str]) -> Part:
        sign = self.pattern[self.at + 1 : self.at + 2]
        if sign in _EDGES and sign:
            self.at += 2
            return Edge(_EDGES[sign])
        found = self._escaped_set()
        return One(found if found is not None else _single(self._escaped_char(), flags))

    def _escaped_set(self) -> CharSet | None:
        r"""The set that \d, \pL and the like stand for, if one stands here."""
        sign = self.pattern[self.at + 1 : self.at + 2]
        if sign in PERL and sign:
            self.at += 2
            return PERL[sign]
        if sign not in ("p", "P"):
            return None
        name, end = self.pattern[self.at + 2 : self.at + 3], self.at + 3
        if name == "{":
            closing = self.pattern.find("}", end)
            name, end = self.pattern[end:closing], closing + 1
            if closing < 0:
                raise BadRegex("invalid character class range", self.pattern[self.at :])
        found = category(name.removeprefix("^"))
        if found is None:
            raise BadRegex("invalid character class range", self.pattern[self.at : end])
        self.at = end
        return found.negated() if (sign == "P") != name.startswith("^") else found

    def _escaped_char(self) -> str:
        match = _CODE.match(self.pattern, self.at)
        if match:
            code = int(match[3] or match[4], 8) if match[3] or match[4] else int(match[1] or match[2], 16)
            if code > 0x10FFFF:
                raise BadRegex("invalid escape sequence", match[0])
            self.at = match.end()
            return chr(code)
        sign = self.pattern[self.at + 1 : self.at + 2]
        if sign in _SHORT and sign:
            self.at += 2
            return _SHORT[sign]
        if not sign:
            raise BadRegex("trailing backslash at end of expression", "")
        if sign not in string.punctuation:
            raise BadRegex("invalid escape sequence", f"\\{sign}")
        self.at += 2
        return sign

    def _class(self, flags: frozenset[str]) -> CharSet:
        start = self.at
        self.at += 1
        is_negated = self._peek() == "^"
        self.at += is_negated
        found = CharSet(())
        is_first = True
        while is_first or self._peek() != "]":
            if not self._peek():
                raise BadRegex("missing closing ]", self.pattern[start:])
            found = found.joined(self._class_item(flags))
            is_first = False
        self.at += 1
        return found.negated() if is_negated else found

    def _class_item(self, flags: frozenset[str]) -> CharSet:
        if self.pattern.startswith("[:", self.at):
            end = self.pattern.find(":]", self.at)
            name = self.pattern[self.at + 2 : end].removeprefix("^") if end >= 0 else ""
            if name not in CLASSES:
                raise BadRegex("invalid character class range", self.pattern[self.at : end + 2])
            is_negated = self.pattern[self.at + 2] == "^"
            self.at = end + 2
            return CLASSES[name].negated() if is_negated else CLASSES[name]
        found = self._escaped_set() if self._peek() == "\\" else None
        if found is not None:
            return found
        start = self.at
        low = self._class_char()
        high = low
        if self._peek() == "-" and self.pattern[self.at + 1 : self.at + 2] not in ("]", ""):
            self.at += 1
            high = self._class_char()
        if high < low:
            raise BadRegex("invalid character class range", self.pattern[start : self.at])
        return CharSet(((ord(low), ord(high)),), is_folded="i" in flags)

    def _class_char(self) -> str:
        if self._peek() == "\\":
            return self._escaped_char()
        char = self._peek()
        if not char:
            raise BadRegex("missing closing ]", self.pattern)
        self.at += 1
        return char


def _single(char: str, flags: frozenset[str]) -> CharSet:
    return CharSet(((ord(char), ord(char)),), is_folded="i" in flags)


def _with(flags: frozenset[str], match: re.Match[str]) -> frozenset[str]:
    return (flags | set(match[1])) - set(match[2] or "")
