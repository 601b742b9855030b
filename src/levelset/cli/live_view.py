"""A view in the terminal that is drawn again and again until Ctrl-C: of `levelset status --watch` and `levelset top`.

Without a terminal each frame is printed below the last one, or as a line of JSON.
"""

import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, TypeVar

import click

from levelset.cli.output import CommandFailed, heading, show_line

__all__ = ["Frame", "every_option", "is_live", "show_live"]

F = TypeVar("F", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class Frame:
    """What is shown at a moment: the value for JSON, and the lines of text."""

    value: Any
    lines: Sequence[str]


def every_option(function: F) -> F:
    """Adds `--every SECONDS`."""
    kind = click.FloatRange(0.1, 3600)
    text = "The seconds between two readings."
    return click.option("--every", type=kind, default=2.0, show_default=True, metavar="SECONDS", help=text)(function)


def is_live(output: str) -> bool:
    """Whether a view can be drawn: text on a terminal."""
    return output == "text" and sys.stdout.isatty()


def show_live(read: Callable[[], Frame], *, every: float, output: str) -> None:
    """Draws what `read` returns every so many seconds until Ctrl-C; its CommandFailed is shown, and it goes on.

    So it survives a restart of what it shows.
    """
    try:
        if is_live(output):
            _draw(read, every)
        else:
            _print(read, every, output)
    except KeyboardInterrupt:
        return


def _draw(read: Callable[[], Frame], every: float) -> None:
    from rich.live import Live  # noqa: PLC0415  # imported late: only a live view needs it
    from rich.text import Text  # noqa: PLC0415

    with Live(screen=True, auto_refresh=False) as live:
        while True:
            frame = _read(read)
            head = heading(f"{_clock()}, every {every:g} s; Ctrl-C ends it")
            live.update(Text.from_ansi("\n".join([head, "", *frame.lines]), no_wrap=True, overflow="ellipsis"))
            live.refresh()
            time.sleep(every)


def _print(read: Callable[[], Frame], every: float, output: str) -> None:
    while True:
        frame = _read(read)
        if output == "json":
            show_line(frame.value)
        else:
            click.echo("\n".join([_clock(), *frame.lines, ""]))
        time.sleep(every)


def _read(read: Callable[[], Frame]) -> Frame:
    try:
        return read()
    except CommandFailed as error:
        return Frame({"error": str(error)}, [str(error)])


def _clock() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
