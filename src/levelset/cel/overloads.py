"""How functions are declared: a line of text for the types, and the Python that does the work."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from levelset.cel.types import (
    BOOL,
    BYTES,
    DOUBLE,
    DURATION,
    DYN,
    INT,
    NULL,
    OPAQUE,
    STRING,
    TIMESTAMP,
    UINT,
    Type,
    list_of,
    map_of,
    optional_of,
    param,
    type_of,
)

__all__ = ["Overload", "Row", "declare"]

Run = Callable[[], Any] | Callable[[Any], Any] | Callable[[Any, Any], Any] | Callable[[Any, Any, Any], Any]
Row = tuple[str, Run] | tuple[str, Run, str]


@dataclass(frozen=True, slots=True)
class Overload:
    """One variant of a function.

    `inline` is Python with {0}, {1} for the arguments, used instead of a call where the types are known. `charge` is
    what a call costs beyond one step: see levelset.cel.runtime_cost.
    """

    name: str
    params: tuple[Type, ...]
    result: Type
    is_method: bool
    run: Callable[..., Any]
    inline: str = ""
    charge: str = ""

    @property
    def is_generic(self) -> bool:
        """Whether some parameter stands for any type."""
        return any(_has_param(kind) for kind in (*self.params, self.result))


def declare(rows: Sequence[Row], *, charge: str = "") -> list[Overload]:
    """Overloads of lines such as `startsWith: string.(string) bool`; without receiver, `size: (list(A)) int`."""
    return [_overload(row[0], row[1], row[2] if len(row) > 2 else "", charge) for row in rows]


_SIMPLE = {str(kind): kind for kind in (BOOL, BYTES, DOUBLE, DURATION, DYN, INT, STRING, TIMESTAMP, UINT)} | {
    "null": NULL,
    **OPAQUE,
}
_MAKERS: dict[str, Callable[..., Type]] = {"list": list_of, "map": map_of, "optional": optional_of, "type": type_of}


def _overload(line: str, run: Run, inline: str, charge: str) -> Overload:
    name, _, rest = line.partition(": ")
    head, result = _split_result(rest)
    receiver, _, inside = head.partition("(") if head.startswith("(") else head.partition(".(")
    params = [_type(word) for word in _split(inside[:-1])]
    if receiver:
        params.insert(0, _type(receiver))
    return Overload(name, tuple(params), _type(result), bool(receiver), run, inline, charge)


def _split_result(rest: str) -> tuple[str, str]:
    """The part up to the bracket that closes the parameters, and the result behind it."""
    start = 0 if rest.startswith("(") else rest.index(".(") + 1
    depth = 0
    for at in range(start, len(rest)):
        depth += {"(": 1, ")": -1}.get(rest[at], 0)
        if depth == 0:
            return rest[: at + 1], rest[at + 2 :]
    raise ValueError(f"not a signature: {rest}")


def _split(words: str) -> list[str]:
    """Words between commas that are not inside brackets."""
    found, depth, last = list[str](), 0, 0
    for at, sign in enumerate(words):
        depth += {"(": 1, ")": -1}.get(sign, 0)
        if sign == "," and depth == 0:
            found.append(words[last:at])
            last = at + 1
    return [word.strip() for word in [*found, words[last:]] if word.strip()]


@cache
def _type(word: str) -> Type:
    if word in _SIMPLE:
        return _SIMPLE[word]
    if len(word) == 1 and word.isupper():
        return param(word)
    name, _, inside = word.partition("(")
    return _MAKERS[name](*(_type(each) for each in _split(inside[:-1])))


def _has_param(kind: Type) -> bool:
    return kind.kind == "param" or any(map(_has_param, kind.params))
