"""`levelset run` and `levelset completion`: output and usage errors."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from levelset.cli.commands import levelset
from levelset.cli.run import program_arguments
from tests.cli.fixtures.servers import NOWHERE


def invoke(*arguments: str) -> Result:
    return CliRunner().invoke(levelset, arguments, catch_exceptions=False)


@pytest.mark.parametrize(
    ("shell", "word"), [("bash", "complete -o"), ("zsh", "compdef"), ("fish", "complete --no-files")]
)
def test_completion_prints_the_script_of_a_shell(shell: str, word: str) -> None:
    result = invoke("completion", shell)
    assert result.exit_code == 0
    assert word in result.output
    assert "_LEVELSET_COMPLETE" in result.output


def complete(shell: str, words: list[str]) -> list[str]:
    """The completions for the last of the words."""
    code = "import sys; sys.argv = ['levelset']; import levelset.cli; levelset.cli.main()"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "_LEVELSET_COMPLETE": f"{shell}_complete"}
    environment["COMP_WORDS"] = " ".join(["levelset", *words])
    environment["COMP_CWORD"] = words[-1] if shell == "fish" else str(len(words))
    result = subprocess.run([sys.executable, "-c", code], env=environment, check=False, capture_output=True, text=True)
    return result.stdout.splitlines()


@pytest.mark.parametrize(
    ("shell", "commands", "options"),
    [
        ("bash", ["plain,install"], ["plain,--no-wait"]),
        ("zsh", ["plain", "install"], ["plain", "--no-wait"]),
        ("fish", ["plain,install"], ["plain,--no-wait"]),
    ],
)
def test_commands_and_options_are_completed(shell: str, commands: list[str], options: list[str]) -> None:
    def begin(lines: list[str], several: list[str]) -> bool:
        return all(any(line.startswith(one) for line in lines) for one in several)

    assert begin(complete(shell, ["inst"]), commands)
    assert begin(complete(shell, ["install", "--no"]), options)


def test_an_unknown_shell_is_refused_with_the_known_ones() -> None:
    result = invoke("completion", "tcsh")
    assert result.exit_code == 2
    assert "'bash', 'zsh', 'fish'" in result.stderr


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "Missing argument 'MODULE:CONTROLLERS...'"),
        (["no_such_module_here"], "there is no module no_such_module_here"),
        (["tests.cli.fixtures.operator:Site"], "has no Controllers; name one, as in tests.cli.fixtures.operator:NAME"),
        (["tests.cli.fixtures.operator:stranger", "--health", "x"], "--health x: must be a port"),
        (
            ["tests.cli.fixtures.operator:stranger", "--data", "a.db", "--port", "0"],
            "--data and --port: of the API server",
        ),
        (["--dashboard", "no_such_module_here"], "there is no module no_such_module_here"),
        (["tests.cli.fixtures.operator:stranger", "--kubeconfig", "/nowhere/at/all"], "/nowhere/at/all"),
    ],
)
def test_run_refuses_invalid_arguments(words: list[str], message: str) -> None:
    result = invoke("run", *words)
    assert result.exit_code == 2
    assert message in result.stderr


def test_run_stops_cleanly_while_the_server_is_unreachable(tmp_path: Path) -> None:
    (tmp_path / "nowhere").write_text(NOWHERE)
    argv = ["levelset", "run", "tests.cli.fixtures.operator:controllers", "--kubeconfig", str(tmp_path / "nowhere")]
    code = f"import sys; sys.argv = {argv!r}; import levelset.cli; levelset.cli.main()"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "LEVELSET_RUNTIME_DIR": str(tmp_path / "run")}
    with subprocess.Popen(
        [sys.executable, "-c", code], env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert any(line.startswith("watches") for line in process.stdout)
        process.send_signal(signal.SIGINT)
        _, message = process.communicate(timeout=120)
    assert (process.returncode, "Traceback" in message) == (0, False)


def test_the_options_become_arguments_of_the_program() -> None:
    options = {
        "local": True,
        "port": 8443,
        "log_json": False,
        "context": None,
        "namespace": ("shop", "bank"),
        "output": "text",
    }
    assert program_arguments(options) == [
        "--local",
        "--port",
        "8443",
        "--namespace",
        "shop",
        "--namespace",
        "bank",
        "--output",
        "text",
    ]
