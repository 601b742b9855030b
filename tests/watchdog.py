"""The timeout of every test, watched by one thread for all of them.

pytest-timeout starts a thread for each test, which is half of what pytest and its plugins cost around a small one. What
happens at a timeout is unchanged: the stacks of all threads are printed, and the run ends.
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
    """The running test and its deadline."""

    def __init__(self, end: Callable[[pytest.Item, Settings], None] = timeout_timer) -> None:
        self._end = end
        self._watched: tuple[float, pytest.Item, Settings] | None = None

    @property
    def watched(self) -> pytest.Item | None:
        """The test that runs."""
        return self._watched and self._watched[1]

    def watch(self, item: pytest.Item, settings: Settings) -> None:
        """Starts the timeout of a test."""
        self._watched = monotonic() + settings.timeout, item, settings

    def stop(self) -> None:
        """Stops watching: the test is over, or runs in a debugger."""
        self._watched = None

    def check(self, now: float) -> None:
        """Ends the run if the deadline of the test has passed."""
        watched = self._watched
        if watched is not None and now >= watched[0]:
            self.stop()  # in a debugger the run goes on
            self._end(*watched[1:])


WATCHDOG = Watchdog()


def watch_deadlines() -> None:
    """Checks the deadline ten times a second."""
    while True:
        sleep(0.1)
        WATCHDOG.check(monotonic())


def pytest_sessionstart() -> None:
    """Starts the one thread."""
    threading.Thread(target=watch_deadlines, name=NAME, daemon=True).start()


def pytest_timeout_set_timer(item: pytest.Item, settings: Settings) -> bool:
    """Has the one thread watch this test, in place of a timer of its own."""
    WATCHDOG.watch(item, settings)
    return True


def pytest_timeout_cancel_timer() -> bool:
    """Lets go of it."""
    WATCHDOG.stop()
    return True
