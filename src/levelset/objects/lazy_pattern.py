"""Regular expressions that are compiled when they are first used, for all import them and most need few of them."""

import re
from collections.abc import Callable
from typing import Any, Final

__all__ = ["Pattern"]

_VERBS: Final = ("findall", "fullmatch", "match", "search")


class Pattern:
    """Stands for `re.compile(text, flags)`; after the first use it is as quick."""

    __slots__ = ("_flags", "_text", *_VERBS)

    findall: Callable[[str], list[Any]]
    fullmatch: Callable[[str], re.Match[str] | None]
    match: Callable[[str], re.Match[str] | None]
    search: Callable[[str], re.Match[str] | None]

    def __init__(self, text: str, flags: int = 0) -> None:
        self._text = text
        self._flags = flags

    def __getattr__(self, name: str) -> Any:
        # Asked only while the slots are empty.
        if name not in _VERBS:
            raise AttributeError(f"a Pattern has no {name}; there is {', '.join(_VERBS)}")
        compiled = re.compile(self._text, self._flags)
        for verb in _VERBS:
            setattr(self, verb, getattr(compiled, verb))
        return getattr(compiled, name)

    def __repr__(self) -> str:
        return f"Pattern({self._text!r})"
