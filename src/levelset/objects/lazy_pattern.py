"""Regular expressions that are compiled on first use: compiling them all would slow down every import."""

import re
from collections.abc import Callable
from typing import Any, Final

__all__ = ["Pattern"]

_VERBS: Final = ("findall", "fullmatch", "match", "search")


class Pattern:
    """A lazy `re.compile(text, flags)`; after the first use its methods are those of the compiled pattern."""

    __slots__ = ("_flags", "_text", *_VERBS)

    findall: Callable[[str], list[Any]]
    fullmatch: Callable[[str], re.Match[str] | None]
    match: Callable[[str], re.Match[str] | None]
    search: Callable[[str], re.Match[str] | None]

    def __init__(self, text: str, flags: int = 0) -> None:
        self._text = text
        self._flags = flags

    def __getattr__(self, name: str) -> Any:
        # Called only while the slots are empty.
        if name not in _VERBS:
            raise AttributeError(f"a Pattern has no {name}; there is {', '.join(_VERBS)}")
        compiled = re.compile(self._text, self._flags)
        for verb in _VERBS:
            setattr(self, verb, getattr(compiled, verb))
        return getattr(compiled, name)

    def __repr__(self) -> str:
        return f"Pattern({self._text!r})"
