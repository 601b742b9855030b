"""`levelset envtest`: the programs for envtest, and the environment of a command."""

import json
import os
import shlex
import signal
import socket
import ssl
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from levelset.apiserver.envtest.envtest_assets import api_server_script, default_folder
from levelset.cli.commands import levelset


def invoke(*arguments: str) -> Result:
    return CliRunner().invoke(levelset, ["envtest", *arguments], catch_exceptions=False)


def test_it_prints_the_line_for_the_shell_or_the_folder(tmp_path: Path) -> None:
    folder = tmp_path / "my assets"
    assert invoke("--folder", str(folder)).output == f"export KUBEBUILDER_ASSETS={shlex.quote(str(folder))}\n"
    assert invoke("--folder", str(folder), "--path").output == f"{folder}\n"
    assert json.loads(invoke("--folder", str(folder), "-o", "json").output) == {"KUBEBUILDER_ASSETS": str(folder)}
    assert {one.name for one in folder.iterdir()} - {"kubectl"} == {"etcd", "kube-apiserver"}
    assert all(os.access(folder / name, os.X_OK) for name in ("etcd", "kube-apiserver"))


def test_the_default_folder_is_in_the_cache_one_for_each_interpreter(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert Path(invoke("--path").output.strip()).parent == tmp_path / "levelset" / "envtest"
    found = {default_folder("/a"), default_folder("/b"), default_folder("/a", controllers=True)}
    assert len(found) == 3


def test_it_runs_a_command_with_the_variable_set_and_its_exit_code(tmp_path: Path) -> None:
    code = "from levelset.cli.main import main; main()"
    command = [sys.executable, "-c", code, "envtest", "--folder", str(tmp_path), "sh", "-c"]
    done = subprocess.run(
        [*command, 'echo "$KUBEBUILDER_ASSETS"; exit 7'], capture_output=True, text=True, timeout=20, check=False
    )
    assert (done.stdout, done.returncode) == (f"{tmp_path}\n", 7)


def test_a_command_that_is_not_there_is_a_usage_error(tmp_path: Path) -> None:
    outcome = invoke("--folder", str(tmp_path), "no-such-program", "-v")
    assert (outcome.exit_code, "no-such-program is not on PATH" in outcome.stderr) == (2, True)


def test_a_folder_that_cannot_be_written_is_a_usage_error(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    outcome = invoke("--folder", str(tmp_path / "file"))
    assert (outcome.exit_code, "choose another --folder" in outcome.stderr) == (2, True)


def test_with_controllers_the_server_gets_a_flag_of_ours() -> None:
    assert "--levelset-controllers" not in api_server_script("python")
    assert api_server_script("python", controllers=True).rstrip().endswith(' --levelset-controllers "$@"')


def test_the_programs_are_healthy_as_envtest_waits_for_and_end_with_a_signal(tmp_path: Path) -> None:
    invoke("--folder", str(tmp_path))
    helped = subprocess.run([tmp_path / "kube-apiserver", "--help"], capture_output=True, text=True, check=True).stdout
    assert "      --secure-port" in helped
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [str(tmp_path / "kube-apiserver"), f"--secure-port={port}", f"--cert-dir={tmp_path / 'certificates'}"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert wait_healthy(f"https://127.0.0.1:{port}/healthz", process) == b"ok"
            process.send_signal(signal.SIGTERM)
            assert process.wait(10) == 0
        finally:
            process.kill()


def wait_healthy(url: str, process: "subprocess.Popen[str]") -> bytes:
    """Sends the request until there is an answer, as envtest does."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    while process.poll() is None:
        try:
            with urllib.request.urlopen(url, timeout=5, context=context) as answer:
                return bytes(answer.read())
        except urllib.error.URLError:
            os.sched_yield()
    raise AssertionError(process.communicate()[1])
