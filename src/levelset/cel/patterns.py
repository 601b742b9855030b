"""Regular expressions in rules: those of `levelset.re2`, held shorter, for any object may bring them in a loop."""

from levelset.re2 import Limits, Regex, compile_regex

__all__ = ["compile_pattern"]

_LIMITS = Limits(size=12_000, steps=20_000)


def compile_pattern(pattern: str) -> Regex:
    """The regular expression of this pattern; raises BadRegex."""
    return compile_regex(pattern, _LIMITS)
