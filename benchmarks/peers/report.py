"""The tables and the plot of `bench-runtimes`, made of its figures."""

from collections.abc import Iterator, Sequence
from math import log10
from pathlib import Path
from typing import Final, NamedTuple
from xml.sax.saxutils import escape

from figures import Figures, Spread

from readme import write_table

__all__ = ["ROWS", "Row", "plot", "show", "table", "write"]

ROOT: Final = Path(__file__).parents[2]
PLOT: Final = ROOT / "docs" / "images" / "runtimes.svg"
HEADINGS: Final = {"runtimes": "#### Runtimes in Go and Rust", "clients": "#### Clients for Python"}
COLOURS: Final = ("#3b6ea5", "#c9772b", "#5f9e5f")


class Row(NamedTuple):
    """A row of a table: what was measured, and which of two figures is the better one."""

    what: str
    measure: str
    is_rate: bool = False
    is_compared: bool = True


ROWS: Final = (
    Row("cache sync, custom resource of 1.5 KB, us each", "sync website us"),
    Row("cache sync, custom resource of 1.5 KB, KiB each", "sync website KiB"),
    Row("cache sync, Pod of 6 KB, us each", "sync pod us"),
    Row("cache sync, Pod of 6 KB, KiB each", "sync pod KiB"),
    Row("watch storm, event to reconcile with the typed object, us", "storm us"),
    Row("no-op reconciles per core-second, 1,000 keys", "noop 1000", is_rate=True),
    Row("no-op reconciles per core-second, 20,000 keys", "noop 20000", is_rate=True),
    Row("operator, burst, CPU us per object with child and status", "burst us"),
    Row("operator, burst, seconds by the clock", "burst s"),
    Row("operator, 200 objects/s, CPU us per object", "200/s us"),
    Row("operator, 200 objects/s, p99 ms from the object to its status", "200/s p99 ms"),
    Row("operator, 20 objects/s, CPU us per object", "20/s us"),
    Row("operator, 20 objects/s, p99 ms", "20/s p99 ms"),
    Row("operator, writes per object (burst)", "burst writes", is_compared=False),
    Row("operator, requests per object (burst)", "burst requests", is_compared=False),
    Row("operator, requests per object (200/s)", "200/s requests", is_compared=False),
    Row("read all Pods of the cache the first time, us each", "read pod us"),
    Row("read all Pods of the cache again, us each", "read pod again us"),
    Row("the same without the copies (Go: UnsafeDisableDeepCopy), us each", "read pod uncopied us", is_compared=False),
    Row("list, and one typed read of each custom resource, us each", "list and read website us"),
    Row("process start to first reconcile, CPU ms", "start ms"),
    Row("memory at the first reconcile, MB", "start MB"),
)


def show(tables: dict[str, Figures]) -> str:
    return "\n".join(f"{HEADINGS[name]}\n\n{table(figures)}" for name, figures in tables.items() if figures.values)


def table(figures: Figures, rows: Sequence[Row] = ROWS) -> str:
    """A Markdown table: the median of the turns, with the lowest and the highest; the best one is bold."""
    return "\n".join(_lines(figures, rows)) + "\n"


def _lines(figures: Figures, rows: Sequence[Row]) -> Iterator[str]:
    peers = list(figures.values)
    yield f"| work | {' | '.join(f'{peer} {figures.versions.get(peer, str())}' for peer in peers)} | best peer / {peers[0]} |"
    yield "|---" * (len(peers) + 2) + "|"
    for row in rows:
        spreads = [figures.spread(peer, row.measure) for peer in peers]
        if any(spreads):
            cells = " | ".join(_cell(one, is_best=_is_best(one, spreads, row)) for one in spreads)
            yield f"| {row.what} | {cells} | {_ratio(spreads, row)} |"
    if figures.loads:
        yield f"\nTurns: {_turns(figures)}. Load of the machine, this benchmark included: {min(figures.loads):.1f} to {max(figures.loads):.1f} on 2 cores."
    for peer, reasons in figures.absent.items():
        yield f"\n{peer}: not measured: {'; '.join(reasons)}."


