"""`levelset top` shows queues, rates and errors of all managers, live or once."""

import asyncio
import io
import json
import os
import pty
import subprocess
import sys
import termios
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from click.testing import CliRunner, Result

from levelset import Context, GiveUp
from levelset.cli import live_view
from levelset.cli.live_view import Frame, moved, show_live, visible
from levelset.cli.output import table_lines
from levelset.cli.top import TopView, top
from levelset.runtime.manager import Manager
from levelset.runtime.manager.process_records import FOLDER_VARIABLE
from tests.client.fixtures import Website, website
from tests.runtime.manager.recording import open_server, websites


def controller(name: str, reconciles: int, **more: Any) -> dict[str, Any]:
    numbers = {"ready": 3, "delayed": 2, "running": 1, "workers": 4, "failing": 0, "errors": []}
    recent = {"reconciles": 1, "errors": 5, "median": 0.0123, "p95": None}
    return {"name": name, **numbers, "reconciles": reconciles, "last_minute": recent, **more}


def status(*controllers: dict[str, Any], pid: int = 7) -> dict[str, Any]:
    return {"pid": pid, "controllers": list(controllers)}


def test_rates_are_those_since_the_last_reading_and_the_busiest_comes_first() -> None:
    view = TopView()
    view.add([status(controller("slow", 10), controller("quick", 10))], 100.0)
    view.add([status(controller("slow", 11), controller("quick", 30))], 102.0)
    frame = view.add([status(controller("slow", 11), controller("quick", 20))], 104.0)
    assert [(one["name"], one["rates"]) for one in frame.value] == [("quick", [10.0, 0.0]), ("slow", [0.5, 0.0])]
    frame = view.add([status(controller("slow", 11), controller("quick", 24))], 106.0)
    assert frame.lines[1].split() == ["quick", "2.0", "█▁▂", "3", "0", "5", "1/4", "2", "12.3", "ms", "-", "7"]


def test_a_controller_that_is_gone_is_forgotten() -> None:
    view = TopView()
    view.add([status(controller("sites", 10))], 100.0)
    view.add([], 101.0)
    assert view.add([status(controller("sites", 90))], 102.0).value[0]["rates"] == []


def test_a_controller_with_failing_objects_comes_before_the_busiest() -> None:
    view = TopView()
    view.add([status(controller("quick", 10), controller("sick", 10, failing=1))], 100.0)
    frame = view.add([status(controller("quick", 30), controller("sick", 10, failing=1))], 102.0)
    assert [one["name"] for one in frame.value] == ["sick", "quick"]


def test_the_last_errors_of_all_managers_are_above_the_table_newest_first() -> None:
    errors = [
        {"at": f"2026-01-01T00:00:0{number}.000Z", "object": "Site/a", "error": "E", "next": "n"} for number in (1, 2)
    ]
    both = [status(controller("one", 1, errors=errors[:1])), status(controller("two", 1, errors=errors[1:]), pid=8)]
    lines = TopView().add(both, 1.0).lines
    assert lines[:3] == [*(f"fail {one['at']} Site/a: E (n)" for one in reversed(errors)), ""]


async def reconcile(site: Website, _: Context) -> None:
    if site.name == "bad":
        raise GiveUp("cannot be served")


async def test_without_a_terminal_it_prints_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(FOLDER_VARIABLE, str(tmp_path / "runtime"))

    def invoke(*words: str) -> Result:
        return CliRunner().invoke(top, ["--every", "0.1", *words], catch_exceptions=False)

    async with open_server() as server, Manager(server, admin=True) as manager:
        manager.add(websites(reconcile))
        for name in ("blog", "bad"):
            await manager.client.create(website(name))
        await manager.wait_idle()
        shown = await asyncio.to_thread(invoke)
        (found,) = json.loads((await asyncio.to_thread(invoke, "-o", "json")).output)
    lines = shown.output.splitlines()
    assert "Website/default/bad: GiveUp: cannot be served" in lines[0]
    assert lines[2].split()[:2] == ["CONTROLLER", "RATE/S"]
    assert (lines[3].split()[:2], lines[3].split()[-1]) == (["websites", "0.0"], str(os.getpid()))
    assert (found["last_minute"]["reconciles"], found["last_minute"]["errors"]) == (2, 1)
    assert 0 < found["last_minute"]["median"] <= found["last_minute"]["p95"]


