"""How a command shows what it found: a table for people, JSON for programs, colours only on a terminal."""

import json
import os
import sys
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, TypeVar

import click

__all__ = ["Mark", "ago", "heading", "mark", "output_option", "show_json", "show_line", "show_table", "with_colours"]

F = TypeVar("F", bound=Callable[..., Any])

Mark = str
"""How something is, in a word: one of `ok`, `warn`, `fail`, `info`."""

_COLOURS: Final = {"ok": "green", "warn": "yellow", "fail": "red", "info": "cyan"}
_SECONDS: Final = (("d", 86400), ("h", 3600), ("m", 60))


def output_option(function: F) -> F:
    """Adds `-o, --output text|json`, given to the function as `output`."""
    choice = click.Choice(["text", "json"])
    return click.option("-o", "--output", type=choice, default="text", help="For people, or for programs.")(function)


def with_colours() -> bool:
    """Whether stdout is a terminal whose owner has not asked for plain text."""
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR")


def mark(word: Mark) -> str:
    """The word, four letters wide, in its colour."""
    text = f"{word:<4}"
    return click.style(text, fg=_COLOURS[word]) if with_colours() else text


def heading(text: str) -> str:
    """The text, in bold where there may be colours."""
    return click.style(text, bold=True) if with_colours() else text


def show_json(value: Any) -> None:
    """Prints a value as JSON, indented, with the keys in the order in which they are."""
    click.echo(json.dumps(value, indent=2, ensure_ascii=False))


def show_line(value: Any, *, err: bool = False) -> None:
    """Prints a value as JSON in a line: for a command that goes on, whose reader reads line by line."""
    click.echo(json.dumps(value, ensure_ascii=False), err=err)


def show_table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Prints rows below a head in columns, as kubectl does."""
    lines = [list(head), *([_cell(one) for one in row] for row in rows)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(head))]
    for line in lines:
        click.echo("   ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip())


def ago(seconds: float) -> str:
    """A time that has passed, in the two largest units: `3m5s`."""
    left = max(int(seconds), 0)
    parts: list[str] = []
    for unit, size in _SECONDS:
        count, left = divmod(left, size)
        if count or parts:
            parts.append(f"{count}{unit}")
    parts.append(f"{left}s")
    return "".join(part for part in parts[:2] if not part.startswith("0") or len(parts) == 1)


def _cell(value: object) -> str:
    match value:
        case None | "":
            return "-"
        case bool():
            return "yes" if value else "no"
        case float():
            return f"{value:.3g}"
        case _:
            return str(value)
