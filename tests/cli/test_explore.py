"""`levelset explore`: what it prints, how it ends, and what it says on wrong input."""

import json
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
from click.testing import CliRunner, Result

from levelset.cli.explore import explore, read_budget
from levelset.cli.output import Refused

BROKEN = "tests.testing.explore.broken:forgetful"


def invoke(*arguments: str) -> Result:
    return CliRunner().invoke(explore, arguments, catch_exceptions=False)


def test_it_tells_the_story_and_a_summary_and_exits_with_1() -> None:
    told = invoke(BROKEN, "--budget", "3")
    assert told.exit_code == 1
    assert "something is made twice" in told.output
    assert f"levelset explore {BROKEN} --seed 1 --replay 'crash-after:create.ConfigMap/test/one-~#1'" in told.output
    assert "DISTURBANCE" in told.output


def test_replay_shows_every_step_of_one_plan() -> None:
    told = invoke(BROKEN, "--replay", "crash-after:create.ConfigMap/test/one-~#1")
    assert told.exit_code == 1
    assert "   1     0.0000 a.1      start" in told.output
    assert "! crash-after:create.ConfigMap/test/one-~#1" in told.output
    assert "something is made twice" in told.output


def test_the_undisturbed_run_can_be_replayed_too() -> None:
    told = invoke(BROKEN, "--replay", "undisturbed")
    assert told.exit_code == 0
    assert told.output.splitlines()[-1].startswith("nothing broke (")


def test_reports_are_written_for_programs_and_for_ci(tmp_path: Path) -> None:
    told = invoke(BROKEN, "--budget", "2", "--json", str(tmp_path / "a.json"), "--junit", str(tmp_path / "a.xml"))
    assert told.exit_code == 1
    assert json.loads((tmp_path / "a.json").read_text())[0]["played"] == 2
    assert len(ET.parse(tmp_path / "a.xml").findall("testsuite/testcase")) == 3


def test_it_speaks_json_to_programs() -> None:
    assert json.loads(invoke(BROKEN, "--budget", "1", "-o", "json").output)[0]["name"] == "forgetful"


def test_a_replay_speaks_json_to_programs_too() -> None:
    plan = "crash-after:create.ConfigMap/test/one-~#1"
    told = invoke(BROKEN, "--replay", plan, "-o", "json")
    shown = json.loads(told.output)
    assert (told.exit_code, shown["plan"], shown["ok"], shown["missed"]) == (1, plan, False, [])
    assert "a.1      start" in shown["steps"][0]
    assert "created twice" in {one["rule"] for one in shown["findings"]}
    quiet = invoke(BROKEN, "--replay", "undisturbed", "-o", "json")
    assert (quiet.exit_code, json.loads(quiet.output)["ok"]) == (0, True)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["tests.testing.explore.broken:no_exploration"], "which is no Exploration; name Explorations"),
        (["tests.testing.explore.broken:nothing"], "has no nothing; there is forgetful, hopeless"),
        (["no_such_module_at_all"], "there is no module no_such_module_at_all"),
        ([BROKEN, "--budget", "many"], "--budget many: give a number of plans such as 200, or a time such as 30s"),
        ([BROKEN, "--replay", "nonsense"], "'nonsense' is no plan: there is no 'nonsense', only crash-before"),
        (["tests.testing.explore.broken:two", "--replay", "undisturbed"], "holds 2 explorations (forgetful, hopeless)"),
    ],
)
def test_what_is_not_understood_is_refused_with_what_would_be(words: list[str], said: str) -> None:
    told = invoke(*words)
    assert told.exit_code == 2
    assert said in told.stderr


def test_a_file_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    told = invoke(BROKEN, "--budget", "1", "--json", str(tmp_path / "none" / "a.json"))
    assert told.exit_code == 1
    assert "cannot be written: No such file or directory" in told.stderr


def test_a_budget_is_plans_or_seconds() -> None:
    assert (read_budget("20"), read_budget("1.5s")) == ((20, None), (None, 1.5))
    with pytest.raises(Refused):
        read_budget("s")


TWO = "tests.testing.explore.broken:two"


def test_of_several_one_is_chosen_by_its_name_and_so_does_the_command_that_replays() -> None:
    told = invoke(TWO, "--budget", "1")
    assert f"levelset explore {TWO} --only forgetful --seed 1 --replay" in told.output
    again = invoke(TWO, "--only", "forgetful", "--replay", "crash-after:create.ConfigMap/test/one-~#1")
    assert "something is made twice" in again.output
    assert "there is forgetful, hopeless" in invoke(TWO, "--only", "nobody").output
    assert "--replay needs one: add --only NAME" in invoke(TWO, "--replay", "undisturbed").output


def test_a_replay_in_which_the_plan_does_not_come_to_pass_has_failed() -> None:
    told = invoke(BROKEN, "--replay", "crash-after:create.ConfigMap/test/nobody#1")
    assert told.exit_code == 1
    assert "this never came to pass: crash-after:create.ConfigMap/test/nobody#1" in told.output
    assert "so this was another run" in told.output


@pytest.mark.parametrize("text", ["0", "-4", "nans", "infs", "-3s", "0s"])
def test_a_budget_is_above_nothing_and_has_an_end(text: str) -> None:
    with pytest.raises(Refused, match="give a number of plans such as 200, or a time such as 30s"):
        read_budget(text)
