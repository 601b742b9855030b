"""What takes long is told to whoever sits at a terminal, and to nobody else."""

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

from levelset.apiserver.kubeconfig_file import Contact, write_kubeconfig
from levelset.cli import output
from levelset.cli.commands import levelset
from levelset.cli.output import working
from levelset.runtime.manager.process_records import FOLDER_VARIABLE, Record, write_record
from tests.cli.screens import Screen, wait_for
from tests.cli.servers import NOWHERE


def test_a_wait_is_told_with_its_time_and_wiped_out_afterwards(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = Screen(is_terminal=True)
    monkeypatch.setattr(sys, "stderr", screen)
    with working("1 of 2: waits for the server", after=0.001):
        wait_for(screen, "(0s)")
    assert "\r\x1b[K1 of 2: waits for the server (0s)" in screen.getvalue()
    assert screen.getvalue().endswith("\r\x1b[K")


def test_what_is_quick_says_nothing_and_a_file_is_told_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    for screen in (Screen(is_terminal=True), Screen(is_terminal=False)):
        monkeypatch.setattr(sys, "stderr", screen)
        with working("nothing", after=60 if screen.isatty() else 0):
            pass
        assert screen.getvalue() == ""


def test_a_function_says_what_it_is_at_that_moment(monkeypatch: pytest.MonkeyPatch) -> None:
    screen, busy = Screen(is_terminal=True), ["first"]
    monkeypatch.setattr(sys, "stderr", screen)
    with working(lambda: busy[-1], after=0.001):
        wait_for(screen, "first (0s)")
        busy.append("second")
        wait_for(screen, "second (0s)")


def test_what_is_too_long_for_the_screen_is_cut_so_that_it_can_be_wiped_out(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = Screen(is_terminal=True)
    monkeypatch.setattr(sys, "stderr", screen)
    monkeypatch.setenv("COLUMNS", "20")
    with working("waits for something with a long name", after=0.001):
        wait_for(screen, "(0s)")
    assert "\r\x1b[Kwaits for som… (0s)\r" in screen.getvalue()


def test_a_program_that_reads_json_is_told_nothing_even_at_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = Screen(is_terminal=True)
    monkeypatch.setattr(sys, "stderr", screen)
    with working("nothing", output="json", after=0):
        pass
    assert screen.getvalue() == ""


@contextlib.asynccontextmanager
async def slow_server(screen: Screen, text: str, folder: Path) -> AsyncGenerator[str, None]:
    """A server that refuses everybody, but not before this text is on the screen; it is the manager's, too."""

    async def answer(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await asyncio.to_thread(wait_for, screen, text)
        writer.write(b"HTTP/1.1 401 Unauthorized\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
        await writer.drain()
        writer.close()

    async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        path = folder / "slow"
        await asyncio.to_thread(write_kubeconfig, path, Contact(url, "t", None))
        await asyncio.to_thread(write_record, Record(pid=os.getpid(), url=url, token="t"))
        yield str(path)


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["install", "-f", "{folder}/a.yaml"], "1 of 1: applies ConfigMap/a (0s)"),
        (["uninstall", "-f", "{folder}/a.yaml"], "1 of 1: waits until ConfigMap/a is gone (0s)"),
        (["doctor"], "asks the cluster (0s)"),
        (["generate", "models", "--group", "apps/v1"], "asks the cluster for apps/v1 (0s)"),
        (["compact"], "waits for the server at http://127.0.0.1:"),
        (["status"], "waits for the manager of process "),
        (["why", "site/a"], "waits for the manager of process "),
        (["trigger", "site/a"], "waits for the manager of process "),
    ],
    ids=["install", "uninstall", "doctor", "generate models", "compact", "status", "why", "trigger"],
)
async def test_a_command_says_what_it_waits_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: list[str], text: str
) -> None:
    screen = Screen(is_terminal=True)
    monkeypatch.setattr(sys, "stderr", screen)
    monkeypatch.setattr(output, "PATIENCE", 0.001)
    monkeypatch.setenv(FOLDER_VARIABLE, str(tmp_path / "runtime"))
    await asyncio.to_thread((tmp_path / "a.yaml").write_text, "{apiVersion: v1, kind: ConfigMap, metadata: {name: a}}")
    async with slow_server(screen, text, tmp_path) as path:
        given = [one.format(folder=tmp_path) for one in words]
        given += [] if words[0] in {"status", "why", "trigger"} else ["--kubeconfig", path]
        with contextlib.suppress(click.ClickException, SystemExit):
            await asyncio.to_thread(levelset.main, given, standalone_mode=False)
    assert text in screen.getvalue()


def test_run_says_at_a_terminal_which_lists_it_waits_for(tmp_path: Path) -> None:
    (tmp_path / "nowhere").write_text(NOWHERE)
    argv = ["levelset", "run", "tests.cli.operator:stranger", "--kubeconfig", str(tmp_path / "nowhere")]
    code = f"import sys; sys.argv = {argv!r}; import levelset.cli; levelset.cli.main()"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), FOLDER_VARIABLE: str(tmp_path / "run")}
    mine, theirs = pty.openpty()
    with subprocess.Popen([sys.executable, "-c", code], env=environment, stdout=theirs, stderr=theirs) as process:
        os.close(theirs)
        shown = b""
        while b"waits for the first lists of strangers (1s)" not in shown:
            shown += os.read(mine, 1000)
        process.send_signal(signal.SIGINT)
        with contextlib.suppress(OSError):  # the other end is closed
            while os.read(mine, 1000):
                pass
        assert process.wait(timeout=15) == 0
    os.close(mine)
