"""The dashboard on the command line: the `--dashboard` option of `up` and `run`, and `levelset dashboard`."""

import json
import signal
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from levelset.cli.commands import levelset
from tests.cli.test_dev import ENVIRONMENT, START, Process
from tests.dashboard.fixtures import write_crafted


@contextmanager
def command(argv: Sequence[str], folder: Path) -> Generator[Process, None, None]:
    """A command that runs until the block is left, and then ends by itself."""
    environment = {**ENVIRONMENT, "LEVELSET_RUNTIME_DIR": str(folder / "runtime")}
    line = [sys.executable, "-c", START.format(argv=[*argv])]
    with subprocess.Popen(
        line, cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            yield Process(process)
            process.send_signal(signal.SIGTERM)
            assert process.wait(timeout=120) == 0
        finally:
            process.kill()


def invoke(*words: str) -> Result:
    return CliRunner().invoke(levelset, words, catch_exceptions=False)


@pytest.mark.parametrize("value", ["yes", "65536", "1e3", "", "\u0663", "999999999999"])
def test_an_invalid_port_is_refused_with_a_hint(value: str) -> None:
    result = invoke("up", "tests.cli.fixtures.operator:stranger", f"--dashboard={value}")
    assert result.exit_code == 2
    assert "expected a port up to 65535, 0 for any free one, or no" in result.stderr


def test_a_port_in_use_is_refused_at_the_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        result = invoke("up", "tests.cli.fixtures.operator:stranger", f"--dashboard={port}")
    assert result.exit_code == 2
    assert f"Port {port} on 127.0.0.1 is in use" in result.stderr
    assert not list(tmp_path.iterdir())


def test_any_cluster_has_a_dashboard(tmp_path: Path) -> None:
    kubeconfig = tmp_path / "kubeconfig"
    server = ["levelset", "serve", "--kubeconfig", str(kubeconfig), "--port", "0"]
    with command(server, tmp_path) as served:
        served.until("kubeconfig")
        argv = ["levelset", "dashboard", "--kubeconfig", str(kubeconfig), "--dashboard-actions"]
        with command(argv, tmp_path) as process:
            url = process.until("dashboard ")[-1].split()[1]
            opener = urllib.request.build_opener(urllib.request.HTTPCookieProcessor())
            base = opener.open(url).geturl().partition("?")[0]
            kinds = {one["kind"]: one["count"] for one in json.load(opener.open(f"{base}api/kinds"))["kinds"]}
            assert json.load(opener.open(f"{base}api/problems"))["total"] == 0
            assert json.load(opener.open(f"{base}api/status"))["hasActions"] is True
    assert kinds["v1/Namespace"] >= 4


def test_the_managers_of_a_cluster_are_shown_whatever_process_they_are_in(tmp_path: Path) -> None:
    kubeconfig = str(tmp_path / "kubeconfig")
    (tmp_path / "pages.py").write_text(_PAGES)
    with command(["levelset", "serve", "--kubeconfig", kubeconfig, "--port", "0"], tmp_path) as served:
        served.until("kubeconfig")
        manager = ["levelset", "run", "pages.py", "--kubeconfig", kubeconfig, "-o", "json"]
        board = ["levelset", "dashboard", "--kubeconfig", kubeconfig, "-o", "json"]
        elsewhere = ["levelset", "run", "pages.py", "--local", "-o", "json"]
        with command(manager, tmp_path) as running, command(elsewhere, tmp_path) as other:
            running.until("watches")
            other.until("watches")
            with command(board, tmp_path) as process:
                url = json.loads(process.until("dashboard")[-1])["dashboard"]
                opener = urllib.request.build_opener(urllib.request.HTTPCookieProcessor())
                base = opener.open(url).geturl().partition("?")[0]
                status = json.load(opener.open(f"{base}api/status"))
                problems = json.load(opener.open(f"{base}api/problems"))["problems"]
                query = "kind=v1/Namespace&name=kube-system"
                timeline = json.load(opener.open(f"{base}api/object?{query}"))["reconciles"]
    (found,) = status["managers"]  # not the one of another server
    assert [(one["name"], one["manager"]) for one in status["controllers"]] == [
        ("pages", found["name"].partition(" (")[0])
    ]
    assert [(one["object"]["name"], one["message"]) for one in problems] == [("kube-system", "RuntimeError: not mine")]
    assert timeline[-1]["reasons"] == ["it was there at the start"]


_PAGES = """
from levelset import Controller
from levelset.kinds.core_v1 import Namespace


async def reconcile(one: Namespace, ctx):
    if one.name == "kube-system":
        raise RuntimeError("not mine")


pages = Controller(Namespace, reconcile, name="pages")
"""


def test_a_cluster_that_cannot_be_reached_is_an_error(tmp_path: Path) -> None:
    result = invoke("dashboard", "--kubeconfig", str(tmp_path / "nothing"))
    assert result.exit_code != 0
    assert "nothing" in result.stderr


def test_files_of_past_runs_need_no_cluster(tmp_path: Path) -> None:
    write_crafted(tmp_path / "run.levelset", "x")
    with command(["levelset", "dashboard", "run.levelset", "-o", "json"], tmp_path) as process:
        facts = json.loads(process.until("dashboard")[-1])
        assert facts.keys() == {"dashboard"}
        url, _, place = facts["dashboard"].partition("#")
        assert place == "/runs"
        opener = urllib.request.build_opener(urllib.request.HTTPCookieProcessor())
        base = opener.open(url).geturl().partition("?")[0]
        with opener.open(f"{base}api/run?number=0") as response:
            assert json.load(response)["count"] == 5


def test_a_file_that_is_not_there_is_a_usage_error() -> None:
    result = invoke("dashboard", "nothing.levelset")
    assert (result.exit_code, result.stderr[:34]) == (2, "there is no file nothing.levelset;")
