"""`replay`: plays a recording with controllers, and says whether they do the same; `assert_replays` is for tests."""

import asyncio
import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from levelset.runtime.controller.controller import Controller
from levelset.runtime.recording.entries import Begin, End, Entry, Start, Stop
from levelset.runtime.recording.recording_file import read_recording
from levelset.testing.replay.differences import Difference, Note, ReplayDiffers
from levelset.testing.replay.replayer import Replayer
from levelset.testing.replay.selection import Selection

__all__ = ["Replay", "assert_replays", "replay"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Replay:
    """The result of a replay.

    `digest` is a hash of all requests and outcomes: equal digests mean that two replays did the same. `notes` name what
    the code uses that no replay can repeat. `is_complete` is False if the recorded process was killed.
    `is_quit` is True if the user quit the debugger, which ends a replay.
    """

    reconciles: int
    requests: int
    seconds: float
    digest: str
    difference: Difference | None
    notes: Sequence[Note]
    is_partial: bool
    is_complete: bool
    is_quit: bool = False

    @property
    def ok(self) -> bool:
        """Whether everything was as recorded."""
        return self.difference is None


def replay(
    path: str | Path,
    controllers: Controller[Any] | Iterable[Controller[Any]],
    *,
    until: float | None = None,
    only: str | None = None,
    stop_at: str | int | None = None,
    stop: Callable[[], object] = breakpoint,
) -> Replay:
    """Plays a recording with these controllers, without a cluster and in virtual time, until the first difference.

    `until` ends it after so many reconciles (an int) or seconds (a float). `only` is an object, as `website/blog` or
    `website/default/blog`: only its reconciles are played. `stop_at` is an object or the number of a reconcile: `stop`,
    by default the debugger, is called right before it. BadObject if the file is not a recording, ConfigError if
    controllers of the recording are missing.
    """
    given = (controllers,) if isinstance(controllers, Controller) else tuple(controllers)
    whole = read_recording(path)
    start = whole[0]
    assert isinstance(start, Start), "checked when it was read"
    entries: Sequence[Entry] = _until(whole, until)
    if only is not None:
        entries = Selection.parse(only, whole).filter(entries)
    player = Replayer(entries, given, before=_stopper(whole, stop_at, stop), is_lenient=only is not None)
    _run(player)
    return Replay(
        reconciles=player.reconciles,
        requests=player.requests,
        seconds=entries[-1].at / 1e6,
        digest=player.digest.hexdigest(),
        difference=player.difference,
        notes=tuple(player.watch.notes),
        is_partial=start.is_partial,
        is_complete=isinstance(whole[-1], Stop),
        is_quit=player.is_quit,
    )


def assert_replays(path: str | Path, controllers: Controller[Any] | Iterable[Controller[Any]]) -> Replay:
    """Fails unless the controllers do what the recording has; ReplayDiffers shows the first difference."""
    result = replay(path, controllers)
    if result.difference is not None:
        notes = "".join(f"\n  {one}" for one in result.notes)
        text = f"\nthis code uses what no replay can repeat:{notes}" if notes else ""
        raise ReplayDiffers(f"{path}: {result.difference}{text}")
    return result


def _until(entries: Sequence[Entry], until: float | None) -> Sequence[Entry]:
    if until is None:
        return entries
    if isinstance(until, float):
        return [one for one in entries if one.at <= until * 1e6]
    ended, found, wanted = 0, list[Entry](), set[int]()
    for one in entries:
        found.append(one)
        if isinstance(one, Begin) and len(wanted) < until:
            wanted.add(one.task)
        ended += isinstance(one, End) and one.task in wanted
        if ended == until:
            break
    return found


def _stopper(
    entries: Sequence[Entry], stop_at: str | int | None, stop: Callable[[], object]
) -> Callable[[Begin, int], object] | None:
    if stop_at is None:
        return None
    wanted = int(stop_at) if isinstance(stop_at, int) or stop_at.isdecimal() else None
    selection = None if wanted is not None else Selection.parse(str(stop_at), entries)

    def before(begin: Begin, number: int) -> None:
        if number == wanted or (selection is not None and selection.matches(begin)):
            stop()

    return before


def _run(player: Replayer) -> None:
    """Runs a replay; in a thread of its own if an event loop runs in this one."""
    if not _is_loop_running():
        player.run()
        return
    errors: list[BaseException] = []

    def run() -> None:
        try:
            player.run()
        except BaseException as error:  # noqa: BLE001 -- it is raised below
            errors.append(error)

    thread = threading.Thread(target=run, name="levelset replay")
    thread.start()
    thread.join()
    if errors:
        raise errors[0]


def _is_loop_running() -> bool:
    # A function of its own: what ran in the `except` block would chain this error to every error of a reconciler.
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True
