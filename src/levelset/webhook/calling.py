"""The user's functions: found out once how each wants to be called, and then called so, awaited if need be."""

import inspect
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Generic, Literal, TypeVar

from levelset.errors import ConfigError
from levelset.webhook.review import Review

__all__ = ["Called", "Changes", "Checks", "call", "read_function"]

K = TypeVar("K")

Changes = (
    Callable[[K], K | Awaitable[K]]
    | Callable[[K, Review[K]], K | Awaitable[K]]
    | Callable[[Review[K]], K | Awaitable[K]]
)
"""Gives the object that is to be stored: the one that it got, or a changed one."""
Checks = (
    Callable[[K], Awaitable[None] | None]
    | Callable[[K, Review[K]], Awaitable[None] | None]
    | Callable[[Review[K]], Awaitable[None] | None]
)
"""Raises if the object is not to be stored."""

_POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


@dataclass(frozen=True, slots=True)
class Called(Generic[K]):
    """A function, what messages call it, and what it is given."""

    function: Callable[..., Any]
    name: str
    takes: Literal["both", "object", "review"]


def read_function(function: Any) -> Called[Any]:
    """How a function is to be called; ConfigError for what takes neither an object nor a review."""
    name = getattr(function, "__name__", type(function).__name__)
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):
        raise ConfigError(f"{function!r} cannot be called for an admission: give a function of the object") from None
    if any(one.kind is inspect.Parameter.KEYWORD_ONLY and one.default is one.empty for one in parameters):
        raise ConfigError(f"{name} needs keywords that nobody gives: an admission function takes (object, review)")
    taken = [one for one in parameters if one.kind in _POSITIONAL and one.default is one.empty]
    match taken:
        case [only]:
            return Called(function, name, "review" if _is_review(only) else "object")
        case [_, _]:
            return Called(function, name, "both")
        case _:
            raise ConfigError(f"{name} takes {len(taken)} arguments: an admission function takes (object, review)")


async def call(called: Called[K], obj: K, review: Review[K]) -> Any:
    """What the function returns or raises."""
    match called.takes:
        case "both":
            said = called.function(obj, review)
        case "review":
            said = called.function(review)
        case "object":
            said = called.function(obj)
    return await said if inspect.isawaitable(said) else said


def _is_review(parameter: inspect.Parameter) -> bool:
    said = parameter.annotation
    if said is parameter.empty:
        return parameter.name == "review"
    if isinstance(said, str):  # annotations that are read later, as `from __future__ import annotations` has them
        return said.partition("[")[0].rpartition(".")[2] == "Review"
    return said is Review or getattr(said, "__origin__", None) is Review
