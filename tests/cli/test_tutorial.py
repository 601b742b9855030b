"""Executes docs/tutorial.md: writes its files, runs its commands in order, and compares their output."""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from tests.project.files import ROOT
from tests.project.markdown import Block, blocks

PAGE = ROOT / "docs" / "tutorial.md"
COMMAND = [sys.executable, "-c", "import levelset.cli; levelset.cli.main()"]
HERE = {
    **os.environ,
    # Not the project's own `src`: a reader of the page has not set anything.
    "PYTHONPATH": os.pathsep.join(str(Path(one).resolve()) for one in sys.path if one),
    "NO_COLOR": "1",
    # Nor installed what our own tests need: of the plugins of pytest that are here, one is levelset's.
    "PYTEST_ADDOPTS": "-p no:anyio -p no:asyncio -p no:hypothesispytest -p no:randomly -p no:timeout",
    "PYTHONDONTWRITEBYTECODE": "",  # everything starts twice as fast the second time
}


# What a reader installs is here already, with the interpreter of this test.
ENVIRONMENT = ("python3 -m venv ", "source ", "pip ")


def target_of(block: Block) -> str:
    """The file of a block: the last one that is named before it."""
    before = PAGE.read_text(encoding="utf-8").splitlines()[: block.line - 1]
    named = re.findall(r"Write into `([^`]+)`:", "\n".join(before))
    assert named, f"{block.where}: no file is named for this block"
    return str(named[-1])


def typed(block: Block) -> list[tuple[str, list[str]]]:
    """The commands of a block, each with its expected output."""
    found: list[tuple[str, list[str]]] = []
    for line in block.text.splitlines():
        if line.startswith("$ "):
            found.append((line[2:], []))
        else:
            found[-1][1].append(line)
    return found


def run(folder: Path, command: str) -> str:
    name, *words = shlex.split(command)
    program = {"levelset": COMMAND, "python": [sys.executable]}.get(name, [sys.executable, "-m", name])
    result = subprocess.run([*program, *words], cwd=folder, env=HERE, check=False, capture_output=True, text=True)
    assert result.returncode == 0, f"{command}\n{result.stdout}\n{result.stderr}"
    return result.stdout


@pytest.mark.timeout(1800)  # more than a dozen programs, one after the other
def test_every_command_of_the_tutorial_prints_what_the_page_shows(tmp_path: Path) -> None:
    folder = tmp_path
    for block in blocks(PAGE):
        if block.info == "python":
            (folder / target_of(block)).write_text(block.text, encoding="utf-8")
            continue
        for command, lines in typed(block):
            if command.startswith(ENVIRONMENT):
                continue
            if command.startswith("cd "):
                folder /= command[3:]
                continue
            message = run(folder, command)
            assert [line for line in lines if line not in message] == [], f"{command}\n{message}"
    assert "All checks passed!" in run(folder, "ruff check .")
