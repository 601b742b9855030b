"""The progress line of long operations, only on a terminal."""

import asyncio
import contextlib
import os
import pty
import signal
import subprocess
import sys
from collections.abc import AsyncGenerator
from pathlib import Path

import click
import pytest

from levelset.apiserver.kubeconfig_file import ConnectionInfo, write_kubeconfig
from levelset.cli import output
from levelset.cli.commands import levelset
from levelset.cli.output import progress
from levelset.runtime.manager.process_records import FOLDER_VARIABLE, ProcessRecord, write_record
from tests.cli.fixtures.servers import NOWHERE
from tests.cli.fixtures.terminals import Screen, wait_for


def test_progress_is_shown_with_its_time_and_erased_afterwards(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = Screen(is_terminal=True)
    monkeypatch.setattr(sys, "stderr", screen)
    with progress("1 of 2: waiting for the server", after=0.001):
        wait_for(screen, "(0s)")
    assert "\r\x1b[K1 of 2: waiting for the server (0s)" in screen.getvalue()
    assert screen.getvalue().endswith("\r\x1b[K")


def test_quick_operations_and_files_show_no_progress(monkeypatch: pytest.MonkeyPatch) -> None:
    for screen in (Screen(is_terminal=True), Screen(is_terminal=False)):
        monkeypatch.setattr(sys, "stderr", screen)
        with progress("nothing", after=60 if screen.isatty() else 0):
            pass
        assert screen.getvalue() == ""


def test_a_function_returns_the_current_text(monkeypatch: pytest.MonkeyPatch) -> None:
    screen, busy = Screen(is_terminal=True), ["first"]
    monkeypatch.setattr(sys, "stderr", screen)
    with progress(lambda: busy[-1], after=0.001):
        wait_for(screen, "first (0s)")
        busy.append("second")
        wait_for(screen, "second (0s)")


def test_a_long_line_is_truncated_so_that_it_can_be_erased(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = Screen(is_terminal=True)
    monkeypatch.setattr(sys, "stderr", screen)
    monkeypatch.setenv("COLUMNS", "20")
    with progress("waiting for something with a long name", after=0.001):
        wait_for(screen, "(0s)")
    assert "\r\x1b[Kwaiting for s… (0s)\r" in screen.getvalue()


def test_json_output_shows_no_progress_even_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = Screen(is_terminal=True)
    monkeypatch.setattr(sys, "stderr", screen)
    with progress("nothing", output="json", after=0):
        pass
    assert screen.getvalue() == ""


@contextlib.asynccontextmanager
async def slow_server(screen: Screen, text: str, folder: Path) -> AsyncGenerator[str, None]:
    """A server that responds 401 once this text is on the screen; it is registered as a manager too."""

    async def respond(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await asyncio.to_thread(wait_for, screen, text)
        writer.write(b"HTTP/1.1 401 Unauthorized\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
        await writer.drain()
        writer.close()

    async with await asyncio.start_server(respond, "127.0.0.1", 0) as server:
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        path = folder / "slow"
        await asyncio.to_thread(write_kubeconfig, path, ConnectionInfo(url, "t", None))
        await asyncio.to_thread(write_record, ProcessRecord(pid=os.getpid(), url=url, token="t"))
        yield str(path)


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["install", "-f", "{folder}/a.yaml"], "1 of 1: applying ConfigMap/a (0s)"),
        (["uninstall", "-f", "{folder}/a.yaml"], "1 of 1: waiting until ConfigMap/a is deleted (0s)"),
        (["doctor"], "checking the cluster (0s)"),
        (["generate", "models", "--group", "apps/v1"], "reading from the cluster: apps/v1 (0s)"),
        (["compact"], "waiting for the server at http://127.0.0.1:"),
        (["status"], "waiting for the manager of process "),
        (["why", "site/a"], "waiting for the manager of process "),
        (["trigger", "site/a"], "waiting for the manager of process "),
    ],
    ids=["install", "uninstall", "doctor", "generate models", "compact", "status", "why", "trigger"],
)
async def test_a_command_shows_what_it_waits_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: list[str], text: str
) -> None:
    screen = Screen(is_terminal=True)
    monkeypatch.setattr(sys, "stderr", screen)
    monkeypatch.setattr(output, "PROGRESS_DELAY", 0.001)
    monkeypatch.setenv(FOLDER_VARIABLE, str(tmp_path / "runtime"))
    await asyncio.to_thread((tmp_path / "a.yaml").write_text, "{apiVersion: v1, kind: ConfigMap, metadata: {name: a}}")
    async with slow_server(screen, text, tmp_path) as path:
        given = [one.format(folder=tmp_path) for one in words]
        given += [] if words[0] in {"status", "why", "trigger"} else ["--kubeconfig", path]
        with contextlib.suppress(click.ClickException, SystemExit):
            await asyncio.to_thread(levelset.main, given, standalone_mode=False)
    assert text in screen.getvalue()


def test_run_shows_the_caches_it_waits_for(tmp_path: Path) -> None:
    (tmp_path / "nowhere").write_text(NOWHERE)
    argv = ["levelset", "run", "tests.cli.fixtures.operator:stranger", "--kubeconfig", str(tmp_path / "nowhere")]
    code = f"import sys; sys.argv = {argv!r}; import levelset.cli; levelset.cli.main()"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), FOLDER_VARIABLE: str(tmp_path / "run")}
    mine, theirs = pty.openpty()
    with subprocess.Popen([sys.executable, "-c", code], env=environment, stdout=theirs, stderr=theirs) as process:
        os.close(theirs)
        shown = b""
        while b"waiting for the caches of strangers (" not in shown:  # uvloop's timers are early by up to a millisecond
            shown += os.read(mine, 1000)
        process.send_signal(signal.SIGINT)
        with contextlib.suppress(OSError):  # the other end is closed
            while os.read(mine, 1000):
                pass
        assert process.wait(timeout=120) == 0
    os.close(mine)
