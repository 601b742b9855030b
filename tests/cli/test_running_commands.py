"""`levelset run` and `levelset completion`: what they print, and what they say on wrong input."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from levelset.cli.commands import levelset
from tests.cli.servers import NOWHERE


def invoke(*arguments: str) -> Result:
    return CliRunner().invoke(levelset, arguments, catch_exceptions=False)


@pytest.mark.parametrize(
    ("shell", "word"), [("bash", "complete -o"), ("zsh", "compdef"), ("fish", "complete --no-files")]
)
def test_completion_prints_what_a_shell_reads(shell: str, word: str) -> None:
    told = invoke("completion", shell)
    assert told.exit_code == 0
    assert word in told.output
    assert "_LEVELSET_COMPLETE" in told.output


def complete(shell: str, words: list[str]) -> list[str]:
    """What the shell is offered for the last of the words."""
    code = "import sys; sys.argv = ['levelset']; import levelset.cli; levelset.cli.main()"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "_LEVELSET_COMPLETE": f"{shell}_complete"}
    environment["COMP_WORDS"] = " ".join(["levelset", *words])
    environment["COMP_CWORD"] = words[-1] if shell == "fish" else str(len(words))
    told = subprocess.run([sys.executable, "-c", code], env=environment, check=False, capture_output=True, text=True)
    return told.stdout.splitlines()


@pytest.mark.parametrize(
    ("shell", "commands", "options"),
    [
        ("bash", ["plain,install"], ["plain,--no-wait"]),
        ("zsh", ["plain", "install"], ["plain", "--no-wait"]),
        ("fish", ["plain,install"], ["plain,--no-wait"]),
    ],
)
def test_a_shell_is_offered_commands_and_options(shell: str, commands: list[str], options: list[str]) -> None:
    def begin(lines: list[str], several: list[str]) -> bool:
        return all(any(line.startswith(one) for line in lines) for one in several)

    assert begin(complete(shell, ["inst"]), commands)
    assert begin(complete(shell, ["install", "--no"]), options)


def test_a_shell_that_is_not_known_is_refused_with_those_that_are() -> None:
    told = invoke("completion", "tcsh")
    assert told.exit_code == 2
    assert "'bash', 'zsh', 'fish'" in told.stderr


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "Missing argument 'MODULE:CONTROLLERS...'"),
        (["no_such_module_here"], "there is no module no_such_module_here"),
        (["tests.cli.operator:Site"], "holds no Controllers; name one, as in tests.cli.operator:NAME"),
        (["tests.cli.operator:stranger", "--health", "x"], "--health x: give a port"),
        (["tests.cli.operator:stranger", "--kubeconfig", "/nowhere/at/all"], "/nowhere/at/all"),
    ],
)
def test_run_refuses_what_it_cannot_begin_with(words: list[str], said: str) -> None:
    told = invoke("run", *words)
    assert told.exit_code == 2
    assert said in told.stderr


def test_run_ends_without_a_complaint_when_it_is_told_to_while_the_server_is_away(tmp_path: Path) -> None:
    (tmp_path / "nowhere").write_text(NOWHERE)
    argv = ["levelset", "run", "tests.cli.operator:controllers", "--kubeconfig", str(tmp_path / "nowhere")]
    code = f"import sys; sys.argv = {argv!r}; import levelset.cli; levelset.cli.main()"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "LEVELSET_RUNTIME_DIR": str(tmp_path / "run")}
    with subprocess.Popen(
        [sys.executable, "-c", code], env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline().startswith("watches")
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=15)
    assert (process.returncode, "Traceback" in said) == (0, False)
