"""Checks that a tag is the version to release: `python3 scripts/check_release.py v0.2.0`."""

import re
import sys
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Final

__all__ = ["main", "problems_of_tag"]

ROOT: Final = Path(__file__).resolve().parent.parent


def problems_of_tag(tag: str, *, version: str, changelog: str) -> list[str]:
    """Why this tag cannot be released, a sentence each with the next step."""
    problems: list[str] = []
    if tag != f"v{version}":
        problems.append(f"the tag is {tag}, but pyproject.toml has {version}: change it there, or tag v{version}")
    if ".dev" in version:
        problems.append(f"{version} is a development version: remove .dev from version = in pyproject.toml")
    if not re.search(rf"^## \[{re.escape(version)}\] - \d{{4}}-\d\d-\d\d$", changelog, re.MULTILINE):
        problems.append(f"CHANGELOG.md has no heading ## [{version}] with a date: move Unreleased below it")
    return problems


def main(arguments: Sequence[str]) -> int:
    """Checks the tag that is named against pyproject.toml and CHANGELOG.md."""
    if len(arguments) != 1:
        sys.stderr.write("usage: python3 scripts/check_release.py TAG\n")
        return 2
    version: str = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    problems = problems_of_tag(arguments[0], version=version, changelog=changelog)
    for problem in problems:
        sys.stderr.write(f"{problem}\n")
    return 1 if problems else 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
