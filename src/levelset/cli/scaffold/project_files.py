"""The files of a scaffolded project: their names, contents, and how they are written without losing changes.

`.levelset/files.json` records a hash of each file as it was generated. A file with that hash may be overwritten; a file
that the user has changed only after confirmation. Names are validated before any file is written.
"""

import difflib
import hashlib
import json
import keyword
import re
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from string import Template
from typing import Any, Final

import click

from levelset.cli.output import CommandFailed
from levelset.cli.scaffold.templates import kind as kind_texts
from levelset.cli.scaffold.templates import project as project_texts
from levelset.cli.scaffold.templates import webhook as webhook_texts
from levelset.codegen.dockerfile import docker_files
from levelset.errors import ConfigError
from levelset.objects.json_tree import is_map
from levelset.objects.kind_definition import plural_of

__all__ = [
    "ConfirmOverwrite",
    "KindNames",
    "Project",
    "ProjectNames",
    "add_lines",
    "check_kind",
    "check_project",
    "kind_files",
    "kind_lines",
    "project_files",
    "webhook_files",
    "webhook_lines",
]

ConfirmOverwrite = Callable[[str, str], bool]
"""Returns whether a changed file may be overwritten; called with its path and a diff."""

_RECORD: Final = ".levelset/files.json"


class Project:
    """The folder of a project and the record of its generated files."""

    def __init__(self, folder: Path, confirm: ConfirmOverwrite, *, is_quiet: bool = False) -> None:
        self.folder = folder
        self.states: dict[str, str] = {}
        """The state of each file so far, by path: `wrote`, `changed`, `skipped` or `unchanged`."""
        self._is_quiet = is_quiet
        self._confirm = confirm
        self._hashes: dict[str, str] = self._read_record()

    def read(self, path: str) -> str | None:
        """The text of a file; None if it does not exist."""
        try:
            return (self.folder / path).read_text(encoding="utf-8")
        except FileNotFoundError:
            return None
        except (OSError, UnicodeDecodeError) as error:
            raise CommandFailed(f"{self.folder / path} cannot be read: {error}") from error

    def write(self, files: Mapping[str, str]) -> None:
        """Writes files and prints a line for each unless quiet; files that the user changed only after confirmation."""
        try:
            for path, text in files.items():
                self._write(path, text)
        finally:  # also when the user aborts at a prompt
            self._save_record()

    def change(self, path: str, text: str) -> None:
        """Writes a file to which lines were added; changes of the user are preserved in it."""
        is_generated = self._is_generated(path, self.read(path) or "")
        self._put(path, text)
        if is_generated:
            self._hashes[path] = _hash(text)
            self._save_record()
        self._note("changed", path)

    def _write(self, path: str, text: str) -> None:
        there = self.read(path)
        if there == text:
            self._note("unchanged", path)
        elif there is None or self._is_generated(path, there) or self._confirm(path, _difference(path, there, text)):
            self._put(path, text)
            self._note("wrote" if there is None else "changed", path)
        else:
            self._note("skipped", path)
            return
        self._hashes[path] = _hash(text)

    def _is_generated(self, path: str, text: str) -> bool:
        return self._hashes.get(path) == _hash(text)

    def _put(self, path: str, text: str) -> None:
        target = self.folder / path
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(text, encoding="utf-8")
        except OSError as error:
            raise CommandFailed(f"{target} cannot be written: {error.strerror}") from error

    def _read_record(self) -> dict[str, str]:
        text = self.read(_RECORD)
        try:
            found: Any = json.loads(text or "{}")
        except ValueError:
            return {}  # then all files count as changed by the user
        return {path: str(mark) for path, mark in found.items()} if is_map(found) else {}

    def _save_record(self) -> None:
        self._put(_RECORD, json.dumps(self._hashes, indent=2, sort_keys=True) + "\n")

    def _note(self, what: str, path: str) -> None:
        where = str(self.folder / path)
        self.states[where] = "wrote" if self.states.get(where) == "wrote" else what
        if not self._is_quiet:
            click.echo(f"{what:<9} {where}")


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _difference(path: str, old: str, new: str) -> str:
    lines = difflib.unified_diff(
        old.splitlines(), new.splitlines(), f"{path} (yours)", f"{path} (new)", lineterm="", n=2
    )
    return "\n".join(lines)


_PROJECT: Final = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*")
_KIND: Final = re.compile(r"[A-Z][A-Za-z0-9]{0,62}")
_API: Final = re.compile(r"([a-z0-9]([-a-z0-9]*[a-z0-9])?\.)+[a-z]+/v[0-9]+((alpha|beta)[0-9]+)?")
_LONGEST: Final = 50
_NEEDED: Final = frozenset(
    ("click", "cryptography", "httptools", "jwt", "levelset", "msgspec", "mypy", "rich", "ruff", "yaml")
)
_FOLDERS: Final = frozenset(("pytest", "src", "test", "tests"))
"""Packages and folders that a project of the same name would shadow."""
_IMPORTED: Final = frozenset(
    ("Cluster", "Column", "ConfigMap", "Context", "Controller", "Denied", "Forbidden", "Ref", "Resource", "Review")
)
"""Names that the generated files of a kind import, besides Spec and Status."""
_TAKEN: Final = frozenset(("operator", "owns", "spec", "status", "webhooks"))
"""Names that generated projects use otherwise."""


@dataclass(frozen=True, slots=True)
class ProjectNames:
    """A project by its name: `web-shop` is the package `web_shop`."""

    project: str

    @property
    def package(self) -> str:
        """The name of the Python package."""
        return self.project.replace("-", "_")


