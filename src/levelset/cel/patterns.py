"""Regular expressions in rules: those of `levelset.re2`, but smaller ones only, for anybody's object may bring them."""

from levelset.re2 import Regex, compile_regex

__all__ = ["compile_pattern"]

_LARGEST = 12_000


def compile_pattern(pattern: str) -> Regex:
    """The regular expression of this pattern; raises BadRegex."""
    return compile_regex(pattern, _LARGEST)
