"""Every example runs, as the program that a reader starts."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.house.files import ROOT, relative

EXAMPLES = sorted((ROOT / "examples").glob("*.py"))


@pytest.mark.parametrize("path", EXAMPLES, ids=relative)
def test_an_example_runs_and_prints_something(path: Path, tmp_path: Path) -> None:
    command = [sys.executable, "-W", "error", str(path)]
    outcome = subprocess.run(command, cwd=tmp_path, check=False, capture_output=True, text=True)
    assert (outcome.returncode, outcome.stderr) == (0, "")
    assert outcome.stdout


def test_there_is_an_example() -> None:
    assert EXAMPLES
