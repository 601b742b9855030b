"""A regular expression as a tree, and what is wrong with a text that is none.

Groups, and the names that they may have, say nothing about what is matched: they are checked and forgotten.
"""

from msgspec import Struct

from levelset.errors import Malformed
from levelset.re2.charsets import Charset

__all__ = ["BadRegex", "Choice", "Edge", "Expression", "Repeat", "Row", "repeats", "size"]


class BadRegex(Malformed):
    """The text is no regular expression that RE2 would accept; says so in the words of Go."""

    def __init__(self, problem: str, part: str) -> None:
        super().__init__(f"error parsing regexp: {problem}: `{part[:80]}`")


class Edge(Struct, frozen=True):
    """A place that takes no character: start, end, line-start, line-end, boundary, no-boundary."""

    place: str


class Row(Struct, frozen=True):
    """One part after the other; no part at all matches the empty text."""

    parts: tuple["Expression", ...]


class Choice(Struct, frozen=True):
    """One of several; the first that leads to a match is preferred."""

    options: tuple["Expression", ...]


class Repeat(Struct, frozen=True):
    """The same several times; `most` is None without a limit. Many are preferred if it is greedy, else few."""

    body: "Expression"
    least: int
    most: int | None
    greedy: bool = True


Expression = Charset | Edge | Row | Choice | Repeat


def repeats(tree: Expression) -> int:
    """How often the innermost part is written out when every counted repetition is."""
    match tree:
        case Repeat(body, least, most):
            return 1 if most == 0 else max(least, most or 1, 1) * repeats(body)
        case Row(parts) | Choice(parts):
            return max((repeats(one) for one in parts), default=1)
        case _:
            return 1


def size(tree: Expression) -> int:
    """How many characters and places the expression has when every counted repetition is written out."""
    match tree:
        case Repeat(body, least, most):
            return max(least, most or 1, 1) * size(body) + 1
        case Row(parts) | Choice(parts):
            return sum(size(one) for one in parts) + 1
        case _:
            return 1
