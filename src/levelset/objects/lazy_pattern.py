"""Regular expressions that are compiled on first use: compiling them all would slow down every import."""

import re
from collections.abc import Callable, Iterator
from typing import Any, AnyStr, Final, Generic

__all__ = ["Pattern"]

_VERBS: Final = ("findall", "finditer", "fullmatch", "match", "search", "sub")


class Pattern(Generic[AnyStr]):
    """A lazy `re.compile(text, flags)`; after the first use its methods are those of the compiled pattern."""

    __slots__ = ("_flags", "_text", *_VERBS)

    findall: Callable[[AnyStr], list[Any]]
    finditer: Callable[[AnyStr], Iterator[re.Match[AnyStr]]]
    fullmatch: Callable[..., re.Match[AnyStr] | None]
    match: Callable[..., re.Match[AnyStr] | None]
    search: Callable[..., re.Match[AnyStr] | None]
    sub: Callable[[AnyStr | Callable[[re.Match[AnyStr]], AnyStr], AnyStr], AnyStr]

    def __init__(self, text: AnyStr, flags: int = 0) -> None:
        self._text: AnyStr = text
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
