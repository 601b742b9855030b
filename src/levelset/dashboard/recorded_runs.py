"""Files of past runs that the dashboard was started with: recordings, step by step, and reports of explorations.

Only files that were named at the start are opened, by their number. One recording is in memory at a time, and of a long
one the beginning. A report is sent with a policy of its own: a browser runs nothing in it, and its origin is not that
of the page.
"""

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import msgspec

from levelset.dashboard.views import text_of
from levelset.errors import BadObject, ConfigError, NotFound

if TYPE_CHECKING:
    from levelset.runtime.recording import RunTimeline

__all__ = ["REPORT_POLICY", "RecordedRuns"]

T = TypeVar("T")

MOST_BYTES: Final = 64 * 1024 * 1024
"""How much of a recording is read, unpacked; and the size of a report."""
PAGE_STEPS: Final = 50

_POLICY: Final = ("sandbox", "default-src 'none'", "style-src 'unsafe-inline'", "base-uri 'none'", "form-action 'none'")
REPORT_POLICY: Final = "; ".join([*_POLICY, "frame-ancestors 'none'"])
"""The policy of a report: no script, nothing loaded, and an origin of its own."""

_MOST_LINES: Final = 100
_REPORTS: Final = frozenset({".html", ".htm"})


class _Run(msgspec.Struct, frozen=True):
    number: int
    stamp: tuple[int, int]
    timeline: "RunTimeline"
    is_whole: bool


class RecordedRuns:
    """The files; ConfigError if one cannot be opened."""

    def __init__(self, paths: Sequence[str | Path] = ()) -> None:
        self._paths = tuple(map(Path, paths))
        for path in self._paths:
            if not path.is_file():
                raise ConfigError(f"there is no file {path}; name recordings and HTML reports of explorations")
        self._run: _Run | None = None
        self._lock = asyncio.Lock()

    def __len__(self) -> int:
        """The number of files."""
        return len(self._paths)

    def files(self) -> list[dict[str, Any]]:
        """The files, with their numbers."""
        return [
            {"number": number, "name": str(path), "isReport": path.suffix.lower() in _REPORTS}
            for number, path in enumerate(self._paths)
        ]

    async def steps(self, number: int, offset: int) -> dict[str, Any]:
        """A page of the steps of a recording."""
        run = await self._open(number)
        count = len(run.timeline.steps)
        return await asyncio.to_thread(
            _safely,
            lambda: {
                "name": str(self._paths[number]),
                "count": count,
                "isWhole": run.is_whole,
                "offset": offset,
                "steps": [_row(run.timeline, place) for place in range(offset, min(offset + PAGE_STEPS, count))],
            },
        )

    async def step(self, number: int, place: int) -> dict[str, Any]:
        """A step, and the state of the manager after it."""
        run = await self._open(number)
        count = len(run.timeline.steps)
        if place >= count:
            raise NotFound(f"the recording has {count} steps")
        return await asyncio.to_thread(_safely, lambda: _whole_step(run.timeline, place))

    async def report(self, number: int) -> bytes:
        """The document of a report."""
        path = self._path(number, is_report=True)
        return await asyncio.to_thread(_read_report, path)

    def _path(self, number: int, *, is_report: bool) -> Path:
        if number < len(self._paths) and (self._paths[number].suffix.lower() in _REPORTS) is is_report:
            return self._paths[number]
        raise NotFound(f"there is no {'report' if is_report else 'recording'} with the number {number}")

    async def _open(self, number: int) -> _Run:
        """The recording of a number; read again when its file has changed."""
        path = self._path(number, is_report=False)
        async with self._lock:
            stamp = await asyncio.to_thread(_stamp, path)
            if self._run is None or (self._run.number, self._run.stamp) != (number, stamp):
                self._run = None  # two would be in memory while the next one is read
                self._run = await asyncio.to_thread(_safely, lambda: _read_run(number, path, stamp))
            return self._run


def _stamp(path: Path) -> tuple[int, int]:
    try:
        found = path.stat()
    except OSError as error:
        raise NotFound(f"{path} cannot be read: {error.strerror}") from error
    return found.st_mtime_ns, found.st_size


def _read_run(number: int, path: Path, stamp: tuple[int, int]) -> _Run:
    # Imported late: few dashboards show a recording.
    from levelset.runtime.recording import RunTimeline, read_beginning  # noqa: PLC0415

    entries, is_whole = read_beginning(path, most_bytes=MOST_BYTES)
    return _Run(number, stamp, RunTimeline(entries), is_whole)


def _read_report(path: Path) -> bytes:
    if _stamp(path)[1] > MOST_BYTES:
        raise BadObject(f"{path} has more than {MOST_BYTES:,} bytes; open it in a browser")
    return path.read_bytes()


def _safely(work: Callable[[], T]) -> T:
    """Runs it; a recording that was crafted may hold anything where JSON of objects is expected."""
    try:
        return work()
    except (msgspec.MsgspecError, KeyError, ValueError, RecursionError) as error:
        raise BadObject(f"the recording is damaged: {error}") from error


def _row(timeline: "RunTimeline", place: int) -> dict[str, Any]:
    tree = timeline.tree(place)
    names = ("at", "time", "what", "result", "seconds")
    return {
        "step": place,
        **{name: tree.get(name) for name in names},
        "text": text_of(tree["text"]),
        "isFailure": timeline.steps[place].is_failure,
    }


def _whole_step(timeline: "RunTimeline", place: int) -> dict[str, Any]:
    tree, state = timeline.tree(place), timeline.state_after(place)
    return {
        **tree,
        "step": place,
        "count": len(timeline.steps),
        "text": text_of(tree["text"]),
        "error": text_of(tree.get("error")) or None,
        "requests": [text_of(line) for line in tree.get("requests", ())[:_MOST_LINES]],
        "reasons": [text_of(line) for line in tree.get("reasons", ())[:_MOST_LINES]],
        "nextFailure": timeline.next_failure(place),
        "controllers": [{**one, "errors": len(one["errors"])} for one in state["controllers"]],
        "watches": state["watches"],
    }
