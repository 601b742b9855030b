"""Type checking of user code: correct examples pass, and mistakes are reported.

The examples lie in `typing/`, which `make lint` gives to both checkers. A line that must be refused carries the two
comments that allow it, one per checker, and both checkers report a comment that allows nothing: an example that stops
being wrong fails, as does one that stops being right.
"""

import ast
import json
import tomllib

from tests.project.files import ROOT, tree

FOLDER = ROOT / "tests/project/typing"
EXAMPLES = sorted(FOLDER.glob("*.py"))


def test_mypy_reads_the_examples_and_reports_a_comment_that_allows_nothing() -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["mypy"]
    relaxed = [override for override in settings["overrides"] if "tests.*" in override["module"]]
    assert settings["strict"]
    assert "warn_unused_ignores" not in settings | relaxed[0]
    assert "tests" in settings["files"]
    assert not [path for path in settings["exclude"] if "project" in path]


def test_pyright_reads_the_examples_and_reports_a_comment_that_allows_nothing() -> None:
    assert "pyright --project tests/project/typing\n" in (ROOT / "Makefile").read_text(encoding="utf-8")
    settings = json.loads((FOLDER / "pyrightconfig.json").read_text(encoding="utf-8"))
    assert settings["typeCheckingMode"] == "strict"
    assert settings["reportUnnecessaryTypeIgnoreComment"] == "error"


def test_every_function_of_the_examples_is_annotated_or_mypy_would_not_check_it() -> None:
    unchecked = [
        f"{path.name}:{node.lineno}"
        for path in EXAMPLES
        for node in ast.walk(tree(path))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.returns is None
    ]
    assert unchecked == []


def test_a_line_that_must_be_refused_is_refused_by_both() -> None:
    lines = [line for path in EXAMPLES for line in path.read_text(encoding="utf-8").splitlines()]
    wrong = [line for line in lines if "# type: ignore[" in line or "# pyright: ignore[" in line]
    assert wrong
    assert [line for line in wrong if not ("# type: ignore[" in line and "# pyright: ignore[" in line)] == []
