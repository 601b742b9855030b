"""Terminal output of the commands: tables, JSON, errors with exit codes, and a progress line.

Colours and progress are shown only on a terminal. Errors are one sentence on stderr; the exit code is 2 for a usage
error and 1 for a failure.
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
    "PROGRESS_DELAY",
    "CommandFailed",
    "Mark",
    "TableHead",
    "UsageError",
    "ago",
    "durability_option",
    "heading",
    "mark",
    "output_option",
    "progress",
    "reporting_errors",
    "show_json",
    "show_line",
    "show_table",
    "table_lines",
    "verbose_option",
    "version_option",
    "with_colours",
]

F = TypeVar("F", bound=Callable[..., Any])

durability_option = click.option(
    "--durability",
    type=click.Choice(["full", "normal"]),
    default="full",
    show_default=True,
    help="With a file: full survives a loss of power, normal may lose the last seconds then, and is quicker.",
)
"""The option `--durability` of the commands that start a server."""
version_option = click.option(
    "--kubernetes-version",
    metavar="1.N",
    help="The version that the API server reports, for kubectl that warns of another; it behaves the same.",
)
"""The option `--kubernetes-version` of the commands that start a server."""
verbose_option = click.option("--verbose", is_flag=True, help="Log tracebacks with the frames of levelset.")
"""The option `--verbose` of the commands that run controllers."""

Mark = str
"""A level: one of `ok`, `warn`, `fail`, `info`."""

_COLOURS: Final = {"ok": "green", "warn": "yellow", "fail": "red", "info": "cyan"}
_SECONDS: Final = (("d", 86400), ("h", 3600), ("m", 60))


def output_option(function: F) -> F:
    """Adds `-o, --output text|json`, passed to the function as `output`."""
    choice = click.Choice(["text", "json"])
    return click.option("-o", "--output", type=choice, default="text", help="Output format.")(function)


def with_colours() -> bool:
    """Whether stdout is a terminal and NO_COLOR is not set."""
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR")


def mark(word: Mark) -> str:
    """The word, four letters wide, in its colour."""
    text = f"{word:<4}"
    return click.style(text, fg=_COLOURS[word]) if with_colours() else text


def heading(text: str) -> str:
    """The text, in bold on a terminal with colours."""
    return click.style(text, bold=True) if with_colours() else text


def show_json(value: Any) -> None:
    """Prints a value as indented JSON; the order of keys is kept."""
    click.echo(json.dumps(value, indent=2, ensure_ascii=False))


def show_line(value: Any, *, err: bool = False) -> None:
    """Prints a value as one line of JSON, for commands that keep running."""
    click.echo(json.dumps(value, ensure_ascii=False), err=err)


def show_table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Prints a table with aligned columns, as kubectl does."""
    for line in table_lines(head, rows):
        click.echo(line)


class TableHead(str):
    """The line of a table that names its columns, by which a view that scrolls finds it."""

    __slots__ = ()


def table_lines(head: Sequence[str], rows: Iterable[Sequence[object]]) -> list[str]:
    """The lines of that table; the first is a TableHead."""
    cells = [list(head), *([_cell(one) for one in row] for row in rows)]
    widths = [max(len(line[column]) for line in cells) for column in range(len(head))]
    padded = ("   ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)) for line in cells)
    first, *lines = (line.rstrip() for line in padded)
    return [TableHead(first), *lines]


def ago(seconds: float) -> str:
    """A duration in its two largest units: `3m5s`."""
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


class UsageError(click.ClickException):
    """An error with exit code 2: wrong usage, or the command cannot start."""

    exit_code = 2

    def show(self, file: Any = None) -> None:
        """Prints the message alone, without the usage line."""
        click.echo(self.format_message(), err=True, file=file)


class CommandFailed(UsageError):
    """An error with exit code 1: the command started and failed."""

    exit_code = 1


@contextmanager
def reporting_errors() -> Generator[None, None, None]:
    """Converts levelset errors: ConfigError to UsageError, all others to CommandFailed."""
    try:
        yield
    except ConfigError as error:
        raise UsageError(str(error)) from error
    except Unauthorized as error:
        raise CommandFailed(
            f"{error}: the token or certificate is not accepted; run levelset doctor for details"
        ) from error
    except LevelsetError as error:
        raise CommandFailed(str(error)) from error


PROGRESS_DELAY: Final = 1.0
"""The seconds after which the progress line is shown."""
_WIPE: Final = "\r\x1b[K"

_What = str | Callable[[], str]


@contextmanager
def progress(what: _What, *, output: str = "text", after: float | None = None) -> Generator[None, None, None]:
    """Shows `what` and the elapsed time on stderr after a second, and erases it at the end of the block.

    `what` may be a function that returns the current text. Nothing is shown with JSON output or without a terminal.
    """
    if output == "json" or not sys.stderr.isatty():
        yield
        return
    delay = PROGRESS_DELAY if after is None else after
    try:
        loop = asyncio.get_running_loop()
    except RuntimeError:
        # In a thread, since the block may be CPU-bound.
        show = _ticking_thread(_ProgressLine(what), delay)
    else:
        show = _ticking_timer(_ProgressLine(what), delay, loop)
    with show:
        yield


class _ProgressLine:
    """The progress line on the terminal."""

    def __init__(self, what: _What) -> None:
        self._what = what
        self._began = time.monotonic()
        self._is_shown = False

    def show(self) -> None:
        what = self._what() if callable(self._what) else self._what
        passed = f" ({ago(time.monotonic() - self._began)})"
        width = get_terminal_size().columns - len(passed) - 1  # a wrapped line could not be erased
        self._is_shown = True
        _write(f"{_WIPE}{what if len(what) <= width else f'{what[: max(width - 1, 0)]}…'}{passed}")

    def wipe(self) -> None:
        if self._is_shown:
            _write(_WIPE)


@contextmanager
def _ticking_timer(line: _ProgressLine, every: float, loop: asyncio.AbstractEventLoop) -> Generator[None, None, None]:
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
def _ticking_thread(line: _ProgressLine, every: float) -> Generator[None, None, None]:
    over = threading.Event()

    def tick() -> None:
        while not over.wait(every):
            line.show()

    ticker = threading.Thread(target=tick, name="progress", daemon=True)
    ticker.start()
    try:
        yield
    finally:
        over.set()
        ticker.join()
        line.wipe()


def _write(text: str) -> None:
    sys.stderr.write(text)
    sys.stderr.flush()
