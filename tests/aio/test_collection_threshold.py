"""The threshold of the garbage collector in processes that run servers and managers."""

import gc
from collections.abc import Iterator

import pytest

from levelset.aio import event_loop
from levelset.collection_threshold import raise_threshold


@pytest.fixture(autouse=True)
def thresholds() -> Iterator[None]:
    before = gc.get_threshold()
    yield
    gc.set_threshold(*before)


async def threshold() -> int:
    return gc.get_threshold()[0]


@pytest.mark.parametrize("default", [700, 2_000])
def test_the_default_of_python_is_raised_while_a_server_or_manager_runs(default: int) -> None:
    gc.set_threshold(default, 10, 10)
    assert event_loop.run(threshold()) == 20_000
    assert gc.get_threshold()[1:] == (10, 10)


@pytest.mark.parametrize("chosen", [0, 50_000])
def test_what_the_program_has_chosen_is_left_alone(chosen: int) -> None:
    gc.set_threshold(chosen, 10, 10)
    raise_threshold()
    assert gc.get_threshold()[0] == chosen
