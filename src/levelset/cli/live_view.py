"""A view in the terminal that is drawn again and again: of `levelset status --watch` and `levelset top`.

It ends with `q` or Ctrl-C, and scrolls as `less` does. Without a terminal each frame is printed below the last one, or
as a line of JSON.
"""

import os
import select
import sys
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from time import monotonic
from typing import Any, Final, TypeVar

import click

from levelset.cli.output import CommandFailed, TableHead, heading, show_line

__all__ = ["Frame", "every_option", "is_live", "moved", "show_live", "visible"]

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

    with _read_keys() as wait, Live(screen=True, auto_refresh=False) as live:
        first = 0
        while True:
            frame, read_at, key = _read(read), _clock(), ""
            due = monotonic() + every
            while key not in _AGAIN:
                height = live.console.size.height - 2
                first = moved(first, key, len(frame.lines), height)
                head = heading(f"{read_at}, every {every:g} s; {'q' if wait is not time.sleep else 'Ctrl-C'} ends it")
                lines = [head, "", *visible(frame.lines, first, height)]
                live.update(Text.from_ansi("\n".join(lines), no_wrap=True, overflow="ellipsis"))
                live.refresh()
                key = wait(max(0.0, due - monotonic())) or "r"
                if key == "q":
                    return


_AGAIN: Final = frozenset({"r", "\r", "\n"})
"""The keys that read again at once; so does the end of the wait."""
_STEPS: Final = {"j": 1, "\x1b[B": 1, "\x1bOB": 1, "k": -1, "\x1b[A": -1, "\x1bOA": -1}
_PAGES: Final = {" ": 1, "\x1b[6~": 1, "b": -1, "\x1b[5~": -1}
_ENDS: Final = {"g": 0, "\x1b[H": 0, "G": 1, "\x1b[F": 1}


def moved(first: int, key: str, count: int, height: int) -> int:
    """The first of so many lines to show after a key: those of `less`, and the arrows."""
    last = max(0, count - height + 1) if count > height else 0
    if key in _ENDS:
        return last * _ENDS[key]
    by = _STEPS.get(key, 0) + _PAGES.get(key, 0) * max(1, height - 2)
    return min(last, max(0, first + by))


def visible(lines: Sequence[str], first: int, height: int) -> list[str]:
    """The lines from the first one on that fit; if not all do, the last line says so.

    The head of a table stays where the table is scrolled.
    """
    if len(lines) <= height:
        return list(lines)
    shown = list(lines[first : first + height - 1])
    if shown and (head := _head_above(lines, first)) is not None:
        shown[0] = head
    return [
        *shown,
        heading(f"lines {first + 1} to {first + len(shown)} of {len(lines)}; j and k, or the arrows, scroll"),
    ]


def _head_above(lines: Sequence[str], first: int) -> TableHead | None:
    """The head of the table in which this line is; a table ends with an empty line."""
    for line in reversed(lines[: first + 1]):
        if isinstance(line, TableHead) or not line:
            return line if isinstance(line, TableHead) else None
    return None


@contextmanager
def _read_keys() -> Generator[Callable[[float], str | None], None, None]:
    """A function that waits so many seconds for a key, and returns it; where none can be read it only waits."""
    if os.name != "posix" or not sys.stdin.isatty():
        yield time.sleep
        return
    import termios  # noqa: PLC0415  # not on Windows
    import tty  # noqa: PLC0415

    number = sys.stdin.fileno()
    before = termios.tcgetattr(number)

    def wait(seconds: float) -> str | None:
        ready, _, _ = select.select([number], [], [], seconds)
        typed = os.read(number, 16).decode(errors="replace") if ready else ""
        return typed if typed.startswith("\x1b") else typed[-1:]

    try:
        tty.setcbreak(number)
        yield wait
    finally:
        termios.tcsetattr(number, termios.TCSADRAIN, before)


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
