"""Type checking of user code: correct examples pass, and mistakes are reported.

The examples lie in `typing/`. A line that must be refused carries the two comments that allow it, one per checker, and
both checkers report a comment that allows nothing: an example that stops being wrong fails, as does one that stops
being right. mypy reads the same folder in `make lint` too.
"""

import subprocess
import sys
from pathlib import Path

from tests.project.files import ROOT

FOLDER = ROOT / "tests/project/typing"
EXAMPLES = sorted(FOLDER.glob("*.py"))


def run(checker: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [str(Path(sys.executable).with_name(checker)), *arguments]
    return subprocess.run(command, cwd=ROOT, check=False, capture_output=True, text=True)


def test_mypy_accepts_correct_code_and_rejects_mistakes() -> None:
    outcome = run("mypy", "--strict", "--no-error-summary", str(FOLDER))
    assert outcome.returncode == 0, outcome.stdout + outcome.stderr


def test_pyright_accepts_correct_code_and_rejects_mistakes() -> None:
    outcome = run("pyright", "--project", str(FOLDER), "--pythonpath", sys.executable)
    assert outcome.returncode == 0, outcome.stdout + outcome.stderr


def test_a_line_that_must_be_refused_is_refused_by_both() -> None:
    lines = [line for path in EXAMPLES for line in path.read_text(encoding="utf-8").splitlines()]
    wrong = [line for line in lines if "# type: ignore[" in line or "# pyright: ignore[" in line]
    assert wrong
    assert [line for line in wrong if not ("# type: ignore[" in line and "# pyright: ignore[" in line)] == []