@dataclass(frozen=True, slots=True)
class KindNames:
    """A kind by its name and its group and version."""

    kind: str
    api: str

    @property
    def module(self) -> str:
        """The name of its module: `web_shop` for WebShop."""
        return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", self.kind).lower()

    @property
    def plural(self) -> str:
        """The name of its controller."""
        return plural_of(self.module)

    @property
    def resource(self) -> str:
        """Its resource name."""
        return plural_of(self.kind)

    @property
    def words(self) -> str:
        """The kind in a sentence: `web shop`."""
        return self.module.replace("_", " ")


def check_project(name: str) -> ProjectNames:
    """The names of a project; ConfigError if it is not a valid Kubernetes and Python name."""
    made = ProjectNames(name)
    if _PROJECT.fullmatch(name) is None or len(name) > _LONGEST or keyword.iskeyword(made.package):
        raise ConfigError(
            f"{name!r} is not a valid project name: use lowercase letters, digits and single -, such as web-shop"
        )
    if made.package in _NEEDED | _FOLDERS | sys.stdlib_module_names:
        hint = f"choose another with --name, such as {name}-operator"
        raise ConfigError(f"a project named {name!r} would shadow the Python package {made.package}; {hint}")
    return made


def check_kind(kind: str, api: str) -> KindNames:
    """The names of a kind; ConfigError if the kind or the API version is invalid."""
    if _KIND.fullmatch(kind) is None or any(map(keyword.iskeyword, (kind, KindNames(kind, api).module))):
        raise ConfigError(f"{kind!r} is not a valid kind: use letters and digits, a capital first, such as Website")
    _check_clash(KindNames(kind, api))
    if _API.fullmatch(api) is None:
        raise ConfigError(f"{api!r} is not a group and version: write for example shop.example.dev/v1")
    return KindNames(kind, api)


def _check_clash(names: KindNames) -> None:
    """Raises ConfigError for a kind whose name clashes with other names in its generated files."""
    hint = f"choose another, such as Shop{names.kind}, or write its module by hand"
    if names.kind in _IMPORTED or {names.module, names.plural} & _TAKEN or names.module.endswith("_webhooks"):
        raise ConfigError(f"a kind named {names.kind!r} would shadow a name that its generated files need; {hint}")
    if names.kind.startswith("Test"):
        raise ConfigError(f"pytest would collect a kind named {names.kind!r} as a test; {hint}")


_IMPORTS: Final = "imports"
_MARK: Final = "# levelset: "


def project_files(names: ProjectNames) -> Mapping[str, str]:
    """All files of a project without kinds."""
    values = {"project": names.project, "package": names.package}
    made = {_fill(path, values): _fill(text, values) for path, text in project_texts.FILES.items()}
    return {**made, **docker_files(["python", "-m", names.package])}


def kind_files(project: ProjectNames, names: KindNames) -> Mapping[str, str]:
    """The module of a kind with its controller, and their tests."""
    values = _values(project, names)
    return {
        f"src/{project.package}/{names.module}.py": _fill(kind_texts.MODULE, values),
        f"tests/test_{names.module}.py": _fill(kind_texts.TEST, values),
    }


def webhook_files(project: ProjectNames, names: KindNames) -> Mapping[str, str]:
    """The module of a kind's webhooks, and their tests."""
    values = _values(project, names)
    return {
        f"src/{project.package}/{names.module}_webhooks.py": _fill(webhook_texts.MODULE, values),
        f"tests/test_{names.module}_webhooks.py": _fill(webhook_texts.TEST, values),
    }


def kind_lines(project: ProjectNames, names: KindNames) -> Mapping[str, str]:
    """The lines of a kind in operator.py, by the marker comment before which they are inserted."""
    return {
        _IMPORTS: f"from {project.package}.{names.module} import {names.plural}",
        "controllers": f"    {names.plural},",
    }


def webhook_lines(project: ProjectNames, names: KindNames) -> Mapping[str, str]:
    """The same for webhooks."""
    return {
        _IMPORTS: f"from {project.package}.{names.module}_webhooks import {names.module}_webhooks",
        "webhooks": f"    *{names.module}_webhooks,",
    }


def add_lines(text: str, lines: Mapping[str, str]) -> tuple[str, list[str]]:
    """Inserts each line before its marker, and imports in order; returns the text and the lines without a marker.

    A line that exists already is not added again.
    """
    lost: list[str] = []
    for mark, line in lines.items():
        rows: list[str] = text.splitlines()
        if line in rows:
            continue
        if mark == _IMPORTS:
            text = _with_import(rows, line)
            continue
        position = next((index for index, row in enumerate(rows) if row.strip() == f"{_MARK}{mark}"), None)
        if position is None:
            lost.append(line.strip())
            continue
        text = "\n".join([*rows[:position], line, *rows[position:]]) + "\n"
    return text, lost


def _with_import(rows: list[str], line: str) -> str:
    """The text with one more import, sorted among those of the same package."""
    package = line.partition(".")[0]
    there = [index for index, row in enumerate(rows) if row.startswith(f"{package}.")]
    if there:
        first, last = there[0], there[-1] + 1
        return "\n".join([*rows[:first], *sorted([*rows[first:last], line]), *rows[last:]]) + "\n"
    after = max((index for index, row in enumerate(rows) if row.startswith("from ")), default=0) + 1
    return "\n".join([*rows[:after], "", line, *rows[after:]]) + "\n"


def _values(project: ProjectNames, names: KindNames) -> dict[str, str]:
    return {
        "project": project.project,
        "package": project.package,
        "kind": names.kind,
        "api": names.api,
        "module": names.module,
        "plural": names.plural,
        "words": names.words,
    }


def _fill(text: str, values: Mapping[str, str]) -> str:
    return Template(text).substitute(values)
