"""Writes the files of a project without ever losing what somebody changed: a record says what we wrote last.

The record, `.levelset/files.json`, holds a hash of each file as it was written. A file that is still the same may be
written anew; one that somebody changed is kept, unless they agree to lose their changes.
"""

import difflib
import hashlib
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

import click

from levelset.cli.refusing import Failed
from levelset.objects.trees import is_map

__all__ = ["Answer", "Project"]

Answer = Callable[[str, str], bool]
"""Is asked whether a file may be overwritten, with its path and the difference."""

_RECORD: Final = ".levelset/files.json"


class Project:
    """A folder that commands write into."""

    def __init__(self, folder: Path, ask: Answer, *, is_quiet: bool = False) -> None:
        self.folder = folder
        self.told: dict[str, str] = {}
        """What became of each file so far, by path: `wrote`, `changed`, `kept` or `as it was`."""
        self._is_quiet = is_quiet
        self._ask = ask
        self._written: dict[str, str] = self._read_record()

    def read(self, path: str) -> str | None:
        """A file of it, None if there is none."""
        try:
            return (self.folder / path).read_text(encoding="utf-8")
        except FileNotFoundError:
            return None
        except (OSError, UnicodeDecodeError) as error:
            raise Failed(f"{self.folder / path} cannot be read: {error}") from error

    def write(self, files: Mapping[str, str]) -> None:
        """Writes files, with a line for each unless quiet; those that somebody changed only if they agree."""
        try:
            for path, text in files.items():
                self._write(path, text)
        finally:  # also when somebody goes away instead of answering
            self._save_record()

    def change(self, path: str, text: str) -> None:
        """Writes a file that we have added to; what somebody else wrote in it is still there."""
        is_ours = self._is_ours(path, self.read(path) or "")
        self._put(path, text)
        if is_ours:
            self._written[path] = _hash(text)
            self._save_record()
        self._say("changed", path)

    def _write(self, path: str, text: str) -> None:
        there = self.read(path)
        if there == text:
            self._say("as it was", path)
        elif there is None or self._is_ours(path, there) or self._ask(path, _difference(path, there, text)):
            self._put(path, text)
            self._say("wrote" if there is None else "changed", path)
        else:
            self._say("kept", path)
            return
        self._written[path] = _hash(text)

    def _is_ours(self, path: str, text: str) -> bool:
        return self._written.get(path) == _hash(text)

    def _put(self, path: str, text: str) -> None:
        target = self.folder / path
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(text, encoding="utf-8")
        except OSError as error:
            raise Failed(f"{target} cannot be written: {error.strerror}") from error

    def _read_record(self) -> dict[str, str]:
        text = self.read(_RECORD)
        try:
            found: Any = json.loads(text or "{}")
        except ValueError:
            return {}  # then all files count as somebody's own
        return {path: str(mark) for path, mark in found.items()} if is_map(found) else {}

    def _save_record(self) -> None:
        self._put(_RECORD, json.dumps(self._written, indent=2, sort_keys=True) + "\n")

    def _say(self, what: str, path: str) -> None:
        where = str(self.folder / path)
        self.told[where] = "wrote" if self.told.get(where) == "wrote" else what
        if not self._is_quiet:
            click.echo(f"{what:<9} {where}")


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _difference(path: str, old: str, new: str) -> str:
    lines = difflib.unified_diff(
        old.splitlines(), new.splitlines(), f"{path} (yours)", f"{path} (new)", lineterm="", n=2
    )
    return "\n".join(lines)
