"""Every example runs as a program of its own; an operator with `--local`, until it gets a signal."""

import asyncio
import contextlib
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from levelset import Client, GroupVersionKind, Ref, Unstructured
from tests.project.files import ROOT, relative

EXAMPLES = sorted((ROOT / "examples").glob("*.py"))
OPERATORS = [path for path in EXAMPLES if "\n    run(" in path.read_text(encoding="utf-8")]
PROGRAMS = [path for path in EXAMPLES if path not in OPERATORS]


@pytest.mark.parametrize("path", PROGRAMS, ids=relative)
def test_an_example_runs_and_prints_something(path: Path, tmp_path: Path) -> None:
    command = [sys.executable, "-W", "error", str(path)]
    outcome = subprocess.run(command, cwd=tmp_path, check=False, capture_output=True, text=True)
    assert (outcome.returncode, outcome.stderr) == (0, "")
    assert outcome.stdout


@contextlib.contextmanager
def operating(path: Path, folder: Path) -> Iterator[list[str]]:
    """Runs an operator until the end of the block, which begins when it is ready; yields its output."""
    command = [sys.executable, "-W", "error", "-u", str(path), "--local"]
    pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
    with subprocess.Popen(command, cwd=folder, text=True, **pipes) as process:
        assert process.stdout is not None
        said: list[str] = []
        try:
            while "ready" not in "".join(said) and (line := process.stdout.readline()):
                said.append(line)
            yield said
        finally:
            process.send_signal(signal.SIGINT)
            said.append(process.stdout.read())
    assert (process.returncode, "Traceback" in "".join(said)) == (0, False), "".join(said)


@pytest.mark.parametrize("path", OPERATORS, ids=relative)
def test_an_operator_runs_by_itself_reports_readiness_and_ends_on_a_signal(path: Path, tmp_path: Path) -> None:
    with operating(path, tmp_path) as said:
        assert "ready" in said[-1]
    assert "shutting down" in said[-1]


def test_the_smallest_operator_serves_clients_with_the_kubeconfig_that_it_wrote(tmp_path: Path) -> None:
    kind = GroupVersionKind("demo.example.dev", "v1", "Greeting")
    manifest = {"metadata": {"name": "you", "namespace": "default"}, "spec": {"name": "you"}}

    async def greeting() -> str:
        async with await Client.connect(tmp_path / "levelset.kubeconfig") as client:
            await client.create(Unstructured({"apiVersion": kind.api_version, "kind": kind.kind, **manifest}))
            greeted = await client.wait(Ref(kind, "you", "default"), lambda one: "status" in one.tree)
            return str(greeted.tree["status"]["message"])

    with operating(ROOT / "examples" / "02_hello.py", tmp_path):
        assert asyncio.run(greeting()) == "Hello, you!"


def test_there_are_both_scripts_and_operators_among_the_examples() -> None:
    assert PROGRAMS
    assert OPERATORS
