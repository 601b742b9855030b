"""`levelset up` runs the modules of pyproject.toml on a local API server."""

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
from levelset.cli.up import project_targets

PROJECT = '[tool.levelset]\nup = ["tests.cli.fixtures.operator:stranger"]\n'
COMMAND = [sys.executable, "-c", "import levelset.cli; levelset.cli.main()", "up", "--data", "shop.db"]


def up(*words: str) -> Result:
    return CliRunner().invoke(levelset, ["up", *words], catch_exceptions=False)


def test_it_runs_the_modules_of_the_project_and_prints_the_next_step(tmp_path: Path) -> None:
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


def test_json_output(tmp_path: Path) -> None:
    result = ready_line(tmp_path)
    assert result["watches"] == ["Stranger (doctor.dev/v1)"]
    assert result["serves"] == ["strangers.doctor.dev"]
    assert result["kubeconfig"] == "levelset.kubeconfig"
    assert result["url"].startswith("http")
    assert result["dashboard"].startswith("http://127.0.0.1:")
    assert result["ready_ms"] > 0


def test_the_dashboard_can_be_disabled(tmp_path: Path) -> None:
    assert "dashboard" not in ready_line(tmp_path, "--dashboard", "no")


def ready_line(tmp_path: Path, *more: str) -> dict[str, Any]:
    """The line of JSON that it prints when it is ready; then it is stopped."""
    words = [*COMMAND[:4], "tests.cli.fixtures.operator:stranger", "--output", "json", *more]
    paths = os.pathsep.join(str(Path(one).resolve()) for one in sys.path if one)
    environment = {**os.environ, "PYTHONPATH": paths, "LEVELSET_RUNTIME_DIR": str(tmp_path / "runtime")}
    with subprocess.Popen(
        words, cwd=tmp_path, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        result: dict[str, Any] = json.loads(process.stdout.readline())
        process.send_signal(signal.SIGTERM)
        rest, errors = process.communicate(timeout=15)
        assert (process.returncode, rest) == (0, ""), errors
    return result


def test_the_targets_are_read_from_pyproject(tmp_path: Path) -> None:
    path = tmp_path / "pyproject.toml"
    path.write_text(PROJECT)
    assert project_targets(path) == ["tests.cli.fixtures.operator:stranger"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (None, "there is no pyproject.toml in this directory; pass modules, or write into pyproject.toml:"),
        ("[project]\n", "pyproject.toml does not name modules to run; pass modules"),
        ("[tool.levelset]\nup = []\n", "pyproject.toml does not name modules to run"),
        ("[tool.levelset\n", "pyproject.toml cannot be read: "),
        ('[tool.levelset]\nup = ["no_such_module_here"]\n', "there is no module no_such_module_here"),
        ('[tool.levelset]\nup = ["tests.cli.fixtures.operator:Site"]\n', "there are no Controllers to run"),
    ],
)
def test_a_project_without_targets_is_refused_with_what_to_write(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str | None, message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    if text is not None:
        (tmp_path / "pyproject.toml").write_text(text)
    result = up()
    assert result.exit_code == 2
    assert message in result.stderr


def test_a_directory_as_data_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    result = up("tests.cli.fixtures.operator:stranger", "--data", str(tmp_path))
    assert result.exit_code == 2
    assert "is a directory, but --data needs a database file" in result.stderr
