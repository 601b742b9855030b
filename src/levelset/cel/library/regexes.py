"""The regex library: matches, find and findAll, with RE2 syntax.

The engine is `levelset.re2`, with lower limits than elsewhere: an object may supply patterns, and a rule may compile
them in a loop.
"""

from levelset.cel.errors import EvaluationError
from levelset.cel.types import declare
from levelset.re2 import BadRegex, Limits, Regex, compile_regex

__all__ = ["OVERLOADS", "compile_pattern"]

_LIMITS = Limits(size=12_000, steps=20_000)


def compile_pattern(pattern: str) -> Regex:
    """The compiled pattern; raises BadRegex."""
    return compile_regex(pattern, _LIMITS)


def _regex(pattern: str) -> Regex:
    try:
        return compile_pattern(pattern)
    except BadRegex as error:
        raise EvaluationError(str(error)) from None


def _matches(text: str, pattern: str) -> bool:
    return _regex(pattern).matches(text)


def _find(text: str, pattern: str) -> str:
    return _regex(pattern).find(text)


def _find_all(text: str, pattern: str, limit: int = -1) -> list[str]:
    return _regex(pattern).find_all(text, limit)


OVERLOADS = declare(
    [
        ("matches: (string, string) bool", _matches),
        ("matches: string.(string) bool", _matches),
        ("find: string.(string) string", _find),
        ("findAll: string.(string) list(string)", _find_all),
        ("findAll: string.(string, int) list(string)", _find_all),
    ],
    charge="regex",
)
