"""The environment of `make run` and `make test`: lock files that cover pyproject.toml, and a visible installation."""

import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from scripts.environment import LOCKS, PACKAGES, Environment, StepFailed, main, progress_of

from tests.project.files import ROOT

PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
EXTRAS = PROJECT["project"]["optional-dependencies"]
GROUPS = PROJECT["dependency-groups"]
RUNNING = [*PROJECT["project"]["dependencies"], *EXTRAS["cli"], *EXTRAS["tls"], *EXTRAS["fast"], *GROUPS["build"]]
WANTED = {"run": RUNNING, "dev": [*RUNNING, *EXTRAS["otel"], *GROUPS["dev"]]}
TOOLS = {"hypothesis", "import-linter", "mypy", "pyright", "pytest", "ruff"}


def locked(what: str) -> dict[str, str]:
    """The versions of a lock file by package."""
    text = (ROOT / LOCKS[what]).read_text(encoding="utf-8")
    return {
        canonicalize_name(name): version for name, version in re.findall(r"^([\w.-]+)==([^\s;]+)", text, re.MULTILINE)
    }


@pytest.mark.parametrize("what", LOCKS)
def test_a_lock_has_every_dependency_in_a_version_that_pyproject_allows(what: str) -> None:
    versions = locked(what)
    for line in WANTED[what]:
        wanted = Requirement(line)
        assert canonicalize_name(wanted.name) in versions, f"{line}: run make lock"
        assert wanted.specifier.contains(versions[canonicalize_name(wanted.name)], prereleases=True), line


@pytest.mark.parametrize("what", LOCKS)
def test_a_lock_has_names_versions_and_hashes_and_nothing_else(what: str) -> None:
    entries = re.sub(r"\s*\\\n\s*", " ", (ROOT / LOCKS[what]).read_text(encoding="utf-8")).splitlines()
    pattern = r"[\w.-]+==[\w.+!]+( ; [\w .'=!<>()]+)?( --hash=sha256:[0-9a-f]{64})+"
    assert [entry for entry in entries if not re.fullmatch(pattern, entry)] == []


def test_what_runs_is_the_same_with_and_without_the_tools() -> None:
    assert locked("run").items() <= locked("dev").items()


def test_running_needs_no_tool_of_development() -> None:
    assert TOOLS & set(locked("run")) == set()
    assert set(locked("dev")) >= TOOLS


def test_make_run_lets_its_dashboard_talk_to_the_sample_agents() -> None:
    # Without what the make that runs the tests says to one below it.
    alone = {name: value for name, value in os.environ.items() if name not in ("MAKEFLAGS", "MAKELEVEL", "MFLAGS")}
    command = ["make", "--dry-run", "run"]
    shown = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True, env=alone)
    assert shown.stdout.splitlines()[-1] == ".venv/bin/levelset up --dashboard-actions"


def test_every_package_of_the_repository_is_installed() -> None:
    assert {ROOT / path for path in PACKAGES} == {
        ROOT,
        *(path.parent for path in ROOT.glob("systems/*/pyproject.toml")),
    }


@pytest.mark.parametrize(
    ("line", "shown"),
    [
        ("Collecting click==8.5.1 (from -r requirements/run.txt (line 5))\n", "  click 8.5.1"),
        ("Installing collected packages: click, rich\n", "  unpacking 2 packages"),
        ("Prepared 20 packages in 271ms\n", "  prepared 20 packages in 271ms"),
        ("  Using cached click-8.5.1-py3-none-any.whl\n", None),
    ],
)
def test_progress_names_the_package_at_work(line: str, shown: str | None) -> None:
    assert progress_of(line) == shown


UV = """#!/bin/sh
echo "$*" >> {folder}/calls
case "$1" in
venv) mkdir -p .venv/bin; ln -s {python} .venv/bin/python ;;
*) echo "Installed 1 package in 1ms" ;;
esac
"""


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """An empty repository, and a uv that writes down its arguments."""
    (tmp_path / "requirements").mkdir()
    for lock in LOCKS.values():
        (tmp_path / lock).write_text("click==8.5.1 --hash=sha256:00\n")
    for path in PACKAGES:
        (tmp_path / path / "src").mkdir(parents=True)
    (tmp_path / "uv").write_text(UV.format(folder=tmp_path, python=sys.executable))
    (tmp_path / "uv").chmod(0o755)
    return tmp_path


def calls(clone: Path) -> list[str]:
    path = clone / "calls"
    found = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    path.unlink(missing_ok=True)
    return found


