"""The garbage collector in processes that run servers and managers: its threshold, pauses, and what it leaves out."""

import gc
import subprocess
import sys
from collections.abc import Iterator

import pytest

from levelset.aio import event_loop
from levelset.garbage_collection import paused, raise_threshold


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


def test_the_middle_generation_is_collected_in_small_parts_and_the_oldest_as_often_as_before() -> None:
    gc.set_threshold(700, 10, 10)
    raise_threshold()
    assert gc.get_threshold() == (20_000, 3, 33)
    gc.set_threshold(700, 5, 5)
    raise_threshold()
    assert gc.get_threshold() == (20_000, 5, 5)


@pytest.mark.parametrize("chosen", [0, 50_000])
def test_what_the_program_has_chosen_is_left_alone(chosen: int) -> None:
    gc.set_threshold(chosen, 10, 10)
    raise_threshold()
    assert gc.get_threshold()[0] == chosen


def test_a_pause_ends_with_its_block_and_leaves_a_disabled_collector_disabled() -> None:
    with paused():
        assert not gc.isenabled()
    assert gc.isenabled()
    gc.disable()
    try:
        with paused():
            pass
        assert not gc.isenabled()
    finally:
        gc.enable()


PROGRAM = """
import gc
from levelset.aio import event_loop
async def count():
    return gc.get_freeze_count()
before, first = gc.get_freeze_count(), event_loop.run(count())
more = [[number] for number in range(1000)]
print(before == 0, first > 1000, event_loop.run(count()) <= first)
"""


LOADING = """
import gc
from levelset.garbage_collection import loading
gc.set_threshold(1000, 10, 10)
visits = []
gc.callbacks.append(lambda phase, _: visits.append(phase))
def load():
    with loading("modules"):
        made = [[number] for number in range(100_000)]
    return made
first = load(), len(visits), gc.get_freeze_count()
second = load(), len(visits), gc.get_freeze_count()
try:
    with loading("more"):
        raise ValueError
except ValueError:
    pass
print(first[1] == 0, first[2] > 100_000, second[2] == first[2], gc.get_freeze_count() == first[2], gc.isenabled())
"""


def test_what_was_loaded_is_not_collected_afterwards_either_but_only_the_first_time_and_if_it_did_not_fail() -> None:
    done = subprocess.run([sys.executable, "-c", LOADING], check=True, capture_output=True, text=True)
    assert done.stdout.split() == ["True"] * 5


def test_what_exists_when_the_first_loop_starts_is_exempt_from_collections_and_nothing_later() -> None:
    # In a process of its own: this one has exempted the tests.
    done = subprocess.run([sys.executable, "-c", PROGRAM], check=True, capture_output=True, text=True)
    assert done.stdout.split() == ["True", "True", "True"]
