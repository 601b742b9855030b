"""Writes generated files: only those that changed, with a line for each; or says which are out of date."""

from collections.abc import Mapping
from pathlib import Path

import click

from levelset.cli.refusing import Failed
from levelset.cli.showing import show_json

__all__ = ["keep"]


def keep(folder: Path, files: Mapping[str, str], *, check: bool, output: str = "text") -> None:
    """Has the folder hold these files; with `check` it writes nothing, and fails if one is missing or another."""
    stale = [path for path, text in files.items() if _read(folder / path) != text]
    word = "out of date" if check else "wrote"
    told = {str(folder / path): word if path in stale else "as it was" for path in files}
    if not check:
        for path in stale:
            _write(folder / path, files[path])
    if output == "json":
        show_json([{"file": path, "state": state} for path, state in told.items()])
    elif not check:
        for path, state in told.items():
            click.echo(f"{state}  {path}")
    elif not stale:
        click.echo(f"{len(files)} files are up to date")
    if check and stale:
        names = ", ".join(str(folder / path) for path in stale)
        raise Failed(f"out of date: {names}; run the same command without --check")


def _read(path: Path) -> str | None:
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return None
    except OSError as error:
        raise Failed(f"{path} cannot be read: {error.strerror}") from error


def _write(path: Path, text: str) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise Failed(f"{path} cannot be written: {error.strerror}") from error