class Terminal(io.StringIO):
    """A fake terminal."""

    def isatty(self) -> bool:
        return True


def test_on_a_terminal_it_is_drawn_on_a_screen_of_its_own_which_is_left_at_the_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def stop(_: float) -> None:
        raise KeyboardInterrupt

    screen = Terminal()
    monkeypatch.setattr(live_view, "time", SimpleNamespace(sleep=stop))
    monkeypatch.setattr("sys.stdout", screen)
    monkeypatch.setenv("TERM", "xterm-256color")
    show_live(lambda: Frame(None, ["some [bold] line"]), every=2.0, output="text")
    drawn = screen.getvalue()
    assert drawn.startswith("\x1b[?1049h")
    assert "some [bold] line" in drawn  # no markup of the library
    assert "every 2 s; Ctrl-C ends it" in drawn
    assert "\x1b[?1049l" in drawn


def test_a_view_that_is_longer_than_the_screen_scrolls_and_says_so() -> None:
    lines = [str(number) for number in range(50)]
    assert visible(lines[:10], 0, 10) == lines[:10]
    shown = visible(lines, 20, 10)
    assert shown[:9] == lines[20:29]
    assert "lines 21 to 29 of 50" in shown[9]
    assert [moved(0, key, 50, 10) for key in ("j", "k", "\x1b[B", " ", "G", "x", "")] == [1, 0, 1, 8, 41, 0, 0]
    assert [moved(41, key, 50, 10) for key in ("j", "k", "b", "g")] == [41, 40, 33, 0]
    assert visible(lines, moved(0, "G", 50, 10), 10)[-2] == "49"
    assert moved(30, "", 5, 10) == 0  # the view has become shorter


def test_the_head_of_a_table_stays_while_its_lines_scroll() -> None:
    table = table_lines(("NAME", "AGE"), [(f"one-{number}", number) for number in range(20)])
    lines = ["process 7", *table, "", "20 watches are synced"]
    assert visible(lines, 0, 10)[:3] == ["process 7", "NAME     AGE", "one-0    0"]
    assert visible(lines, 1, 10)[:2] == ["NAME     AGE", "one-0    0"]
    assert visible(lines, 5, 10)[:2] == ["NAME     AGE", "one-4    4"]
    assert visible(lines, len(lines) - 2, 10)[:2] == ["", "20 watches are synced"]


def test_a_key_ends_the_view_and_the_terminal_is_as_before(tmp_path: Path) -> None:
    """In a terminal of its own: what rich writes to it, and what it reads from it."""
    program = tmp_path / "view.py"
    program.write_text(
        "from levelset.cli.live_view import Frame, show_live\n"
        "show_live(lambda: Frame(None, [f'row {n}' for n in range(99)]), every=60, output='text')\n"
        "print('ended')\n",
        encoding="utf-8",
    )
    number, theirs = pty.openpty()
    before = termios.tcgetattr(theirs)
    environment = {
        **os.environ,
        "TERM": "xterm-256color",
        "LINES": "24",
        "COLUMNS": "80",
        "PYTHONPATH": os.pathsep.join(sys.path),
    }
    with subprocess.Popen(
        [sys.executable, str(program)], stdin=theirs, stdout=theirs, stderr=theirs, env=environment
    ) as process:
        shown = read_terminal(number, b"row 1")
        assert b"of 99" in shown
        os.write(number, b"G")
        read_terminal(number, b"row 98")
        os.write(number, b"q")
        read_terminal(number, b"ended")
        assert process.wait(60) == 0
    assert termios.tcgetattr(theirs) == before
    os.close(theirs)
    os.close(number)


def read_terminal(number: int, until: bytes) -> bytes:
    found = b""
    while until not in found:
        found += os.read(number, 4096)
    return found
