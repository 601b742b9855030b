"""The guards of the test suite are active: blocking calls, warnings, random order and timeouts."""

import asyncio
import importlib
import sys
import threading
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

import pytest
from blockbuster import BlockingError

from tests.project.files import ROOT
from tests.watchdog import NAME, WATCHDOG, Settings, Watchdog


async def test_a_test_that_sleeps_on_the_event_loop_fails() -> None:
    with pytest.raises(BlockingError):
        time.sleep(0)  # noqa: ASYNC251  (the point of the test)


async def test_a_test_that_reads_a_file_on_the_event_loop_fails() -> None:
    with pytest.raises(BlockingError), Path(__file__).open("rb") as file:  # noqa: ASYNC230  (likewise)
        file.read()


async def test_a_test_that_waits_for_a_held_lock_on_the_event_loop_fails() -> None:
    held = threading.Lock()
    with held, pytest.raises(BlockingError):
        held.acquire()


def test_a_module_that_another_thread_loads_may_be_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "loaded_slowly.py").write_text(SLOW, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)

    async def load() -> bool:
        return bool(importlib.import_module("loaded_slowly").IS_LOADED)

    with loading_elsewhere("loaded_slowly"):
        assert asyncio.run(load())


SLOW = """
import threading
GO = threading.Event()
assert GO.wait(10)
IS_LOADED = True
"""


@contextmanager
def loading_elsewhere(name: str) -> Iterator[None]:
    """Imports a module in a thread; the import ends when the calling thread waits for it, or with the block."""
    importer, over = threading.get_ident(), threading.Event()
    loader = threading.Thread(target=importlib.import_module, args=(name,))
    loader.start()
    while not hasattr(sys.modules.get(name), "GO"):
        time.sleep(0)

    def release() -> None:
        while not over.wait(0.001) and not is_waiting(sys._current_frames()[importer]):
            pass
        sys.modules[name].GO.set()

    observer = threading.Thread(target=release)
    observer.start()
    try:
        yield
    finally:
        over.set()
        observer.join()
        loader.join()
        del sys.modules[name]


def is_waiting(frame: FrameType | None) -> bool:
    """Whether a thread waits for an import lock."""
    while frame is not None:
        if (frame.f_code.co_filename, frame.f_code.co_name) == ("<frozen importlib._bootstrap>", "acquire"):
            return True
        frame = frame.f_back
    return False


def test_outside_of_an_event_loop_blocking_is_fine() -> None:
    time.sleep(0)


def test_a_warning_is_an_error() -> None:
    with pytest.raises(UserWarning, match="no longer"):
        warnings.warn("no longer", UserWarning, stacklevel=1)


def test_the_order_of_tests_is_random(pytestconfig: pytest.Config) -> None:
    assert pytestconfig.pluginmanager.hasplugin("randomly")
    assert "no:randomly" not in pytestconfig.getini("addopts")


def test_every_test_has_a_limit_in_seconds(pytestconfig: pytest.Config) -> None:
    assert pytestconfig.pluginmanager.hasplugin("timeout")
    assert 0 < float(pytestconfig.getini("timeout")) <= 20


def test_a_test_that_takes_longer_ends_the_run(request: pytest.FixtureRequest) -> None:
    ended: list[tuple[pytest.Item, Settings]] = []
    watchdog, limit = Watchdog(lambda *arguments: ended.append(arguments)), Settings(20, "thread", False, False)
    watchdog.watch(request.node, limit)
    watchdog.check(time.monotonic() + 19)
    assert ended == []
    watchdog.check(time.monotonic() + 20)
    assert ended == [(request.node, limit)]


def test_the_timeout_of_a_test_ends_with_the_test(request: pytest.FixtureRequest) -> None:
    ended: list[tuple[pytest.Item, Settings]] = []
    watchdog = Watchdog(lambda *arguments: ended.append(arguments))
    watchdog.watch(request.node, Settings(20, "thread", False, False))
    watchdog.stop()
    watchdog.check(time.monotonic() + 20)
    assert ended == []


def test_one_thread_watches_the_timeouts(request: pytest.FixtureRequest) -> None:
    assert [thread.name for thread in threading.enumerate()].count(NAME) == 1
    assert WATCHDOG.watched is request.node


def test_the_shared_fixtures_stay_few() -> None:
    assert len((ROOT / "conftest.py").read_text(encoding="utf-8").splitlines()) < 60
