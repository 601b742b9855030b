"""The guards around all other tests are on, and they bite."""

import threading
import time
import warnings
from pathlib import Path

import pytest
from blockbuster import BlockingError

from tests.house.files import ROOT


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


def test_the_shared_fixtures_stay_few() -> None:
    assert len((ROOT / "conftest.py").read_text(encoding="utf-8").splitlines()) < 60
