"""How a failed wait is told: the condition as it was written, and the object as it is."""

import linecache
from collections.abc import Callable
from types import CodeType
from typing import Any

from levelset.objects import codec
from levelset.objects.kept import without_managed_fields

__all__ = ["condition_words", "object_words"]


def condition_words(condition: Callable[..., object] | None) -> str:
    """What did not become so, in the words of whoever wrote the condition."""
    if condition is None:
        return "it was not there"
    name = getattr(condition, "__name__", "the condition")
    if name != "<lambda>":
        return f"{name} did not become true"
    source = _source(condition)
    return f"this did not become true: {source}" if source else "the condition did not become true"


def object_words(found: Any) -> str:
    """The object as it is, or that there is none."""
    if found is None:
        return "there is no such object"
    return f"it is: {without_managed_fields(codec.encode(found)).decode()}"


def _source(function: Any) -> str | None:
    """What a lambda gives, as it is written in its file; None if nobody knows."""
    code: CodeType | None = getattr(function, "__code__", None)
    lines = [] if code is None else linecache.getlines(code.co_filename)
    if code is None or not lines:  # typed into a shell, or compiled from a text
        return None
    ranges = [(line, end, left, right) for line, end, left, right in code.co_positions() if line and end and right]
    if not ranges:  # Python was told to forget them
        return None
    start = min((line, left or 0) for line, _, left, _ in ranges)
    end = max((line, right or 0) for _, line, _, right in ranges)
    text = [line.encode() for line in lines[start[0] - 1 : end[0]]]
    text[-1] = text[-1][: end[1]]
    text[0] = text[0][start[1] :]
    return b" ".join(line.strip() for line in text).decode()
