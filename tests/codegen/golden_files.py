"""Compares generated texts with the files in `golden/`; LEVELSET_GOLDEN=write updates them."""

import os
from collections.abc import Mapping
from pathlib import Path

__all__ = ["check_files", "check_text"]

FOLDER = Path(__file__).parent / "golden"


def check_text(name: str, text: str) -> None:
    """Asserts that the text equals the file."""
    path = FOLDER / name
    if os.environ.get("LEVELSET_GOLDEN") == "write":
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    assert text == path.read_text(encoding="utf-8"), (
        f"{name} differs; check the diff, then update it with LEVELSET_GOLDEN=write"
    )


def check_files(folder: str, files: Mapping[str, str]) -> None:
    """Asserts that the files equal those in the folder."""
    for name, text in files.items():
        check_text(f"{folder}/{name}", text)
    there = {path.relative_to(FOLDER / folder).as_posix() for path in (FOLDER / folder).rglob("*") if path.is_file()}
    assert there == set(files)
