"""Whole programs, as processes of their own."""

import json
import os
import signal
import subprocess
import sys
import time
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
    """The output of the process until it contains each of these words; fails if the process ends first."""
    assert process.stdout is not None
    output = ""
    while not all(word in output for word in words):
        line = process.stdout.readline()
        assert line, f"it has ended: {output}{process.stderr and process.stderr.read()}"
        output += line
    return output


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_program_prints_what_it_watches_and_when_it_is_ready_and_stops_on_a_signal(tmp_path, number):
    with started(write(tmp_path, more=", local=True")) as process:
        output = read_until(process, "ready in", "sold tea", "kubectl --kubeconfig")
        assert "watches     Good (trade.example.dev/v1)\n" in output
        assert "serves      goods.trade.example.dev\n" in output
        assert (tmp_path / "levelset.kubeconfig").exists()
        process.send_signal(number)
        assert process.wait() == 0
    assert not (tmp_path / "levelset.kubeconfig").exists()


def test_a_first_signal_lets_running_reconciles_finish(tmp_path):
    with started(write(tmp_path, seconds=0.5), "--local") as process:
        read_until(process, "sells tea")
        process.send_signal(signal.SIGTERM)
        assert "sold tea" in process.communicate()[0]
        assert process.returncode == 0


def test_a_second_signal_stops_at_once(tmp_path):
    with started(write(tmp_path, seconds=1000), "--local") as process:
        read_until(process, "sells tea")
        process.send_signal(signal.SIGTERM)
        assert process.stderr is not None
        while "shutting down gracefully" not in process.stderr.readline():
            pass
        process.send_signal(signal.SIGTERM)
        assert "stopped immediately" in process.communicate()[1]
        assert process.returncode == 128 + signal.SIGTERM


def test_a_failure_stops_the_program_with_exit_code_one(tmp_path):
    with started(write(tmp_path, after='raise ValueError("no tea")'), "--local") as process:
        output = process.communicate()[1]
    assert process.returncode == 1
    assert "ValueError: no tea" in output


def test_a_program_with_an_unknown_option_does_not_start(tmp_path):
    with started(write(tmp_path), "--loacl") as process:
        output = process.communicate()[1]
    assert process.returncode == 2
    assert output.startswith("unknown option --loacl")


def test_a_program_without_a_cluster_names_the_configs_it_tried(tmp_path):
    with started(write(tmp_path), "--kubeconfig", str(tmp_path / "none")) as process:
        output = process.communicate()[1]
    assert process.returncode == 2
    assert str(tmp_path / "none") in output
    assert "Traceback" not in output


IN_NAMESPACES = """
        from levelset.kinds.core_v1 import Namespace
        for name in ("shop", "bank", "attic"):
            await manager.client.create(Namespace.new(name))
            await manager.client.create(Good.new(f"{name}-tea", GoodSpec(), namespace=name))
"""


@pytest.mark.parametrize(
    ("words", "more"), [(["-n", "attic", "--namespace", "bank"], ""), ([], ", namespace=['attic', 'bank']")]
)
def test_a_program_reconciles_in_the_namespaces_that_are_named(tmp_path, words, more):
    with started(write(tmp_path, after=IN_NAMESPACES.strip(), more=more), "--local", *words) as process:
        output = read_until(process, "sold bank-tea", "sold attic-tea", "ready in")
        process.send_signal(signal.SIGTERM)
        assert process.wait() == 0
    assert "sells shop-tea" not in output
    assert "sells tea" not in output


def read_errors_until(process: "subprocess.Popen[str]", word: str) -> None:
    """Reads the logs of the process until a line has this word; fails if the process ends first."""
    assert process.stderr is not None
    while word not in (line := process.stderr.readline()):
        assert line, f"it has ended without {word}"


REPLICA = """
import time
from levelset import Controller, LeaderElection, Resource, Spec, run

class Good(Resource[Spec, None], api="trade.example.dev/v1"):
    pass

async def sell(good, ctx):
    print("sells", time.time(), flush=True)

run(Controller(Good, sell){more})
"""


def write_replica(path: Path, name: str, more: str = "") -> Path:
    program = path / name
    program.write_text(REPLICA.format(more=more), encoding="utf-8")
    return program


def test_of_two_processes_with_the_same_lease_one_leads_and_the_other_takes_over_when_it_stops(tmp_path):
    words = ("--kubeconfig", "levelset.kubeconfig", "--leader", "shop")
    one = write_replica(tmp_path, "one.py")
    two = write_replica(tmp_path, "two.py", ", leader=LeaderElection(name='other', retry=0.1, renew=1, lease=2)")
    with started(write(tmp_path), "--local") as host:
        read_until(host, "sold tea", "ready in")
        with started(one, *words) as first:
            output = read_until(first, "sells", "ready in")
            assert "API server  https://127.0.0.1:" in output
            assert "Type next" not in output  # there is no terminal to type in
            with started(two, *words) as second:
                read_errors_until(second, "waiting to become the leader")
                read_until(second, "ready in")  # a replica that waits is ready, so that a rollout can go on
                stopped = time.time()
                first.send_signal(signal.SIGTERM)
                assert first.wait() == 0
                sold = read_until(second, "sells")
                assert float(sold.split("sells ")[1].split()[0]) > stopped
                second.send_signal(signal.SIGTERM)
        host.send_signal(signal.SIGTERM)


def test_logs_are_json_for_machines(tmp_path):
    with started(write(tmp_path, seconds=0.2), "--local", "--log-json", "--health", "0") as process:
        output = read_until(process, "ready in", "health      http://127.0.0.1:")
        assert "metrics" not in output
        process.send_signal(signal.SIGINT)
        lines = [json.loads(line) for line in process.communicate()[1].splitlines()]
    assert any(
        line["logger"] == "levelset.runtime.manager" and "shutting down gracefully" in line["message"] for line in lines
    )


def test_help_lists_the_options(tmp_path):
    with started(write(tmp_path), "--help") as process:
        output = process.communicate()[0]
    assert process.returncode == 0
    assert "runs goods" in output
    assert "--kubeconfig PATH" in output


LOOPS = """
import asyncio

class Loop(asyncio.SelectorEventLoop):
    pass

def new_event_loop():
    return Loop()
"""
NONE = 'raise ImportError("there is none")'


@pytest.mark.parametrize(("uvloop", "is_used"), [(LOOPS, True), (NONE, False)], ids=["installed", "not installed"])
def test_uvloop_is_used_if_it_is_installed(tmp_path, uvloop, is_used):
    (tmp_path / "uvloop.py").write_text(uvloop, encoding="utf-8")
    after = 'print("loop", type(asyncio.get_running_loop()).__module__, flush=True)'
    with started(write(tmp_path, after=after, more=", local=True")) as process:
        output = read_until(process, "loop ", "sold tea")
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=120) == 0
    assert ("loop uvloop" in output) is is_used
    assert "ImportError" not in output
