"""What every test gets: no stray event loop, and a guard that fails a test which blocks the event loop."""

import asyncio
import faulthandler
import gc
import os
import random
import sys
import time
from collections.abc import Iterator

import pytest
import uvloop
from blockbuster import BlockBuster, blockbuster_ctx
from hypothesis import HealthCheck, settings

__all__ = ["blocking_guard", "file_access", "pytest_collection_finish", "pytest_configure", "pytest_runtest_setup"]

_WATCHDOG = pytest.StashKey[tuple[int, float]]()
"""The file descriptor for the stacks of a run that hangs, and the time of the last test that was seen to start."""


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Seeds the random numbers of a test, and ends the run five minutes after its timeout, with all stacks.

    It is for tests that not even their timeout ends. The settings of pytest and pytest-randomly do the same for more:
    a thread is started for every test, and seeds are set three times. Here the clock is set once in a minute.
    """
    random.seed(f"{item.config.getoption('randomly_seed', 0)} {item.nodeid}")
    stderr, seen = item.config.stash[_WATCHDOG]
    marker = item.get_closest_marker("timeout")
    seconds = max(600, *marker.args) + 300 if marker and marker.args else 900
    if (now := time.monotonic()) - seen > 60 or seconds > 900:
        faulthandler.dump_traceback_later(seconds, file=stderr, exit=True)
        item.config.stash[_WATCHDOG] = stderr, now if seconds == 900 else -1e9  # the next test has its own


def pytest_configure(config: pytest.Config) -> None:
    """Clears the current event loop, and makes property tests independent of the clock.

    Without it, asyncio creates a loop on the first `get_event_loop`, which is never closed: a ResourceWarning in
    whichever test runs when it is garbage collected.
    """
    # `make test-uvloop`; tests in virtual time have their own loop.
    if os.environ.get("LEVELSET_TEST_LOOP") == "uvloop":
        asyncio.set_event_loop_policy(_uvloop_policy())
    asyncio.set_event_loop(None)
    # No deadline per example: each test has its own timeout. Few examples, the same in every run, by default.
    examples = os.environ.get("LEVELSET_FUZZ_EXAMPLES")
    settings.register_profile(
        "levelset",
        deadline=None,
        max_examples=int(examples or 60),
        derandomize=not examples,
        suppress_health_check=[HealthCheck.too_slow],
    )
    settings.load_profile("levelset")
    config.option.randomly_reset_seed = False  # once per test is enough, below
    # A copy, since what the tests write to their own is captured.
    config.stash[_WATCHDOG] = os.dup(sys.__stderr__.fileno()) if sys.__stderr__ else 2, -1e9
    gc.disable()  # until all tests are collected: what is made until then stays


def pytest_collection_finish() -> None:
    """Freezes all modules and tests in the garbage collector: they live until the end of the run anyway.

    Otherwise every full collection would traverse them.
    """
    gc.enable()
    gc.collect()
    gc.freeze()
    gc.set_threshold(10_000, 10, 10)


@pytest.fixture(scope="session", autouse=True)
def blocking_guard() -> Iterator[BlockBuster]:
    """Raises BlockingError where a file, a socket, a lock or a sleep would stop a running event loop.

    It is on for the whole run, for calls from everywhere: what a library does on our loop is our fault too. Outside of
    a running loop it lets everything pass. What blocks without calling anything (a long computation) it cannot see.
    """
    with blockbuster_ctx() as guard:
        # What runs there appends to a log, unsynced or on a disk that is quick; `storage/sqlite_log.py` sees to it.
        guard.functions["sqlite3.Connection.execute"].can_block_in("levelset/storage/group_commit.py", "run_here")
        # And here the loop waits for a thread to do so, for a millisecond or two, or to load a module.
        guard.functions["threading.Lock.acquire"].can_block_in("levelset/storage/group_commit.py", "wait")
        guard.functions["threading.Lock.acquire"].can_block_in("<frozen importlib._bootstrap>", "acquire")
        yield guard


@pytest.fixture
def file_access(blocking_guard: BlockBuster) -> Iterator[None]:
    """Allows blocking file access on the event loop in this test; in all others the guard forbids it."""
    blocking_guard.deactivate()
    yield
    blocking_guard.activate()


def _uvloop_policy() -> asyncio.AbstractEventLoopPolicy:
    class UvloopPolicy(asyncio.DefaultEventLoopPolicy):
        """Defined late, since newer Pythons warn. Child processes of the other loops are asyncio's as usual."""

        def new_event_loop(self) -> asyncio.AbstractEventLoop:
            return uvloop.new_event_loop()

    return UvloopPolicy()
