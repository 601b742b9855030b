"""Regular expressions, as RE2 understands them: matches, find, findAll."""

from levelset.cel.faults import EvaluationError
from levelset.cel.patterns import compile_pattern
from levelset.cel.signatures import declare
from levelset.re2 import BadRegex, Regex

__all__ = ["OVERLOADS"]


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
