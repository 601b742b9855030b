"""Every snippet of the documentation runs and prints the output that the page shows.

A `python` block runs by itself, in a module of its own and in an empty folder; when a `text` block follows, that is
what it prints. A `console` block names commands that exist. `python norun` marks the rare block that cannot run here;
its reason is listed in exceptions.toml.
"""

import contextlib
import io
import linecache
import re
import shlex
import subprocess
import sys
import tomllib
from functools import cache
from pathlib import Path
from types import ModuleType

import click
import pytest

from levelset.cli import commands
from tests.project.files import ROOT, exceptions, relative
from tests.project.markdown import Block, blocks, pages

PAGES = {path: blocks(path) for path in pages()}
BLOCKS = [block for found in PAGES.values() for block in found]
# A page whose files and commands belong together is executed as a whole, by a test of its own.
WALKS = {"docs/tutorial.md": "tests/cli/test_tutorial.py"}
PYTHON = [block for block in BLOCKS if block.info == "python" and relative(block.path) not in WALKS]
COMMANDS = [
    pytest.param(line.removeprefix("$ "), id=f"{block.where}: {line[2:]}")
    for block in BLOCKS
    if block.info == "console"
    for line in block.text.splitlines()
    if line.startswith("$ ")
]
KNOWN = {"": "a fence without a language", "python": "", "python norun": "", "console": "", "text": "", "yaml": ""}
MAIN = 'if __name__ == "__main__":'
# Commands of other programs that a page may use.
ELSEWHERE = {
    "cd",
    "curl",
    "etcdctl",
    "eval",
    "etcdutl",
    "git",
    "helm",
    "kubectl",
    "pip",
    "python3",
    "python",
    "ruff",
    "source",
}


def expected(block: Block) -> str | None:
    """The text block behind a snippet, when nothing but prose stands between them."""
    after = [other for other in PAGES[block.path] if other.line > block.line]
    return after[0].text if after and after[0].info == "text" else None


@pytest.mark.parametrize("block", PYTHON, ids=lambda block: block.where)
def test_a_snippet_runs_and_prints_the_output_on_the_page(
    block: Block, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = ModuleType("__main__" if MAIN in block.text else "snippet")
    monkeypatch.setitem(sys.modules, module.__name__, module)
    monkeypatch.chdir(tmp_path)
    # Blank lines in front: a traceback then names the line of the page.
    source, name = "\n" * (block.line - 1) + block.text, str(block.path)
    # Code that reads its own source, as the inference of permissions does, finds the snippet and not the page.
    monkeypatch.setitem(linecache.cache, name, (len(source), None, source.splitlines(keepends=True), name))
    code = compile(source, name, "exec")
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        exec(code, module.__dict__)
    if (said := expected(block)) is not None:
        assert printed.getvalue() == said


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_in_a_page_exists(command: str) -> None:
    name, *words = shlex.split(re.sub(r"^([A-Z_]+=\S+ )+", "", command), comments=True)
    match name:
        case "make":
            targets = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
            assert set(words) <= set(targets)
        case "levelset":
            assert_levelset_knows(words)
        case "levelset-omnia" | "levelset-dcp":
            assert words[0] in help_of(f"{name.replace('-', '_')}.cli")
        case "pip":
            assert_extras_exist(command)
        case _:
            assert name in ELSEWHERE, f"{name} is neither ours nor listed"


@cache
def help_of(module: str) -> list[str]:
    """The help text of a system's command."""
    code = f"from {module} import main; main(['--help'])"
    finished = subprocess.run([sys.executable, "-c", code], check=False, capture_output=True, text=True, cwd=ROOT)
    assert finished.returncode == 0, finished.stderr
    return finished.stdout.split()


def assert_levelset_knows(words: list[str]) -> None:
    command: click.Command = commands.levelset
    for word in words:
        if word.startswith("-"):
            options = {name for parameter in command.params for name in (*parameter.opts, *parameter.secondary_opts)}
            assert word.split("=")[0] in options | {"--help"}
        elif isinstance(command, click.Group):
            found = command.get_command(click.Context(command), word)
            assert found is not None, f"there is no command {word}"
            command = found


def assert_extras_exist(command: str) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    named = {extra for group in re.findall(r"\[([a-z,]+)\]", command) for extra in group.split(",")}
    assert named <= set(project["optional-dependencies"])


@pytest.mark.parametrize(("page", "test"), WALKS.items())
def test_a_page_that_is_executed_as_a_whole_has_its_test(page: str, test: str) -> None:
    assert (ROOT / page).is_file()
    assert Path(page).name in (ROOT / test).read_text(encoding="utf-8")


def test_a_snippet_that_is_not_run_has_a_reason() -> None:
    found = {
        f"{relative(block.path)}: {block.text.splitlines()[0]}" for block in BLOCKS if block.info == "python norun"
    }
    assert sorted(found) == sorted(exceptions()["snippet_not_run"])


def test_every_block_has_a_checked_language() -> None:
    assert [f"{block.where}: {block.info}" for block in BLOCKS if block.info not in KNOWN] == []
