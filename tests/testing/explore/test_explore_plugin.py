"""The pytest plugin of the explorer: a test marked `explore` runs the Exploration it returns."""

import shlex
from importlib.metadata import entry_points

import pytest

pytest_plugins = ["pytester"]

PLUGIN = "levelset.testing.explore.explore_plugin"
IS_INSTALLED = any(one.value == PLUGIN for one in entry_points(group="pytest11"))
QUIET = [*([] if IS_INSTALLED else ["-p", PLUGIN]), "-p", "no:randomly", "-p", "no:cacheprovider", "-p", "no:asyncio"]

CODE = """
import pytest
from tests.testing.explore.broken import forgetful, hopeless
from levelset import Controller, await_change
from levelset.testing.explore import Exploration
from tests.testing.explore.broken import Job, scenario

async def idle(job, ctx):
    return await_change()

@pytest.fixture
def harmless():
    return Exploration(scenario, [Controller(Job, idle)])

@pytest.mark.explore(budget=5)
def test_broken():
    return forgetful

@pytest.mark.explore(budget=5)
def test_sound(harmless):
    return [harmless]

@pytest.mark.explore
def test_nothing():
    return "nothing"

def test_unmarked():
    pass
"""


def test_a_failure_is_reported_and_other_tests_are_unchanged(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(CODE)
    outcome = pytester.runpytest_inprocess(*QUIET, "--strict-markers")
    outcome.assert_outcomes(passed=2, failed=2)
    outcome.stdout.fnmatch_lines(
        [
            "*an object is created twice*",
            "*Replay: pytest *::test_broken --explore-seed 1 --explore-replay *",
            "*test_nothing is marked `explore` and returned 'nothing'; return an Exploration*",
        ]
    )


def test_the_command_line_overrides_the_marks(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(CODE)
    outcome = pytester.runpytest_inprocess(*QUIET, "-k", "broken", "--explore-budget", "1")
    outcome.stdout.fnmatch_lines(["*: 1 of * plans run in *"])


def test_the_command_in_the_report_replays_the_plan(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(**{"below/test_it": CODE})
    outcome = pytester.runpytest_inprocess(*QUIET, "-k", "broken")
    [line] = {one.strip() for one in outcome.outlines if "Replay:" in one}  # printed twice where CI is set
    words = shlex.split(line.partition("pytest ")[2])
    assert words[0] == "below/test_it.py::test_broken"
    again = pytester.runpytest_inprocess(*QUIET, *words)
    again.assert_outcomes(failed=1)
    again.stdout.fnmatch_lines(["forgetful: crash after create ConfigMap/test/one-~#1"])
    other = pytester.runpytest_inprocess(*QUIET, words[0], "--explore-replay", "crash-after:create.ConfigMap/test/x#1")
    other.stdout.fnmatch_lines(["these disturbances were not reached: crash-after:create.ConfigMap/test/x#1"])


def test_an_invalid_mark_is_reported(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import pytest

        @pytest.mark.explore(budjet=5)
        def test_slip(): ...

        @pytest.mark.explore
        async def test_async(): ...
        """
    )
    outcome = pytester.runpytest_inprocess(*QUIET)
    outcome.assert_outcomes(failed=2)
    outcome.stdout.fnmatch_lines(
        [
            "explore(budjet): the mark takes only budget, seed, within",
            "test_async is marked `explore` and async; write `def`: the explorer runs its own event loops",
        ]
    )
