r"""Regular expressions read as RE2 reads them, in the dialect of Go, which is that of Kubernetes.

There are no look-around and no back-references, for nothing may take more than linear time; `\d` is ASCII, and `$` the
end of the text. What `regexp/syntax` of Go refuses is refused, in its words. Refused are besides: patterns that nest
deeper than DEEPEST or are larger than the caller allows, and a repetition that is repeated with nothing but flags or an
empty quote between, as in `a*(?i)*`, which would nest without a bound.
"""

import re

from levelset.re2 import charsets
from levelset.re2.classes import read_bracket, read_escape, read_escaped_class
from levelset.re2.tree import BadRegex, Choice, Edge, Expression, Repeat, Row, repeats, size

__all__ = ["Bounds", "Flags", "parse"]

MOST_REPEATS = 1000
DEEPEST = 60

Flags = frozenset[str]
"""Letters of what is set: i, m, s, U."""

Bounds = tuple[int, int | None]
"""How often something is repeated at least and at most."""

_COUNTED = re.compile(r"\{(0|[1-9][0-9]*)(?:(,)(0|[1-9][0-9]*)?)?\}")
_SIGNS: dict[str, Bounds] = {"*": (0, None), "+": (1, None), "?": (0, 1)}
_FLAGS = re.compile(r"\(\?([imsU]*)(?:-([imsU]+))?([:)])")
_NO_FLAGS = re.compile(r"\(\?[imsU]*(?:-[imsU]*)?.?", re.DOTALL)
"""As much as is read before it is clear that these are no flags."""

_NAMED = re.compile(r"\(\?P?<(?=.)[^>]*>?", re.DOTALL)
_SOUND_NAME = re.compile(r"\(\?P?<[A-Za-z0-9_]+>")
_PLACES = {"A": "start", "z": "end", "b": "boundary", "B": "no-boundary"}


def parse(pattern: str, largest: int) -> Expression:
    """The tree of the pattern; raises BadRegex, also if it has more than `largest` characters when written out."""
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
    """Reads a pattern from left to right; the flags are those of the group that is open."""

    def __init__(self, pattern: str) -> None:
        self.pattern = pattern
        self.at = 0

    def choice(self, flags: Flags, depth: int) -> Expression:
        """Options up to the end of the group; a flag that is set inside holds for the later options too."""
        if depth > DEEPEST:
            raise BadRegex("expression nests too deeply", self.pattern)
        options: list[Expression] = []
        while True:
            part, flags = self.row(flags, depth)
            options.append(part)
            if not self.pattern.startswith("|", self.at):
                return options[0] if len(options) == 1 else Choice(tuple(options))
            self.at += 1

    def row(self, flags: Flags, depth: int) -> tuple[Expression, Flags]:
        """Parts up to the end of the option, and the flags that are set there."""
        pattern = self.pattern
        parts: list[Expression] = []
        repeated, since = 0, 0  # how many parts there were at the last repetition, and where it began
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
        return (parts[0] if len(parts) == 1 else Row(tuple(parts))), flags

    def bounds(self, sign: str) -> Bounds | None:
        """The repetition that stands here, if one does; a brace that begins none is a character as any other."""
        if sign in _SIGNS:
            self.at += 1
            return _SIGNS[sign]
        counted = _COUNTED.match(self.pattern, self.at) if sign == "{" else None
        if counted is None:
            return None
        least = _count(counted[1])
        most = _count(counted[3]) if counted[3] else (None if counted[2] else least)
        if least > MOST_REPEATS or (most is not None and (most > MOST_REPEATS or most < least)):
            raise BadRegex("invalid repeat count", counted[0])
        self.at = counted.end()
        return least, most

    def greedy(self, flags: Flags) -> bool:
        """Whether the repetition that ends here is greedy; steps over the sign that says otherwise."""
        reverse = self.pattern.startswith("?", self.at)
        self.at += reverse
        return reverse == ("U" in flags)

    def repeat(self, parts: list[Expression], bounds: Bounds, start: int, *, greedy: bool) -> None:
        """Repeats the last part."""
        if not parts:
            raise BadRegex("missing argument to repetition operator", self.pattern[start : self.at])
        least, most = bounds
        parts[-1] = Repeat(parts[-1], least, most, greedy)
        if max(least, most or 0) > 1 and repeats(parts[-1]) > MOST_REPEATS:
            raise BadRegex("invalid repeat count", self.pattern[start : self.at])

    def group(self, parts: list[Expression], flags: Flags, depth: int) -> Flags:
        """Adds the group that stands here; if it only sets flags, these hold from now on."""
        inside, closed = self.opening(flags)
        if closed:
            return inside
        parts.append(self.choice(inside, depth + 1))
        if not self.pattern.startswith(")", self.at):
            raise BadRegex("missing closing )", self.pattern)
        self.at += 1
        return flags

    def opening(self, flags: Flags) -> tuple[Flags, bool]:
        """Steps over what begins a group; the flags inside of it, and whether it has none and only sets them."""
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
        r"""Adds the characters between \Q and \E, which all mean themselves."""
        start, end = self.at + 2, self.pattern.find("\\E", self.at + 2)
        text = self.pattern[start:] if end < 0 else self.pattern[start:end]
        parts += (_literal(ord(char), flags) for char in text)
        self.at = len(self.pattern) if end < 0 else end + 2

    def atom(self, sign: str, flags: Flags) -> Expression:
        """One character, class or place."""
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
                return Edge("line-start" if "m" in flags else "start")
            case "$":
                return Edge("line-end" if "m" in flags else "end")
            case _:
                return _literal(ord(sign), flags)

    def escape(self, flags: Flags) -> Expression:
        place = _PLACES.get(self.pattern[self.at + 1 : self.at + 2])
        if place is not None:
            self.at += 2
            return Edge(place)
        found = read_escaped_class(self.pattern, self.at, fold="i" in flags)
        if found is not None:
            charset, self.at = found
            return charset
        code, self.at = read_escape(self.pattern, self.at)
        return _literal(code, flags)


def _literal(code: int, flags: Flags) -> Expression:
    return charsets.folded(charsets.single(code)) if "i" in flags else charsets.single(code)


def _count(digits: str) -> int:
    """The number, or one that is too large as well."""
    return int(digits[: len(str(MOST_REPEATS)) + 1])
