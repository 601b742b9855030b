"""`levelset up` runs the whole of a project: what pyproject.toml names, on a server of its own."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from levelset.cli.commands import levelset
from levelset.cli.up import targets_here

PROJECT = '[tool.levelset]\nup = ["tests.cli.operator:stranger"]\n'
COMMAND = [sys.executable, "-c", "import levelset.cli; levelset.cli.main()", "up", "--data", "shop.db"]


def up(*words: str) -> Result:
    return CliRunner().invoke(levelset, ["up", *words], catch_exceptions=False)


def test_it_runs_what_the_project_names_and_says_what_to_type_next(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text(PROJECT)
    paths = os.pathsep.join(str(Path(one).resolve()) for one in sys.path if one)
    environment = {**os.environ, "PYTHONPATH": paths, "LEVELSET_RUNTIME_DIR": str(tmp_path / "runtime")}
    for _ in range(2):  # the second time on the data of the first
        with subprocess.Popen(
            COMMAND, cwd=tmp_path, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        ) as process:
            assert process.stdout is not None
            lines: list[str] = []
            while not lines or "kubectl" not in lines[-1]:
                lines.append(process.stdout.readline())
            process.send_signal(signal.SIGTERM)
            _, errors = process.communicate(timeout=15)
            assert process.returncode == 0, errors
        assert any(line.startswith("watches     Stranger") for line in lines)
        assert any(line.startswith("dashboard   http://127.0.0.1:") and "/?token=" in line for line in lines)
        assert lines[-1].strip() == "kubectl --kubeconfig levelset.kubeconfig get strangers"
    assert (tmp_path / "shop.db").is_file()


def test_programs_are_told_in_a_line_of_json_where_it_is_and_what_it_watches(tmp_path: Path) -> None:
    told = told_by(tmp_path)
    assert told["watches"] == ["Stranger (doctor.dev/v1)"]
    assert told["serves"] == ["strangers.doctor.dev"]
    assert told["kubeconfig"] == "levelset.kubeconfig"
    assert told["url"].startswith("http")
    assert told["dashboard"].startswith("http://127.0.0.1:")
    assert told["ready_ms"] > 0


def test_there_is_no_dashboard_for_who_wants_none(tmp_path: Path) -> None:
    assert "dashboard" not in told_by(tmp_path, "--dashboard", "no")


def told_by(tmp_path: Path, *more: str) -> dict[str, Any]:
    """What it says in a line of JSON when it is ready; then it is stopped."""
    words = [*COMMAND[:4], "tests.cli.operator:stranger", "--output", "json", *more]
    paths = os.pathsep.join(str(Path(one).resolve()) for one in sys.path if one)
    environment = {**os.environ, "PYTHONPATH": paths, "LEVELSET_RUNTIME_DIR": str(tmp_path / "runtime")}
    with subprocess.Popen(
        words, cwd=tmp_path, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        told: dict[str, Any] = json.loads(process.stdout.readline())
        process.send_signal(signal.SIGTERM)
        rest, errors = process.communicate(timeout=15)
        assert (process.returncode, rest) == (0, ""), errors
    return told


def test_what_a_project_runs_is_said_in_its_pyproject(tmp_path: Path) -> None:
    path = tmp_path / "pyproject.toml"
    path.write_text(PROJECT)
    assert targets_here(path) == ["tests.cli.operator:stranger"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (None, "there is no pyproject.toml here; name modules, or write into pyproject.toml:"),
        ("[project]\n", "pyproject.toml does not say what to run; name modules"),
        ("[tool.levelset]\nup = []\n", "pyproject.toml does not say what to run"),
        ("[tool.levelset\n", "pyproject.toml cannot be read: "),
        ('[tool.levelset]\nup = ["no_such_module_here"]\n', "there is no module no_such_module_here"),
        ('[tool.levelset]\nup = ["tests.cli.operator:Site"]\n', "there are no Controllers to run"),
    ],
)
def test_a_project_that_does_not_say_is_told_what_to_write(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str | None, said: str
) -> None:
    monkeypatch.chdir(tmp_path)
    if text is not None:
        (tmp_path / "pyproject.toml").write_text(text)
    told = up()
    assert told.exit_code == 2
    assert said in told.stderr


def test_a_folder_is_no_place_for_the_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    told = up("tests.cli.operator:stranger", "--data", str(tmp_path))
    assert told.exit_code == 2
    assert "is a directory, and the objects are kept in a file" in told.stderr
