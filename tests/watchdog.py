"""The limit of seconds that every test has, kept by one thread for all of them.

By itself, pytest-timeout starts a thread for each test: half of what pytest and its plugins do around a small one. What
happens when the time is over stays as it is: the stacks of all threads are printed, and the run is over.
"""

import threading
from collections.abc import Callable
from time import monotonic, sleep  # by name: a test may replace those of the module

import pytest
from pytest_timeout import Settings, timeout_timer  # type: ignore[import-untyped]  # it has no types

__all__ = [
    "NAME",
    "WATCHDOG",
    "Settings",
    "Watchdog",
    "pytest_sessionstart",
    "pytest_timeout_cancel_timer",
    "pytest_timeout_set_timer",
]

NAME = "the limit of every test"


class Watchdog:
    """Knows which test runs, and until when it may."""

    def __init__(self, end: Callable[[pytest.Item, Settings], None] = timeout_timer) -> None:
        self._end = end
        self._watched: tuple[float, pytest.Item, Settings] | None = None

    @property
    def watched(self) -> pytest.Item | None:
        """The test that runs."""
        return self._watched and self._watched[1]

    def watch(self, item: pytest.Item, settings: Settings) -> None:
        """Begins the time of a test."""
        self._watched = monotonic() + settings.timeout, item, settings

    def let_go(self) -> None:
        """The test is over, or somebody debugs it."""
        self._watched = None

    def look(self, now: float) -> None:
        """Ends the run if the time of the test is over."""
        watched = self._watched
        if watched is not None and now >= watched[0]:
            self.let_go()  # it goes on where somebody debugs it
            self._end(*watched[1:])


WATCHDOG = Watchdog()


def keep_watch() -> None:
    """Looks ten times a second."""
    while True:
        sleep(0.1)
        WATCHDOG.look(monotonic())


def pytest_sessionstart() -> None:
    """Starts the one thread."""
    threading.Thread(target=keep_watch, name=NAME, daemon=True).start()


def pytest_timeout_set_timer(item: pytest.Item, settings: Settings) -> bool:
    """Has the one thread watch this test, in place of a timer of its own."""
    WATCHDOG.watch(item, settings)
    return True


def pytest_timeout_cancel_timer() -> bool:
    """Lets go of it."""
    WATCHDOG.let_go()
    return True
