"""RE2 regular expressions in Go's dialect, as Kubernetes uses them, matched in linear time for every pattern.

`compile_regex(pattern)` returns a `Regex`, which tests whether a text matches (`matches`) and finds the matches
(`find`, `find_all`).
"""

from levelset.re2.parser import BadRegex
from levelset.re2.regex import LIMITS, Limits, Regex, compile_regex

__all__ = ["LIMITS", "BadRegex", "Limits", "Regex", "compile_regex"]
