"""The guards around all other tests are on, and they bite."""

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
    """Has a thread load a module, which takes until the calling thread waits for it, or until the block is over."""
    importer, over = threading.get_ident(), threading.Event()
    loader = threading.Thread(target=importlib.import_module, args=(name,))
    loader.start()
    while not hasattr(sys.modules.get(name), "GO"):
        time.sleep(0)

    def let_go() -> None:
        while not over.wait(0.001) and not is_waiting(sys._current_frames()[importer]):
            pass
        sys.modules[name].GO.set()

    observer = threading.Thread(target=let_go)
    observer.start()
    try:
        yield
    finally:
        over.set()
        observer.join()
        loader.join()
        del sys.modules[name]


def is_waiting(frame: FrameType | None) -> bool:
    """Whether a thread waits for the lock of a module."""
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
    watchdog, limit = Watchdog(lambda *told: ended.append(told)), Settings(20, "thread", False, False)
    watchdog.watch(request.node, limit)
    watchdog.look(time.monotonic() + 19)
    assert ended == []
    watchdog.look(time.monotonic() + 20)
    assert ended == [(request.node, limit)]


def test_a_test_that_is_over_has_no_limit_any_more(request: pytest.FixtureRequest) -> None:
    ended: list[tuple[pytest.Item, Settings]] = []
    watchdog = Watchdog(lambda *told: ended.append(told))
    watchdog.watch(request.node, Settings(20, "thread", False, False))
    watchdog.let_go()
    watchdog.look(time.monotonic() + 20)
    assert ended == []


def test_somebody_watches_the_limits(request: pytest.FixtureRequest) -> None:
    assert [thread.name for thread in threading.enumerate()].count(NAME) == 1
    assert WATCHDOG.watched is request.node


def test_the_shared_fixtures_stay_few() -> None:
    assert len((ROOT / "conftest.py").read_text(encoding="utf-8").splitlines()) < 60
