"""`levelset up` runs the modules of pyproject.toml on a local API server."""

import asyncio
import importlib.util
import json
import os
import signal
import ssl
import subprocess
import sys
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest
from click.testing import CliRunner, Result

from levelset.cli.commands import levelset
from levelset.cli.up import Project, disabled_features, read_project
from levelset.client import Client
from levelset.kinds.core_v1 import Namespace

PROJECT = '[tool.levelset]\nup = ["tests.cli.fixtures.operator:stranger"]\n'
COMMAND = [sys.executable, "-c", "import levelset.cli; levelset.cli.main()", "up", "--data", "shop.db"]


def up(*words: str) -> Result:
    return CliRunner().invoke(levelset, ["up", *words], catch_exceptions=False)


def test_it_runs_the_modules_of_the_project_and_prints_the_next_step(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text(PROJECT)
    environment = environment_of(tmp_path)
    for _ in range(2):  # the second time on the data of the first
        with subprocess.Popen(
            COMMAND, cwd=tmp_path, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        ) as process:
            assert process.stdout is not None
            lines: list[str] = []
            while not lines or "kubectl" not in lines[-1]:
                lines.append(process.stdout.readline())
                assert lines[-1], process.communicate()
            process.send_signal(signal.SIGTERM)
            _, errors = process.communicate(timeout=120)
            assert process.returncode == 0, errors
        assert any(line.startswith("watches     Stranger") for line in lines)
        assert any(line.startswith("dashboard   http://127.0.0.1:") and "/?token=" in line for line in lines)
        assert lines[-1].strip() == "kubectl --kubeconfig levelset.kubeconfig get strangers"
    assert (tmp_path / "shop.db").is_file()


@pytest.mark.parametrize(("options", "is_full"), [((), True), (("--durability", "normal"), False)])
def test_writes_survive_a_loss_of_power_unless_normal_durability_is_chosen(
    tmp_path: Path, options: tuple[str, ...], is_full: bool
) -> None:
    (tmp_path / "pyproject.toml").write_text(PROJECT)
    with subprocess.Popen(
        [*COMMAND, *options], cwd=tmp_path, env=environment_of(tmp_path), stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stdout is not None
            while "kubectl" not in (line := process.stdout.readline()):
                assert line
            # Only a log that is synced is allocated beforehand: a sync has no size to change then.
            assert ((tmp_path / "shop.db-wal").stat().st_size >= 4_000 * 4_096) == is_full
        finally:
            process.kill()


def environment_of(folder: Path) -> dict[str, str]:
    """The environment of a process in the folder, with a kubectl on its path."""
    (folder / "bin").mkdir(exist_ok=True)
    (folder / "bin/kubectl").write_text("#!/bin/sh\n")
    (folder / "bin/kubectl").chmod(0o755)
    return {
        **os.environ,
        "PATH": f"{folder / 'bin'}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": os.pathsep.join(str(Path(one).resolve()) for one in sys.path if one),
        "LEVELSET_RUNTIME_DIR": str(folder / "runtime"),
    }


def test_an_empty_folder_gets_a_control_plane_and_three_first_steps(tmp_path: Path) -> None:
    with subprocess.Popen(
        COMMAND[:4],
        cwd=tmp_path,
        env=environment_of(tmp_path),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        lines: list[str] = []
        while not lines or "init" not in lines[-1]:
            lines.append(process.stdout.readline())
            assert lines[-1], process.communicate()
        try:
            there = asyncio.run(namespaces(tmp_path / "levelset.kubeconfig"))
        finally:
            process.send_signal(signal.SIGTERM)
            _, errors = process.communicate(timeout=120)
        assert process.returncode == 0, errors
    assert "default" in there
    assert lines[0].startswith("dashboard   http://127.0.0.1:")
    assert lines[1] == "kubeconfig  levelset.kubeconfig\n"
    assert not any(line.startswith("watches") for line in lines)
    assert [line.split()[-1] for line in lines[-3:]] == ["namespaces", "tour", "shop.example.dev/v1"]


async def namespaces(kubeconfig: Path) -> list[str]:
    async with await Client.connect(str(kubeconfig)) as client:
        return [one.name for one in await client.list(Namespace)]


def test_a_missing_package_is_named_with_the_command_that_installs_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "uvloop", None)
    monkeypatch.setattr(
        "levelset.cli.up.find_spec", lambda name: None if name == "uvloop" else importlib.util.find_spec(name)
    )
    ((feature, command),) = disabled_features().items()
    assert feature == "uvloop (a faster event loop)"
    assert command.endswith(" uvloop")


def test_a_sample_system_that_is_missing_is_named_with_its_package() -> None:
    result = up("levelset_local.nothing:system")
    assert result.exit_code == 2
    expected = (
        "it is in the package levelset-local: in a clone of levelset, pip install ./systems/machine ./systems/local"
    )
    assert expected in result.stderr


def test_json_output(tmp_path: Path) -> None:
    result = ready_line(tmp_path)
    assert result["watches"] == ["Stranger (doctor.dev/v1)"]
    assert result["serves"] == ["strangers.doctor.dev"]
    assert result["kubeconfig"] == "levelset.kubeconfig"
    assert result["url"].startswith("http")
    assert result["dashboard"].startswith("http://127.0.0.1:")
    assert result["ready_ms"] > 0


def test_the_dashboard_can_be_disabled_and_the_version_chosen(tmp_path: Path) -> None:
    result = ready_line(tmp_path, "--dashboard", "no", "--kubernetes-version", "1.32")
    assert "dashboard" not in result
    assert result["version"] == "v1.32.0+levelset"


def ready_line(tmp_path: Path, *more: str) -> dict[str, Any]:
    """The line of JSON that it prints when it is ready, and the version that it reports; then it is stopped."""
    words = [*COMMAND[:4], "tests.cli.fixtures.operator:stranger", "--output", "json", *more]
    with subprocess.Popen(
        words, cwd=tmp_path, env=environment_of(tmp_path), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        result: dict[str, Any] = json.loads(process.stdout.readline())
        with urlopen(f"{result['url']}/version", context=ssl._create_unverified_context()) as response:
            result["version"] = json.load(response)["gitVersion"]
        process.send_signal(signal.SIGTERM)
        rest, errors = process.communicate(timeout=120)
        assert (process.returncode, rest) == (0, ""), errors
    return result


def test_the_targets_are_read_from_pyproject(tmp_path: Path) -> None:
    path = tmp_path / "pyproject.toml"
    path.write_text(PROJECT)
    assert read_project(path) == Project(["tests.cli.fixtures.operator:stranger"])
    path.write_text(f'{PROJECT}hints = ["kubectl get strangers"]\n')
    assert read_project(path).hints == ["kubectl get strangers"]


def test_a_project_that_names_no_targets_has_none(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text("[project]\n")
    assert read_project(tmp_path / "pyproject.toml") == read_project(tmp_path / "none.toml")
    assert read_project(tmp_path / "none.toml").targets == ()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[tool.levelset]\n", "pyproject.toml has a table [tool.levelset] that does not name modules to run"),
        ("[tool.levelset]\nup = []\n", "pyproject.toml has a table [tool.levelset] that does not name modules to run"),
        ('[tool.levelset]\nup = ["shop"]\nhints = "shop"\n', "hints in [tool.levelset] must be a list of commands"),
        ("[tool.levelset\n", "pyproject.toml cannot be read: "),
        ('[tool.levelset]\nup = ["no_such_module_here"]\n', "there is no module no_such_module_here"),
        ('[tool.levelset]\nup = ["tests.cli.fixtures.operator:Site"]\n', "there are no Controllers to run"),
    ],
)
def test_a_wrong_table_is_refused_with_what_to_write(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "pyproject.toml").write_text(text)
    result = up()
    assert result.exit_code == 2
    assert message in result.stderr


def test_a_directory_as_data_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    result = up("tests.cli.fixtures.operator:stranger", "--data", str(tmp_path))
    assert result.exit_code == 2
    assert "is a directory, but --data needs a database file" in result.stderr
