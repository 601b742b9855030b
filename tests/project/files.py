"""The files of the project, for tests of the code base."""

import ast
import subprocess
import tomllib
from functools import cache
from pathlib import Path
from typing import Any

__all__ = [
    "PACKAGE",
    "ROOT",
    "SOURCES",
    "TESTS",
    "exceptions",
    "is_binary",
    "module_name",
    "packages",
    "relative",
    "tracked",
    "tree",
]

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "src" / "levelset"
SOURCES = sorted([*PACKAGE.rglob("*.py"), *ROOT.glob("systems/*/src/**/*.py")])
TESTS = sorted([*ROOT.glob("tests/**/*.py"), *ROOT.glob("systems/*/tests/**/*.py")])


def relative(path: Path) -> str:
    """The path relative to the project folder."""
    return path.relative_to(ROOT).as_posix()


def module_name(path: Path) -> str:
    """The dotted name by which a source file is imported."""
    start = path.parts.index("src", len(ROOT.parts)) + 1
    parts = path.with_suffix("").parts[start:]
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def packages() -> list[str]:
    """The packages of levelset that are layered against each other: `client`, `runtime.cache`, ..."""
    top = {path.parent.name for path in PACKAGE.glob("*/__init__.py")} - {"runtime"}
    return sorted([*top, *(f"runtime.{path.parent.name}" for path in PACKAGE.glob("runtime/*/__init__.py"))])


def tree(path: Path) -> ast.Module:
    """The parsed file. Use `sources.py` for tests of many files: it parses each file once."""
    return ast.parse(path.read_text(encoding="utf-8"), str(path))


@cache
def exceptions() -> dict[str, dict[str, str]]:
    """The listed exceptions from the rules of the code base, each with its reason."""
    listed: dict[str, Any] = tomllib.loads((ROOT / "tests/project/exceptions.toml").read_text(encoding="utf-8"))
    return listed


def is_binary(data: bytes) -> bool:
    """Whether this is no text, by a zero byte in its beginning, as git decides: pictures hold any word by chance."""
    return b"\0" in data[:8000]


@cache
def tracked() -> tuple[Path, ...]:
    """The files of the project: tracked and new ones of git, or all files if there is no git repository."""
    if (ROOT / ".git").exists():
        command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"]
        listed = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout
        found = [ROOT / name for name in listed.split("\0") if name]
    else:
        found = [path for path in ROOT.rglob("*") if not {".venv", "__pycache__", "build", "dist"} & set(path.parts)]
    return tuple(sorted(path for path in found if path.is_file()))
