"""Whole programs, as processes of their own."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import levelset

# The package that is tested, whatever is installed.
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(Path(levelset.__file__).parents[1])}
PROGRAM = '''
import asyncio
from levelset import Controller, Resource, Spec, run

class GoodSpec(Spec):
    price: int = 0

class Good(Resource[GoodSpec, None], api="trade.example.dev/v1"):
    """Something to sell."""

async def sell(good, ctx):
    print("sells", good.name, flush=True)
    await asyncio.sleep({seconds})
    print("sold", good.name, flush=True)

def setup(manager):
    async def offer():
        await manager.client.create(Good.new("tea", GoodSpec()))
        {after}
    manager.add_task("offer", offer)

run(Controller(Good, sell), setup=setup, grace=60{more})
'''


def write(path: Path, *, seconds: float = 0, after: str = "pass", more: str = "") -> Path:
    program = path / "program.py"
    program.write_text(PROGRAM.format(seconds=seconds, after=after, more=more), encoding="utf-8")
    return program


@contextmanager
def started(program: Path, *words: str) -> Iterator["subprocess.Popen[str]"]:
    command = [sys.executable, "-W", "error", str(program), *words]
    with subprocess.Popen(
        command, cwd=program.parent, env=ENVIRONMENT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        yield process


def read_until(process: "subprocess.Popen[str]", *words: str) -> str:
    """What the process says until each of these words has come; fails if it ends before."""
    assert process.stdout is not None
    said = ""
    while not all(word in said for word in words):
        line = process.stdout.readline()
        assert line, f"it has ended: {said}{process.stderr and process.stderr.read()}"
        said += line
    return said


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_program_says_what_it_watches_and_when_it_is_ready_and_a_signal_ends_it(tmp_path, number):
    with started(write(tmp_path, more=", local=True")) as process:
        said = read_until(process, "ready in", "sold tea", "kubectl --kubeconfig")
        assert "watches     Good (trade.example.dev/v1)\n" in said
        assert "serves      goods.trade.example.dev\n" in said
        assert (tmp_path / "levelset.kubeconfig").exists()
        process.send_signal(number)
        assert process.wait() == 0
    assert not (tmp_path / "levelset.kubeconfig").exists()


def test_a_first_signal_lets_what_is_under_way_finish(tmp_path):
    with started(write(tmp_path, seconds=0.5), "--local") as process:
        read_until(process, "sells tea")
        process.send_signal(signal.SIGTERM)
        assert "sold tea" in process.communicate()[0]
        assert process.returncode == 0


def test_a_second_signal_ends_it_at_once(tmp_path):
    with started(write(tmp_path, seconds=1000), "--local") as process:
        read_until(process, "sells tea")
        process.send_signal(signal.SIGTERM)
        assert process.stderr is not None
        while "stops when" not in process.stderr.readline():
            pass
        process.send_signal(signal.SIGTERM)
        assert "ended at once" in process.communicate()[1]
        assert process.returncode == 128 + signal.SIGTERM


def test_something_that_fails_ends_it_with_exit_code_one_and_the_error(tmp_path):
    with started(write(tmp_path, after='raise ValueError("no tea")'), "--local") as process:
        said = process.communicate()[1]
    assert process.returncode == 1
    assert "ValueError: no tea" in said


def test_a_program_that_is_told_nonsense_does_not_begin(tmp_path):
    with started(write(tmp_path), "--loacl") as process:
        said = process.communicate()[1]
    assert process.returncode == 2
    assert said.startswith("--loacl is not understood here")


def test_a_program_without_a_cluster_says_where_it_has_looked(tmp_path):
    with started(write(tmp_path), "--kubeconfig", str(tmp_path / "none")) as process:
        said = process.communicate()[1]
    assert process.returncode == 2
    assert str(tmp_path / "none") in said
    assert "Traceback" not in said


def test_logs_are_json_for_machines(tmp_path):
    with started(write(tmp_path, seconds=0.2), "--local", "--log-json", "--health", "0") as process:
        said = read_until(process, "ready in", "health      http://127.0.0.1:")
        assert "metrics" not in said
        process.send_signal(signal.SIGINT)
        lines = [json.loads(line) for line in process.communicate()[1].splitlines()]
    assert any(line["logger"] == "levelset.runtime.manager" and "stops when" in line["message"] for line in lines)


def test_help_tells_the_words(tmp_path):
    with started(write(tmp_path), "--help") as process:
        said = process.communicate()[0]
    assert process.returncode == 0
    assert "runs goods" in said
    assert "--kubeconfig PATH" in said


LOOPS = """
import asyncio

class Loop(asyncio.SelectorEventLoop):
    pass

def new_event_loop():
    return Loop()
"""
NONE = 'raise ImportError("there is none")'


@pytest.mark.parametrize(("uvloop", "is_used"), [(LOOPS, True), (NONE, False)], ids=["installed", "not installed"])
def test_the_loop_of_uvloop_is_used_if_there_is_one_and_nothing_is_said_if_not(tmp_path, uvloop, is_used):
    (tmp_path / "uvloop.py").write_text(uvloop, encoding="utf-8")
    after = 'print("loop", type(asyncio.get_running_loop()).__module__, flush=True)'
    with started(write(tmp_path, after=after, more=", local=True")) as process:
        said = read_until(process, "loop ", "sold tea")
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=10) == 0
    assert ("loop uvloop" in said) is is_used
    assert "ImportError" not in said