def test_uv_installs_the_lock_with_hashes_and_then_the_sources(clone: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Environment(clone, uv=str(clone / "uv")).set_up("run")
    created, lock, sources = calls(clone)
    assert created.startswith("venv ")
    assert "--require-hashes --requirement requirements/run.txt" in lock
    assert "--no-index --no-build-isolation --editable . --editable systems/machine" in sources
    assert (clone / ".venv/run.installed").exists()
    lines = capsys.readouterr().out.splitlines()
    assert all(re.match(r" +\d+\.\d s +\S", line) for line in lines), lines
    assert re.match(r" +\d+\.\d s  creating \.venv with Python 3\.", lines[0])
    assert lines[-1].endswith("the environment is ready")


def test_the_sources_are_compiled_so_that_the_first_start_is_as_fast_as_the_next(clone: Path) -> None:
    (clone / "examples").mkdir()
    sources = [clone / "examples", *(clone / path / "src" for path in PACKAGES)]
    for folder in sources:
        (folder / "module.py").write_text("LINE = 1\n")
    Environment(clone, uv=str(clone / "uv")).set_up("run")
    assert all("--compile-bytecode" in call for call in calls(clone) if call.startswith("pip "))
    assert [len(list(folder.glob("__pycache__/module.*.pyc"))) for folder in sources] == [1] * len(sources)


def test_the_tools_are_added_to_an_environment_that_is_kept(clone: Path) -> None:
    Environment(clone, uv=str(clone / "uv")).set_up("run")
    calls(clone)
    Environment(clone, uv=str(clone / "uv")).set_up("dev")
    (lock,) = calls(clone)
    assert lock.endswith("requirements/dev.txt")
    assert (clone / ".venv/dev.installed").exists()


def test_an_environment_whose_python_is_gone_is_created_again(clone: Path) -> None:
    (clone / ".venv/bin").mkdir(parents=True)
    (clone / ".venv/bin/python").symlink_to(clone / "gone")
    Environment(clone, uv=str(clone / "uv")).set_up("dev")
    assert [call.split()[0] for call in calls(clone)] == ["venv", "pip"]


def test_a_failing_installer_is_shown_with_its_output(clone: Path) -> None:
    (clone / "uv").write_text("#!/bin/sh\necho no route to the index >&2\nexit 1\n")
    with pytest.raises(StepFailed, match="no route to the index"):
        Environment(clone, uv=str(clone / "uv")).set_up("run")
    assert not (clone / ".venv/run.installed").exists()


def test_an_interrupted_installation_says_how_to_go_on_without_a_traceback(clone: Path) -> None:
    (clone / "scripts").mkdir()
    script = shutil.copy(ROOT / "scripts/environment.py", clone / "scripts")
    (clone / "uv").write_text('#!/bin/sh\n[ "$1" = venv ] && exit\nkill -INT $PPID\nexec sleep 5\n')
    (clone / ".venv/bin").mkdir(parents=True)
    (clone / ".venv/bin/python").symlink_to(sys.executable)
    environment = {**os.environ, "PATH": f"{clone}:{os.environ['PATH']}"}
    # A suite in the background of a shell ignores SIGINT, and so would what it starts.
    handled = "import runpy, signal, sys; signal.signal(signal.SIGINT, signal.default_int_handler); "
    handled += "sys.argv = sys.argv[1:]; runpy.run_path(sys.argv[0], run_name='__main__')"
    command = [sys.executable, "-c", handled, script, "run"]
    outcome = subprocess.run(command, env=environment, check=False, capture_output=True, text=True)
    assert (outcome.returncode, outcome.stderr) == (130, "interrupted; type make again to go on\n")


def test_the_pip_of_this_python_installs_into_an_environment_without_pip(
    clone: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PIP_NO_INDEX", "1")  # so that it fails, without a network, too
    with pytest.raises(StepFailed, match="pip --python"):
        Environment(clone, uv=None, host_pip=True).set_up("run")
    assert (clone / ".venv/bin/python").exists()
    assert not list(clone.glob(".venv/lib/python3*/site-packages/pip"))


def test_an_unknown_set_is_a_usage_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["all"]) == 2
    assert capsys.readouterr().err == "usage: scripts/environment.py run|dev\n"


def test_make_lock_without_uv_says_how_to_get_it(tmp_path: Path) -> None:
    (tmp_path / "dirname").symlink_to("/usr/bin/dirname")
    outcome = subprocess.run(
        ["/bin/sh", ROOT / "scripts/lock"],
        env={**os.environ, "PATH": str(tmp_path)},
        check=False,
        capture_output=True,
        text=True,
    )
    assert (outcome.returncode, outcome.stderr.startswith("make lock needs uv. Install it: pip install uv.")) == (
        2,
        True,
    )
