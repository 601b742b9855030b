"""How a command shows what it found: a table for people, JSON for programs, colours only on a terminal.

How a command says no: a sentence on stderr, and an exit code that a script can use.

Says what a command is busy with, once that takes more than a second; only to somebody who sits at a terminal.
"""

import asyncio
import json
import os
import sys
import threading
import time
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import contextmanager
from shutil import get_terminal_size
from typing import Any, Final, TypeVar

import click

from levelset.errors import ConfigError, LevelsetError, Unauthorized

__all__ = [
    "PATIENCE",
    "Failed",
    "Mark",
    "Refused",
    "ago",
    "heading",
    "mark",
    "output_option",
    "show_json",
    "show_line",
    "show_table",
    "speaking",
    "with_colours",
    "working",
]

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


class Refused(click.ClickException):
    """A sentence on stderr and exit code 2: it was not understood, or cannot start."""

    exit_code = 2

    def show(self, file: Any = None) -> None:
        """Prints the sentence alone."""
        click.echo(self.format_message(), err=True, file=file)


class Failed(Refused):
    """A sentence on stderr and exit code 1: it began, and something went wrong."""

    exit_code = 1


@contextmanager
def speaking() -> Generator[None, None, None]:
    """Turns the errors of levelset into sentences: what was said wrongly is refused, anything else has failed."""
    try:
        yield
    except ConfigError as error:
        raise Refused(str(error)) from error
    except Unauthorized as error:
        raise Failed(f"{error}: the token or certificate is not accepted; levelset doctor says more") from error
    except LevelsetError as error:
        raise Failed(str(error)) from error


PATIENCE: Final = 1.0
"""How many seconds something may take before anybody wonders."""
_WIPE: Final = "\r\x1b[K"

_What = str | Callable[[], str]


@contextmanager
def working(what: _What, *, output: str = "text", after: float | None = None) -> Generator[None, None, None]:
    """Shows `what` and the time that has passed on stderr from a second on, and wipes it out at the end of the block.

    A function says what it is at that moment. Nothing is shown to a program that has asked for JSON (`output`).
    """
    if output == "json" or not sys.stderr.isatty():
        yield
        return
    patience = PATIENCE if after is None else after
    try:
        loop = asyncio.get_running_loop()
    except RuntimeError:
        # In a thread, for the block may as well keep the processor busy.
        show = _in_a_thread(_Line(what), patience)
    else:
        show = _on_the_loop(_Line(what), patience, loop)
    with show:
        yield


class _Line:
    """The line on the screen, if it is there."""

    def __init__(self, what: _What) -> None:
        self._what = what
        self._began = time.monotonic()
        self._is_shown = False

    def show(self) -> None:
        what = self._what() if callable(self._what) else self._what
        passed = f" ({ago(time.monotonic() - self._began)})"
        room = get_terminal_size().columns - len(passed) - 1  # what takes two lines cannot be wiped out
        self._is_shown = True
        _write(f"{_WIPE}{what if len(what) <= room else f'{what[: max(room - 1, 0)]}…'}{passed}")

    def wipe(self) -> None:
        if self._is_shown:
            _write(_WIPE)


@contextmanager
def _on_the_loop(line: _Line, every: float, loop: asyncio.AbstractEventLoop) -> Generator[None, None, None]:
    pending: list[asyncio.TimerHandle] = []

    def tick() -> None:
        line.show()
        pending[:] = [loop.call_later(every, tick)]

    pending.append(loop.call_later(every, tick))
    try:
        yield
    finally:
        pending[0].cancel()
        line.wipe()


@contextmanager
def _in_a_thread(line: _Line, every: float) -> Generator[None, None, None]:
    over = threading.Event()

    def tell() -> None:
        while not over.wait(every):
            line.show()

    teller = threading.Thread(target=tell, name="progress", daemon=True)
    teller.start()
    try:
        yield
    finally:
        over.set()
        teller.join()
        line.wipe()


def _write(text: str) -> None:
    sys.stderr.write(text)
    sys.stderr.flush()
