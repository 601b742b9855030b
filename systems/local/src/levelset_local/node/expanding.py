"""The `$(VAR)` of Kubernetes in values, commands and arguments: known names are replaced, `$$` is a dollar."""

import re
from collections.abc import Mapping
from typing import Final

__all__ = ["expand"]

_MARK: Final = re.compile(r"\$(?:(\$)|\(([^)]*)\))")


def expand(text: str, known: Mapping[str, str]) -> str:
    """The text with each `$(NAME)` replaced that is known; others stay as they are, and `$$(NAME)` is `$(NAME)`."""

    def one(mark: re.Match[str]) -> str:
        return "$" if mark[1] else known.get(mark[2], mark[0])

    return _MARK.sub(one, text)
