"""The report of an exploration: text, JSON, JUnit XML and the replay command."""

import json
import shlex
from xml.etree import ElementTree as ET

import pytest

from levelset.errors import ConfigError
from levelset.testing.explore import Plan, Report, explore, junit, replay
from levelset.testing.explore.search import SearchProgress
from tests.testing.explore.broken import forgetful, hopeless, scenario


@pytest.fixture(scope="module")
def report() -> Report:
    return explore(forgetful, budget=12, target="tests.testing.explore.broken:forgetful")


def test_a_failure_mode_is_reported_once_with_its_shortest_plan(report: Report) -> None:
    assert not report.ok
    (failure,) = report.failures
    assert failure.rule == "created twice"
    assert str(failure.shown.plan) == "crash after create ConfigMap/test/one-~#1"
    assert failure.others == sum(not one.ok for one in report.tried) - 1
    finding = failure.shown.findings[0]
    assert finding.step is not None
    assert (finding.step.verb, finding.step.kind, finding.step.process) == ("create", "ConfigMap", "a.2")


def test_the_story_shows_steps_expected_and_actual_values(report: Report) -> None:
    story = report.story()
    for words in (
        "an object is created twice: there are 2 of ConfigMap/test/one-~ instead of 1",
        "expected   1",
        "actual     2",
        "a.1 reconciles jobs/Job/test/one",
        "a.1 creates ConfigMap/test/one-~ -> 201",
        "a.1 crashes and loses its memory",
        "a.2 starts",
        "Replay: levelset explore tests.testing.explore.broken:forgetful --seed 1 --replay",
    ):
        assert words in story


def test_the_command_in_the_story_replays_the_same_run(report: Report) -> None:
    (failure,) = report.failures
    words = shlex.split(report.replay(failure.shown.plan))
    again = replay(forgetful, words[-1], seed=int(words[words.index("--seed") + 1]))
    assert again.trace.text() == failure.shown.trace.text()
    assert again.findings == failure.shown.findings


def test_the_report_as_json(report: Report) -> None:
    tree = json.loads(report.to_json())
    assert (tree["name"], tree["ok"], tree["played"]) == ("forgetful", False, 12)
    assert tree["failures"][0]["findings"][0]["step"]["process"] == "a.2"
    assert Plan.parse(tree["failures"][0]["plan"]) == report.failures[0].shown.plan
    assert sum(one["played"] for one in tree["families"].values()) == 12


def test_junit_has_one_case_for_each_plan(report: Report) -> None:
    (suite,) = ET.fromstring(junit([report]))
    cases = suite.findall("testcase")
    assert len(cases) == 13
    assert suite.get("failures") == str(sum(not one.ok for one in report.tried))
    texts = [failure.text or "" for case in cases for failure in case.findall("failure")]
    assert all("Replay: levelset explore" in text for text in texts)


def test_no_plan_runs_if_the_undisturbed_run_fails() -> None:
    report = explore(hopeless)
    assert not report.ok
    assert report.tried == ()
    assert "the scenario fails in test" in report.story()
    assert "--replay undisturbed" in report.story()
    assert len(ET.fromstring(junit([report]))[0].findall("testcase/failure")) == 1


def test_a_scenario_and_controllers_can_be_passed_separately() -> None:
    assert explore(scenario, forgetful.controllers, budget=1).name == "scenario"
    with pytest.raises(ConfigError, match="needs controllers"):
        explore(scenario)


def test_progress_is_called_after_each_plan() -> None:
    calls: list[SearchProgress] = []
    explore(forgetful, budget=3, progress=calls.append)
    assert [(one.played, one.total) for one in calls] == [(1, 3), (2, 3), (3, 3)]
    assert (calls[0].failed, calls[0].modes) == (1, 1)
    assert calls[-1].states >= calls[0].states > 1
    assert calls[-1].per_second > 0


def test_the_budget_may_be_a_time() -> None:
    assert len(explore(forgetful, budget=None, within=0.0).tried) <= 1
