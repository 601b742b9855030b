"""`levelset explore`: output, exit codes and usage errors."""

import json
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
from click.testing import CliRunner, Result

from levelset.cli.explore import describe_progress, explore, read_budget, read_limits
from levelset.cli.output import UsageError
from levelset.testing.explore.search import SearchProgress
from tests.project.files import ROOT
from tests.project.markdown import blocks

BROKEN = "tests.testing.explore.broken:forgetful"


def invoke(*arguments: str) -> Result:
    return CliRunner().invoke(explore, arguments, catch_exceptions=False)


def test_failures_are_reported_with_exit_code_1() -> None:
    result = invoke(BROKEN, "--budget", "3")
    assert result.exit_code == 1
    assert "an object is created twice" in result.output
    assert f"levelset explore {BROKEN} --seed 1 --replay 'crash-after:create.ConfigMap/test/one-~#1'" in result.output
    assert "DISTURBANCE" in result.output


COMMANDS = dict.fromkeys(
    line.removeprefix("$ levelset explore ")
    for page in ("README.md", "docs/exploring.md")
    for block in blocks(ROOT / page)
    for line in block.text.splitlines()
    if block.info == "console" and line.startswith("$ levelset explore books.py")
)


@pytest.fixture
def books(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """`books.py` of the guide, in the current folder."""
    first = next(block for block in blocks(ROOT / "docs" / "exploring.md") if block.info == "python")
    (tmp_path / "books.py").write_text(first.text, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.delitem(sys.modules, "books", raising=False)
    return tmp_path / "books.py"


@pytest.mark.parametrize("command", COMMANDS)
def test_the_commands_of_the_guide_tell_the_story_of_the_bug(command: str, books: Path) -> None:
    result = invoke(*shlex.split(command.replace("30s", "20")))
    if "careful" in command:
        assert (result.exit_code, "careful: 20 of" in result.output) == (0, True)
        return
    assert result.exit_code == 1
    assert "an object is created twice: there are 2 of ConfigMap/test/novel-~ instead of 1" in result.output


def test_the_file_of_the_guide_explores_only_when_it_is_run(books: Path) -> None:
    said = {
        name: subprocess.run([sys.executable, *words], check=True, capture_output=True, text=True).stdout
        for name, words in {"imported": ["-c", "import books"], "run": [str(books)]}.items()
    }
    assert said["imported"] == ""
    assert said["run"].splitlines()[-1] == "careful survives"


def test_replay_shows_every_step_of_one_plan() -> None:
    result = invoke(BROKEN, "--replay", "crash-after:create.ConfigMap/test/one-~#1")
    assert result.exit_code == 1
    assert "   1     0.0000 a.1      start" in result.output
    assert "! crash-after:create.ConfigMap/test/one-~#1" in result.output
    assert "an object is created twice" in result.output


def test_the_undisturbed_run_can_be_replayed_too() -> None:
    result = invoke(BROKEN, "--replay", "undisturbed")
    assert result.exit_code == 0
    assert result.output.splitlines()[-1].startswith("no failures (")


def test_reports_are_written_as_json_junit_and_html(tmp_path: Path) -> None:
    files = [word for one in ("json", "junit", "html") for word in (f"--{one}", str(tmp_path / one))]
    result = invoke(BROKEN, "--budget", "2", *files)
    assert result.exit_code == 1
    (tree,) = json.loads((tmp_path / "json").read_text())
    assert tree["played"] == 2
    assert [(one["line"], one["function"], one["reached"]) for one in tree["coverage"]] == [
        (34, "reconcile", 3),
        (37, "reconcile", 3),
    ]
    assert len(ET.parse(tmp_path / "junit").findall("testsuite/testcase")) == 3
    assert "<h3>Cause</h3>" in (tmp_path / "html").read_text()


def test_the_coverage_of_call_sites_is_printed() -> None:
    result = invoke("tests.testing.explore.half_reached:exploration", "--budget", "12", "--jobs", "1")
    assert result.exit_code == 0, result.output
    last = result.output.splitlines()[-2:]
    assert last[0].startswith("coverage: 1 of 2 call sites reached; 1 crashed, 1 failed, ")
    assert last[1] == "never reached: tests/testing/explore/half_reached.py:24 (reconcile)"


def test_an_exploration_is_continued_from_its_state_file(tmp_path: Path) -> None:
    words = (BROKEN, "--jobs", "1", "--state", str(tmp_path / "state"))
    first = invoke(*words, "--budget", "2")
    again = invoke(*words, "--budget", "3")
    assert ("forgetful: 2 of" in first.output, "forgetful: 3 of" in again.output) == (True, True)
    assert len((tmp_path / "state").read_text().splitlines()) == 4


INTERRUPTED = """
import signal
from levelset.testing.explore import Exploration

async def scenario(people):
    signal.raise_signal(signal.SIGINT)
    await people.settled()

exploration = Exploration(scenario, [])
"""


@pytest.fixture
def interruptible() -> Iterator[None]:
    """Handles SIGINT as programs of a terminal do; those that a shell runs in the background ignore it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("interruptible")
def test_an_interrupted_exploration_says_how_to_continue(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "interrupted.py").write_text(INTERRUPTED)
    monkeypatch.chdir(tmp_path)
    result = invoke("interrupted.py", "--state", "notes")
    assert result.exit_code == 1
    assert "interrupted; the same command continues from notes" in result.stderr
    assert "continues" not in invoke("interrupted.py").stderr


def test_the_progress_shows_failures_states_and_speed() -> None:
    quiet, bad = SearchProgress(10, 200, 0, 0, 40, 0.2), SearchProgress(10, 200, 3, 1, 40, 0.2)
    assert describe_progress("books", quiet) == "books: no failures, 40 states, 50 plans/s"
    assert describe_progress("books", bad) == "books: 3 failed in 1 mode, 40 states, 50 plans/s"


def test_a_time_budget_has_no_limit_of_plans_unless_there_is_one() -> None:
    assert read_limits(None, None) == {"budget": 200, "within": None}
    assert read_limits(None, "2m") == {"budget": None, "within": 120.0}
    assert read_limits("50", "1h") == {"budget": 50, "within": 3600.0}
    assert read_limits("30s", "60s") == {"budget": None, "within": 30.0}


def test_json_output() -> None:
    assert json.loads(invoke(BROKEN, "--budget", "1", "-o", "json").output)[0]["name"] == "forgetful"


def test_a_replay_as_json() -> None:
    plan = "crash-after:create.ConfigMap/test/one-~#1"
    result = invoke(BROKEN, "--replay", plan, "-o", "json")
    shown = json.loads(result.output)
    assert (result.exit_code, shown["plan"], shown["ok"], shown["missed"]) == (1, plan, False, [])
    assert "a.1      start" in shown["steps"][0]
    assert "created twice" in {one["rule"] for one in shown["findings"]}
    quiet = invoke(BROKEN, "--replay", "undisturbed", "-o", "json")
    assert (quiet.exit_code, json.loads(quiet.output)["ok"]) == (0, True)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["tests.testing.explore.broken:no_exploration"], "which is not of type Exploration; name Explorations"),
        (["tests.testing.explore.broken:nothing"], "has no nothing; it has forgetful, hopeless"),
        (["no_such_module_at_all"], "there is no module no_such_module_at_all"),
        ([BROKEN, "--budget", "many"], "--budget many: expected a number of plans such as 200, or a time such as 30s"),
        ([BROKEN, "--time", "soon"], "--time soon: expected a time such as 60s, 10m or 1h"),
        (
            [BROKEN, "--replay", "nonsense"],
            "'nonsense' is not a plan: unknown disturbance 'nonsense', expected one of crash-before",
        ),
        (["tests.testing.explore.broken:two", "--replay", "undisturbed"], "has 2 explorations (forgetful, hopeless)"),
    ],
)
def test_a_usage_error_is_refused_with_a_hint(words: list[str], message: str) -> None:
    result = invoke(*words)
    assert result.exit_code == 2
    assert message in result.stderr


def test_a_file_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    result = invoke(BROKEN, "--budget", "1", "--json", str(tmp_path / "none" / "a.json"))
    assert result.exit_code == 1
    assert "cannot be written: No such file or directory" in result.stderr


def test_a_budget_is_plans_or_seconds() -> None:
    assert (read_budget("20"), read_budget("1.5s")) == ((20, None), (None, 1.5))
    with pytest.raises(UsageError):
        read_budget("s")


TWO = "tests.testing.explore.broken:two"


def test_one_of_several_is_selected_by_name() -> None:
    result = invoke(TWO, "--budget", "1")
    assert f"levelset explore {TWO} --only forgetful --seed 1 --replay" in result.output
    again = invoke(TWO, "--only", "forgetful", "--replay", "crash-after:create.ConfigMap/test/one-~#1")
    assert "an object is created twice" in again.output
    assert "it has forgetful, hopeless" in invoke(TWO, "--only", "unknown").output
    assert "--replay needs one: add --only NAME" in invoke(TWO, "--replay", "undisturbed").output


def test_a_replay_whose_disturbance_is_not_reached_fails() -> None:
    result = invoke(BROKEN, "--replay", "crash-after:create.ConfigMap/test/unknown#1")
    assert result.exit_code == 1
    assert "this disturbance was not reached: crash-after:create.ConfigMap/test/unknown#1" in result.output
    assert "this is not the reported run" in result.output


@pytest.mark.parametrize("text", ["0", "-4", "nans", "infs", "-3s", "0s"])
def test_a_budget_is_positive_and_finite(text: str) -> None:
    with pytest.raises(UsageError, match="expected a number of plans such as 200, or a time such as 30s"):
        read_budget(text)
