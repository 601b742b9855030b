"""Which rules of built-in kinds a replay of the recorded answers reports: each must be in one of them.

A rule is a place in `registry/builtin/rules` that reports a cause: a call of a function of `field_errors`, or of the
report of a test. While the recorded answers are replayed, these functions note the places that call them, which costs
nothing, since only refusals get there. A tracer such as coverage would see each line, and take several times as long.
"""

import ast
import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from functools import wraps
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple

import pytest

from levelset.apiserver.registry.builtin import rules
from levelset.apiserver.schema import field_errors

__all__ = ["PACKAGE", "Place", "is_report", "noted", "unreported"]

PACKAGE = Path(rules.__file__).parent
_OF_TABLES = "<string>"  # the functions of tables are compiled from texts
_REPORTS = (
    "duplicate",
    "forbidden",
    "invalid",
    "invalid_without_value",
    "not_found",
    "not_supported",
    "required",
    "too_long",
    "too_many",
)


class Place(NamedTuple):
    """A line of a file."""

    file: str
    line: int


@contextmanager
def noted() -> Generator[set[Place]]:
    """Notes the places in the rules that report causes meanwhile, and those that called them."""
    found: set[Place] = set()
    with pytest.MonkeyPatch.context() as patch:
        for name in _REPORTS:
            patch.setattr(field_errors, name, _noting(getattr(field_errors, name), found))
        yield found


def _noting(report: Callable[..., Any], found: set[Place]) -> Callable[..., Any]:
    @wraps(report)
    def run(*arguments: Any, **options: Any) -> Any:
        frame: FrameType | None = sys._getframe(1)
        while frame is not None and _is_of_rules(frame.f_code.co_filename):
            found.add(Place(frame.f_code.co_filename, frame.f_lineno))
            frame = frame.f_back
        return report(*arguments, **options)

    return run


def _is_of_rules(file: str) -> bool:
    return file == _OF_TABLES or PACKAGE in Path(file).parents


def unreported(places: set[Place]) -> list[str]:
    """The rules that are at none of these places: file, line and text."""
    return [
        f"{file.relative_to(PACKAGE)}:{call.lineno}: {text.splitlines()[call.lineno - 1].strip()}"
        for file in sorted(PACKAGE.rglob("*.py"))
        for text in (file.read_text(),)
        for call in _reporting_calls(text)
        if places.isdisjoint(
            Place(str(file), line) for line in range(call.lineno, (call.end_lineno or call.lineno) + 1)
        )
    ]


def _reporting_calls(text: str) -> list[ast.Call]:
    calls = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Call)]
    return sorted((one for one in calls if is_report(one.func)), key=lambda one: one.lineno)


def is_report(function: ast.expr) -> bool:
    """Whether a call of this function reports a cause."""
    if not isinstance(function, ast.Attribute):
        return False
    owner = function.value.id if isinstance(function.value, ast.Name) else ""
    return function.attr == "report" or (owner == "field_errors" and function.attr in _REPORTS)
