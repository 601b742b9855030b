"""Commands whose standard output has lost its reader, as in `levelset serve | head -1`, end quietly with code 1."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = '''
from levelset import Controller, Resource, Spec, run

class GoodSpec(Spec):
    price: int = 0

class Good(Resource[GoodSpec, None], api="trade.example.dev/v1"):
    """Something to sell."""

async def sell(good, ctx):
    pass

goods = Controller(Good, sell)
if __name__ == "__main__":
    run(goods)
'''
COMMAND = [sys.executable, "-c", "import levelset.cli; levelset.cli.main()"]
ENVIRONMENT = {**os.environ, "PYTHONPATH": os.pathsep.join(str(Path(one).resolve()) for one in sys.path if one)}


def run_without_reader(folder: Path, *command: str) -> tuple[int, str]:
    """The exit code and the errors of a command whose standard output is a pipe that no process reads."""
    reading, writing = os.pipe()
    os.close(reading)
    try:
        outcome = subprocess.run(
            command, cwd=folder, env=ENVIRONMENT, check=False, stdout=writing, stderr=subprocess.PIPE, text=True
        )
    finally:
        os.close(writing)
    return outcome.returncode, outcome.stderr


@pytest.mark.parametrize(
    "words",
    [
        ["serve"],
        ["serve", "--output", "json"],
        ["up"],
        ["up", "--output", "json"],
        ["run", "program.py", "--local"],
        ["dev", "program.py"],
        ["check", "program.py"],
        ["version"],
        ["--help"],
    ],
    ids=" ".join,
)
def test_a_command_without_a_reader_ends_quietly(tmp_path: Path, words: list[str]) -> None:
    (tmp_path / "program.py").write_text(PROGRAM)
    assert run_without_reader(tmp_path, *COMMAND, *words) == (1, "")


@pytest.mark.parametrize("option", ["--local", "--help"])
def test_a_program_without_a_reader_ends_quietly(tmp_path: Path, option: str) -> None:
    (tmp_path / "program.py").write_text(PROGRAM)
    assert run_without_reader(tmp_path, sys.executable, "program.py", option) == (1, "")
    assert [path.name for path in tmp_path.iterdir() if path.name != "__pycache__"] == ["program.py"]
