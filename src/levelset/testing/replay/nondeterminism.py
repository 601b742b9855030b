"""Finds what a replay cannot repeat: clocks, random numbers, files, threads and so on that a reconcile uses directly.

While a replay runs the user's code, calls of the functions below are noted with the file and line of the code that made
them. `ctx.now()`, `ctx.random` and `recorded(...)` are not: recordings have their values.
"""

import os
import random
import sys
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from types import FrameType
from typing import Any, Final

from levelset.runtime.controller.traced_tasks import CURRENT
from levelset.testing.replay.differences import Note, is_user_file, user_place
from levelset.testing.replay.held_loop import HeldLoop

__all__ = ["NondeterminismWatch"]

_CLOCK: Final = "the clock; use ctx.now()"
_RANDOM: Final = "random numbers; use ctx.random, or wrap the function with levelset.runtime.recording.recorded"
_SYSTEM: Final = "the operating system; wrap the client with levelset.runtime.recording.recorded"
_FILES: Final = "the file system; read it before the controllers start, or wrap the function with recorded"
_PROCESS: Final = "what differs from process to process; read it before the controllers start"
_READS: Final[Mapping[str, str]] = {
    _CLOCK: "time time_ns monotonic monotonic_ns perf_counter perf_counter_ns process_time process_time_ns ctime "
    "clock_gettime now utcnow today localtime gmtime",
    _RANDOM: "urandom random getrandbits generate_time_safe UuidCreate",
    _SYSTEM: "start_new_thread start_joinable_thread fork fork_exec posix_spawn system connect connect_ex getaddrinfo "
    "gethostbyname gethostbyaddr",
    _FILES: "open stat lstat listdir scandir access readlink statvfs FileIO",
    _PROCESS: "getpid getppid uname gethostname getcwd getlogin cpu_count sched_getaffinity getloadavg",
}
_NAMES: Final[Mapping[str, str]] = {name: what for what, names in _READS.items() for name in names.split()}
"""The builtin functions, by name, and what they read."""
_OWNERS: Final = frozenset(
    {"time", "datetime", "date", "posix", "nt", "_thread", "_posixsubprocess", "socket", "_socket", "_uuid"}
    | {"sqlite3", "_sqlite3", "Connection", "io", "_io"}
)
_SILENT: Final = frozenset({"logging", "asyncio", "importlib", "linecache", "traceback", "tokenize", "zoneinfo"})
"""Modules that read clocks and files for themselves, on behalf of code that does not see it."""
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
        if event == "c_call":
            if called.__name__ in _NAMES and CURRENT.get() is not None and _is_meant(called):
                self._note(frame, f"{_words(called)} reads {_NAMES[called.__name__]}")
        elif event == "call" and id(frame.f_code) in _FUNCTIONS and CURRENT.get() is not None:
            text, is_meant = _FUNCTIONS[id(frame.f_code)]
            if is_meant(frame):
                self._note(frame.f_back, text)

    def _note(self, frame: FrameType | None, text: str) -> None:
        place = _place_of_caller(frame)
        if place is not None and len(self.notes) < _MOST:
            self.notes[Note(text, place)] = None


def _is_meant(called: Any) -> bool:
    owner = getattr(called, "__self__", None)
    if isinstance(owner, random.Random):
        return owner is _SHARED or isinstance(owner, random.SystemRandom)
    return getattr(owner, "__name__", "") in _OWNERS or type(owner).__name__ in _OWNERS


_SHARED: Final[Any] = random.random.__self__  # type: ignore[attr-defined]  # of the functions of the module


def _always(_: FrameType) -> bool:
    return True


def _is_unseeded(frame: FrameType) -> bool:
    return frame.f_locals.get("x") is None


_FUNCTIONS: Final[Mapping[int, tuple[str, Callable[[FrameType], bool]]]] = {
    id(type(os.environ).__getitem__.__code__): (
        "os.environ is that of the process; read it before the controllers start",
        _always,
    ),
    id(random.Random.__init__.__code__): (f"random.Random() without a seed reads {_RANDOM}", _is_unseeded),
    id(HeldLoop.time.__code__): ("loop.time() is another in each process; use ctx.now()", _always),
}
"""Functions of Python code, by the identity of their code (its hash is slow), and whether such a call is meant."""


def _words(called: Any) -> str:
    owner = getattr(called, "__self__", None)
    name = "random" if isinstance(owner, random.Random) else getattr(owner, "__name__", type(owner).__name__)
    return f"{'os' if name == 'posix' else name}.{called.__name__}()"


def _place_of_caller(frame: FrameType | None) -> str | None:
    """The line of the user's code, unless levelset or the logging of Python made the call: these may differ."""
    one = frame
    while one is not None:
        name = one.f_code.co_filename
        if is_user_file(name):
            return user_place(one)
        module = one.f_globals.get("__name__", "")
        if module.startswith(("levelset.", "_frozen_importlib")) or module.partition(".")[0] in _SILENT:
            return None
        one = one.f_back
    return None