def _turns(figures: Figures) -> str:
    counts = {len(found) for measures in figures.values.values() for found in measures.values()}
    return f"{min(counts)} to {max(counts)}" if len(counts) > 1 else str(*counts)


def _cell(spread: Spread | None, *, is_best: bool) -> str:
    if spread is None:
        return "-"
    median = f"**{_short(spread.median)}**" if is_best else _short(spread.median)
    return median if spread.turns == 1 else f"{median} ({_short(spread.low)} to {_short(spread.high)})"


def _short(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def _is_best(one: Spread | None, spreads: Sequence[Spread | None], row: Row) -> bool:
    medians = [other.median for other in spreads if other is not None]
    if one is None or not row.is_compared or len(medians) < 2:
        return False
    return one.median == (max(medians) if row.is_rate else min(medians))


def _factor(ours: Spread, theirs: Spread, row: Row) -> float:
    """How many times better the first is."""
    pair = (ours.median, theirs.median) if row.is_rate else (theirs.median, ours.median)
    return pair[0] / max(pair[1], 1e-9)


def _ratio(spreads: Sequence[Spread | None], row: Row) -> str:
    ours, *others = spreads
    theirs = [one for one in others if one is not None]
    if ours is None or not theirs or not row.is_compared:
        return ""
    least = min(_factor(ours, one, row) for one in theirs)
    return f"{least:.2f}" if least >= 0.1 else f"{least:.1g}"


def plot(figures: Figures) -> str:
    """An SVG: for each row how many times what levelset takes the others take, on a logarithmic scale."""
    rows = [row for row in ROWS if row.is_compared and figures.spread("levelset", row.measure)]
    peers = [peer for peer in figures.values if peer != "levelset"]
    bar, gap, left, width = 11, 9, 430, 900
    height = 60 + len(rows) * (len(peers) * bar + gap)
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" font-family="sans-serif" font-size="12">',
        f'<rect width="{width}" height="{height}" fill="white"/>',
        '<text x="10" y="18" font-size="14">Times what levelset takes (right of the line: levelset is ahead)</text>',
    ]
    for number, peer in enumerate(peers):
        at = left + number * 200
        lines.append(f'<rect x="{at}" y="26" width="10" height="10" fill="{COLOURS[number + 1]}"/>')
        lines.append(f'<text x="{at + 15}" y="36">{escape(peer)}</text>')
    lines += _bars(figures, rows, peers, (bar, gap, left, width))
    one = _scale(1.0, left, width)
    lines.append(f'<line x1="{one}" y1="44" x2="{one}" y2="{height - 6}" stroke="black"/>')
    return "\n".join([*lines, "</svg>\n"])


def _bars(
    figures: Figures, rows: Sequence[Row], peers: Sequence[str], size: tuple[int, int, int, int]
) -> Iterator[str]:
    bar, gap, left, width = size
    y, one = 50, _scale(1.0, left, width)
    for row in rows:
        ours = figures.spread("levelset", row.measure)
        yield f'<text x="10" y="{y + len(peers) * bar / 2 + 4}">{escape(row.what)}</text>'
        for number, peer in enumerate(peers):
            theirs = figures.spread(peer, row.measure)
            if ours is not None and theirs is not None:
                factor = _factor(ours, theirs, row)
                x = _scale(factor, left, width)
                yield f'<rect x="{min(x, one)}" y="{y}" width="{abs(x - one) + 0.5:.1f}" height="{bar - 1}" fill="{COLOURS[number + 1]}"/>'
                yield f'<text x="{max(x, one) + 4}" y="{y + bar - 2}" font-size="10">{factor:.2f}</text>'
            y += bar
        y += gap


def _scale(factor: float, left: int, width: int) -> float:
    """The place of a factor: from 1/100 to 100, logarithmic."""
    return round(left + (min(max(log10(factor), -2.0), 2.0) + 2.0) / 4.0 * (width - left - 40), 1)


def write(tables: dict[str, Figures]) -> None:
    """Writes the tables into benchmarks/README.md, and the plot."""
    for name, figures in tables.items():
        if figures.values:
            write_table(f"bench-runtimes {name}", table(figures))
    PLOT.write_text(plot(tables["runtimes"]), encoding="utf-8")
