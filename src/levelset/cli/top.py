"""`levelset top`: queues, rates and errors of the running controllers, live in the terminal."""

import time
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import click

from levelset.cli.live_view import Frame, every_option, is_live, show_live
from levelset.cli.output import output_option, show_json, table_lines
from levelset.cli.status import call_managers, error_line

__all__ = ["TopView", "top"]

_HEAD: Final = (
    "CONTROLLER",
    "RATE/S",
    "TREND",
    "QUEUED",
    "FAILING",
    "ERRORS/MIN",
    "RUNNING",
    "DELAYED",
    "MEDIAN",
    "P95",
    "PROCESS",
)
"""What a narrow terminal cuts off is last."""
_BARS: Final = "▁▂▃▄▅▆▇█"
_MOST_RATES: Final = 10
_MOST_ERRORS: Final = 5


@click.command()
@click.option("--pid", type=int, help="The process id of the manager, if several are running.")
@every_option
@output_option
def top(pid: int | None, every: float, output: str) -> None:
    """Shows the queues, rates and errors of the controllers on this machine, live until q or Ctrl-C.

    RATE/S are the reconciles since the last reading, ERRORS/MIN those of the last minute that failed, MEDIAN and P95
    how long those of the last minute took. The last errors come first, then the controllers with failing objects, then
    the busiest. Without a terminal, or with --output json, it reads them twice and prints once.

    Example: levelset top
    """
    view = TopView()

    def read() -> Frame:
        return view.add(call_managers(pid, "GET", "/status", output), time.monotonic())

    if is_live(output):
        show_live(read, every=every, output=output)
        return
    read()
    time.sleep(every)
    frame = read()
    if output == "json":
        show_json(frame.value)
        return
    for line in frame.lines:
        click.echo(line)


@dataclass(slots=True)
class _Seen:
    """What was seen of a controller: when, its reconciles then, and its last rates."""

    at: float
    reconciles: int
    rates: deque[float]


class TopView:
    """The controllers of all managers over time; those that are gone are forgotten."""

    def __init__(self) -> None:
        self._seen: dict[tuple[int, str], _Seen] = {}

    def add(self, found: Sequence[Mapping[str, Any]], now: float) -> Frame:
        """What to show after all managers were read at this time."""
        before, self._seen = self._seen, {}
        rows = [
            self._row(before.get((status["pid"], one["name"])), status["pid"], one, now)
            for status in found
            for one in status["controllers"]
        ]
        rows.sort(key=lambda one: (not one["failing"], -one["rate"], -one["ready"], one["name"], one["pid"]))
        errors = sorted((error for one in rows for error in one["errors"]), key=lambda one: one["at"], reverse=True)
        # Errors first: of many controllers, a screen has only the first.
        return Frame(rows, [*_error_lines(errors[:_MOST_ERRORS]), *table_lines(_HEAD, map(_cells, rows))])

    def _row(self, last: _Seen | None, pid: int, controller: Mapping[str, Any], now: float) -> dict[str, Any]:
        rates: deque[float] = deque(maxlen=_MOST_RATES) if last is None else last.rates
        if last is not None and now > last.at:
            # A total that fell is that of a new generation of the controller.
            rates.append(max(controller["reconciles"] - last.reconciles, 0) / (now - last.at))
        self._seen[pid, controller["name"]] = _Seen(now, controller["reconciles"], rates)
        return {"pid": pid, **controller, "rate": round(rates[-1], 3) if rates else 0.0, "rates": list(rates)}


def _cells(row: Mapping[str, Any]) -> Sequence[object]:
    recent = row["last_minute"]
    return (
        row["name"],
        f"{row['rate']:.1f}",
        _trend(row["rates"]),
        row["ready"],
        row["failing"],
        recent["errors"],
        f"{row['running']}/{row['workers']}",
        row["delayed"],
        _milliseconds(recent["median"]),
        _milliseconds(recent["p95"]),
        row["pid"],
    )


def _trend(rates: Sequence[float]) -> str:
    """A bar for each rate, the highest one full."""
    most = max(rates, default=0.0)
    return "".join(_BARS[round(one / most * (len(_BARS) - 1))] if most else _BARS[0] for one in rates)


def _milliseconds(seconds: float | None) -> str | None:
    return None if seconds is None else f"{seconds * 1000:.1f} ms"


def _error_lines(errors: Sequence[Mapping[str, Any]]) -> list[str]:
    lines = [error_line(one) for one in errors]
    return [*lines, ""] if lines else []
