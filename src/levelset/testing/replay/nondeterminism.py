"""Finds what a replay cannot repeat: clocks, random numbers, threads and processes that a reconcile uses directly.

While a replay runs the user's code, calls of the functions below are noted with the file and line of the code that made
them. `ctx.now()`, `ctx.random` and `recorded(...)` are not: recordings have their values.
"""

import random
import sys
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from types import FrameType
from typing import Any, Final

from levelset.runtime.controller.traced_tasks import CURRENT
from levelset.testing.replay.differences import Note, is_user_file, user_place

__all__ = ["NondeterminismWatch"]

_CLOCK: Final = "the clock; use ctx.now()"
_RANDOM: Final = "random numbers; use ctx.random, or wrap the function with levelset.runtime.recording.recorded"
_SYSTEM: Final = "the operating system; wrap the client with levelset.runtime.recording.recorded"
_NAMES: Final[Mapping[str, str]] = {
    "time": _CLOCK,
    "time_ns": _CLOCK,
    "now": _CLOCK,
    "utcnow": _CLOCK,
    "today": _CLOCK,
    "localtime": _CLOCK,
    "gmtime": _CLOCK,
    "urandom": _RANDOM,
    "random": _RANDOM,
    "getrandbits": _RANDOM,
    "start_new_thread": _SYSTEM,
    "start_joinable_thread": _SYSTEM,
    "fork_exec": _SYSTEM,
    "posix_spawn": _SYSTEM,
    "connect": _SYSTEM,
}
"""The builtin functions, by name, and what they read."""
_OWNERS: Final = frozenset({"time", "datetime", "date", "posix", "nt", "_thread", "_posixsubprocess", "socket"})
_MOST: Final = 100


class NondeterminismWatch:
    """Collects notes while it is `watching`."""

    def __init__(self) -> None:
        self.notes: dict[Note, None] = {}

    def add(self, what: str) -> None:
        """Notes something that the running code uses."""
        place = user_place()
        if place is not None and len(self.notes) < _MOST:
            self.notes[Note(what, place)] = None

    @contextmanager
    def watching(self) -> Generator[None, None, None]:
        """Watches the calls of this thread."""
        before: Callable[..., Any] | None = sys.getprofile()
        sys.setprofile(self._see)
        try:
            yield
        finally:
            sys.setprofile(before)

    def _see(self, frame: FrameType, event: str, called: Any) -> None:
        if event != "c_call" or called.__name__ not in _NAMES or CURRENT.get() is None:
            return
        if not _is_meant(called):
            return
        place = _place_of_caller(frame)
        if place is not None and len(self.notes) < _MOST:
            self.notes[Note(f"{_words(called)} reads {_NAMES[called.__name__]}", place)] = None


def _is_meant(called: Any) -> bool:
    owner = getattr(called, "__self__", None)
    if isinstance(owner, random.Random):
        return owner is _SHARED or isinstance(owner, random.SystemRandom)
    return getattr(owner, "__name__", "") in _OWNERS or type(owner).__name__ in _OWNERS


_SHARED: Final[Any] = random.random.__self__  # type: ignore[attr-defined]  # of the functions of the module


def _words(called: Any) -> str:
    owner = getattr(called, "__self__", None)
    name = "random" if isinstance(owner, random.Random) else getattr(owner, "__name__", type(owner).__name__)
    return f"{'os' if name == 'posix' else name}.{called.__name__}()"


def _place_of_caller(frame: FrameType) -> str | None:
    """The line of the user's code, unless levelset or the logging of Python made the call: these may differ."""
    one: FrameType | None = frame
    while one is not None:
        name = one.f_code.co_filename
        if is_user_file(name):
            return user_place(one)
        module = one.f_globals.get("__name__", "")
        if module.startswith("levelset.") or module.partition(".")[0] in {"logging", "asyncio"}:
            return None
        one = one.f_back
    return None
