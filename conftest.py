"""What every test gets: no stray event loop, and a guard that fails a test which blocks the event loop."""

import asyncio
import gc
import os
from collections.abc import Iterator

import pytest
from blockbuster import BlockBuster, blockbuster_ctx
from hypothesis import HealthCheck, settings

__all__ = ["blocking_guard", "pytest_collection_finish", "pytest_configure", "pytest_plugins"]

pytest_plugins = ["tests.watchdog"]


def pytest_configure() -> None:
    """Says that there is no event loop outside of a test, and that no property test depends on the clock.

    Asked for the current loop before anybody has said so, asyncio makes one, which nobody closes: a ResourceWarning
    that hits whichever test runs when it is collected.
    """
    asyncio.set_event_loop(None)
    # How long an example takes is the machine's affair: each test has its own limit of seconds. The examples are the
    # same in every run, unless somebody asks for new ones.
    settings.register_profile(
        "house",
        deadline=None,
        derandomize=not os.environ.get("LEVELSET_FUZZ_EXAMPLES"),
        suppress_health_check=[HealthCheck.too_slow],
    )
    settings.load_profile("house")


def pytest_collection_finish() -> None:
    """Takes all modules and all tests out of the garbage collector's sight: they stay until the end anyway.

    It would go through them anew whenever a test makes many objects, and for them it starts less often than usual.
    """
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
        # And here the loop waits for a thread to do so, for a millisecond or two at most.
        guard.functions["threading.Lock.acquire"].can_block_in("levelset/storage/group_commit.py", "wait")
        # A module that another thread is loading is waited for, as it would be loaded here.
        guard.functions["threading.Lock.acquire"].can_block_in("<frozen importlib._bootstrap>", "acquire")
        yield guard
