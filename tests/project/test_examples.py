"""Every example runs as a program of its own; an operator with `--local`, until it gets a signal."""

import asyncio
import contextlib
import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from levelset import Client, GroupVersionKind, Ref, Unstructured
from levelset.cli.install import read_manifests
from tests.project.files import ROOT, relative
from tests.project.markdown import blocks

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


def test_the_smallest_operator_greets_the_person_of_the_readme(tmp_path: Path) -> None:
    (manifest,) = read_manifests(ROOT / "examples" / "02_hello.yaml")
    (block,) = (one for one in blocks(ROOT / "README.md") if "02_hello.yaml" in one.text)

    async def greeting() -> str:
        async with await Client.connect(tmp_path / "levelset.kubeconfig") as client:
            made = await client.apply(manifest)
            greeted = await client.wait(made.ref, lambda one: "status" in one.tree)
            return str(greeted.tree["status"]["message"])

    with operating(ROOT / "examples" / "02_hello.py", tmp_path):
        assert asyncio.run(greeting()) == block.text.splitlines()[-1] == "Hello, world!"


def test_the_readme_shows_what_the_smallest_operator_prints(tmp_path: Path) -> None:
    (block,) = (one for one in blocks(ROOT / "README.md") if "02_hello.py --local" in one.text)
    with operating(ROOT / "examples" / "02_hello.py", tmp_path) as said:
        pass
    changing = re.compile(r"127\.0\.0\.1:\d+|in \d+ ms")
    shown, printed = (changing.sub("...", text) for text in (block.text.partition("\n")[2], "".join(said)))
    assert printed.startswith(shown.rpartition("  kubectl")[0])


COMMAND = [sys.executable, "-c", "import levelset.cli; levelset.cli.main()"]


def box_commands() -> Iterator[list[str]]:
    """The commands of levelset and Python in the README's control plane in a box; kubectl's need a kubectl."""
    lines = [line for block in blocks(ROOT / "README.md") for line in block.text.splitlines()]
    for line in lines:
        name, *words = shlex.split(line.removeprefix("$ "), comments=True) if "shop.kubeconfig" in line else [""]
        if name in ("levelset", "python"):
            yield [*(COMMAND if name == "levelset" else [sys.executable]), *words]


async def apply_all(kubeconfig: Path, manifests: list[dict[str, Any]]) -> Unstructured:
    """Applies the manifests of a website; returns its Deployment."""
    async with await Client.connect(kubeconfig) as client:
        for one in manifests:
            await client.apply(one)
        deployment = Ref(GroupVersionKind("apps", "v1", "Deployment"), "blog", "default")
        return await client.wait(deployment, lambda one: "spec" in one.tree, within=120)


def test_the_control_plane_of_the_readme_runs_the_website_operator(tmp_path: Path) -> None:
    serve, install, operate = box_commands()
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    with contextlib.ExitStack() as stack:
        for command in (serve, operate):
            pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
            process = stack.enter_context(subprocess.Popen(command, cwd=tmp_path, text=True, **pipes))
            stack.callback(process.send_signal, signal.SIGTERM)
            assert process.stdout is not None
            while command is serve and "ready" not in process.stdout.readline():
                assert process.poll() is None
            if command is serve:
                subprocess.run(install, cwd=tmp_path, check=True, stdout=subprocess.PIPE)
        manifests = read_manifests(ROOT / "examples" / "03_website.yaml")
        made = asyncio.run(apply_all(tmp_path / "shop.kubeconfig", manifests))
    assert made.tree["spec"]["replicas"] == 2


def test_there_are_both_scripts_and_operators_among_the_examples() -> None:
    assert PROGRAMS
    assert OPERATORS
