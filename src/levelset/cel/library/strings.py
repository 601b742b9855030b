"""The strings library: substring, indexOf, case, split, join and format."""

import string
from typing import Any

from levelset.cel.errors import EvaluationError
from levelset.cel.library.string_format import format_text
from levelset.cel.types import declare
from levelset.cel.values import no_overload

__all__ = ["OVERLOADS"]

_LOWER = str.maketrans(string.ascii_uppercase, string.ascii_lowercase)
_UPPER = str.maketrans(string.ascii_lowercase, string.ascii_uppercase)
_SPACE = "".join(["\t\n\v\f\r \x85\xa0\u1680", *map(chr, range(0x2000, 0x200B)), "\u2028\u2029\u202f\u205f\u3000"])
_ESCAPES = str.maketrans(
    {"\a": r"\a", "\b": r"\b", "\f": r"\f", "\n": r"\n", "\r": r"\r", "\t": r"\t", "\v": r"\v", "\\": r"\\", '"': r"\""}
)
_MAX_RESULT = 3 * 1024 * 1024  # characters: the size limit of a request


def _char_at(text: str, place: int) -> str:
    if not 0 <= place <= len(text):
        raise EvaluationError(f"index out of range: {place}")
    return text[place : place + 1]


def _index_of(text: str, part: str, start: int = 0) -> int:
    if not part:
        return start
    if start < 0:
        raise EvaluationError(f"index out of range: {start}")
    return -1 if start >= len(text) else text.find(part, start)


def _last_index_of(text: str, part: str, start: int | None = None) -> int:
    if start is None:
        return text.rfind(part) if part else len(text)
    if not part:
        return start
    if start < 0:
        raise EvaluationError(f"index out of range: {start}")
    return -1 if start >= len(text) else text.rfind(part, 0, start + len(part))


def _replace(text: str, part: str, by: str, times: int = -1) -> str:
    count = text.count(part) if part else len(text) + 1
    if times >= 0:
        count = min(count, times)
    if len(text) + count * (len(by) - len(part)) > _MAX_RESULT:
        raise EvaluationError("replace: the result would be too long")
    return text.replace(part, by, times)


def _split(text: str, separator: str, limit: int = -1) -> list[str]:
    if limit == 0:
        return []
    if separator:
        return text.split(separator, limit - 1 if limit > 0 else -1)
    if limit < 0 or limit >= len(text):
        return list(text)
    return [*text[: limit - 1], text[limit - 1 :]]


def _substring(text: str, start: int, end: int | None = None) -> str:
    if end is None:
        if not 0 <= start <= len(text):
            raise EvaluationError(f"index out of range: {start}")
        return text[start:]
    if start > end:
        raise EvaluationError(f"invalid substring range. start: {start}, end: {end}")
    if not 0 <= start <= len(text):
        raise EvaluationError(f"index out of range: {start}")
    if end > len(text):
        raise EvaluationError(f"index out of range: {end}")
    return text[start:end]


def _join(items: list[Any], separator: str = "") -> str:
    if not all(type(item) is str for item in items):
        raise no_overload()
    if sum(map(len, items)) + len(separator) * len(items) > _MAX_RESULT:
        raise EvaluationError("join: the result would be too long")
    return separator.join(items)


def _quote(text: str) -> str:
    return f'"{text.translate(_ESCAPES)}"'


OVERLOADS = [
    *declare([("charAt: string.(int) string", _char_at)]),
    *declare([("format: string.(list(dyn)) string", format_text)], charge="formatted"),
    *declare(
        [
            ("lowerAscii: string.() string", lambda text: text.translate(_LOWER)),
            ("upperAscii: string.() string", lambda text: text.translate(_UPPER)),
            ("trim: string.() string", lambda text: text.strip(_SPACE)),
            ("substring: string.(int) string", _substring),
            ("substring: string.(int, int) string", _substring),
            ("strings.quote: (string) string", _quote),
            ("jsonpatch.escapeKey: (string) string", lambda text: text.replace("~", "~0").replace("/", "~1")),
        ],
        charge="traverse",
    ),
    *declare(
        [
            ("indexOf: string.(string) int", _index_of),
            ("indexOf: string.(string, int) int", _index_of),
            ("lastIndexOf: string.(string) int", _last_index_of),
            ("lastIndexOf: string.(string, int) int", _last_index_of),
        ],
        charge="search",
    ),
    *declare(
        [
            ("replace: string.(string, string) string", _replace),
            ("replace: string.(string, string, int) string", _replace),
        ],
        charge="replaced",
    ),
    *declare(
        [
            ("split: string.(string) list(string)", _split),
            ("split: string.(string, int) list(string)", _split),
        ],
        charge="twice",
    ),
    *declare([("join: list(string).() string", _join), ("join: list(string).(string) string", _join)], charge="joined"),
]
