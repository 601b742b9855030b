"""Regular expressions as Kubernetes has them: RE2, in the dialect of Go, and in linear time whatever the pattern.

`compile_regex(pattern)` gives a `Regex`, which says whether a text has what the pattern means (`matches`), and where
(`find`, `find_all`).
"""

from levelset.re2.parser import BadRegex
from levelset.re2.regex import LIMITS, Limits, Regex, compile_regex

__all__ = ["LIMITS", "BadRegex", "Limits", "Regex", "compile_regex"]
