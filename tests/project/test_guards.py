"""The guards of the test suite are active: blocking calls, warnings, random order and timeouts."""

import asyncio
import faulthandler
import importlib
import subprocess
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


async def test_a_test_that_sleeps_on_the_event_loop_fails() -> None:
    with pytest.raises(BlockingError):
        time.sleep(0)  # noqa: ASYNC251  (the point of the test)


async def test_a_test_that_reads_a_file_on_the_event_loop_fails() -> None:
    with pytest.raises(BlockingError), Path(__file__).open("rb") as file:  # noqa: ASYNC230  (likewise)
        file.read()


def test_a_run_is_not_ended_before_the_timeout_of_a_test(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    given: list[float] = []
    monkeypatch.setattr(faulthandler, "dump_traceback_later", lambda seconds, **_: given.append(seconds))
    conftest = request.config.pluginmanager.get_plugin(str(ROOT / "conftest.py"))
    assert conftest is not None
    conftest.pytest_runtest_setup(request.node)
    request.node.add_marker(pytest.mark.timeout(7200))
    conftest.pytest_runtest_setup(request.node)
    assert given in ([7500], [900, 7500])  # an earlier test may have set the first one


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
assert GO.wait(120)
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
    # Ten minutes: at load 30 on two cores the tests with real processes, such as the tutorial, take more than two.
    assert 0 < float(pytestconfig.getini("timeout")) <= 600


def test_a_test_that_takes_longer_fails_alone_and_the_run_ends_with_a_summary(tmp_path: Path) -> None:
    (tmp_path / "test_slow.py").write_text(HANGING, encoding="utf-8")
    command = [sys.executable, "-m", "pytest", "-p", "no:randomly", "--timeout=1", "--rootdir", str(tmp_path)]
    settings = ["-c", str(ROOT / "pyproject.toml"), "--override-ini=testpaths=", str(tmp_path)]
    run = subprocess.run([*command, *settings], capture_output=True, text=True, check=False, cwd=tmp_path)
    assert run.stdout.splitlines()[-1].startswith("========"), run.stdout + run.stderr
    assert "2 failed, 1 passed" in run.stdout.splitlines()[-1]


HANGING = """
import asyncio, threading

async def test_that_waits_on_the_loop():
    await asyncio.Event().wait()

def test_that_waits_for_a_thread():
    threading.Event().wait()

def test_that_comes_after_them():
    pass
"""


def test_the_shared_fixtures_stay_few() -> None:
    assert len((ROOT / "conftest.py").read_text(encoding="utf-8").splitlines()) < 110
