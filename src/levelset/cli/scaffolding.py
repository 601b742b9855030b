"""The files of a new project, of a new kind and of new webhooks, and the lines that tell the project of them. Pure."""

from collections.abc import Mapping
from string import Template
from typing import Final

from levelset.cli.naming import KindNames, ProjectNames
from levelset.cli.templates import kind as kind_texts
from levelset.cli.templates import project as project_texts
from levelset.cli.templates import webhook as webhook_texts
from levelset.codegen.dockerfile import docker_files

__all__ = ["add_lines", "kind_files", "kind_lines", "project_files", "webhook_files", "webhook_lines"]

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
    """What the operator's file must say of a kind, by the mark that it stands before."""
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
    """The text with each line before its mark, and imports among the others; and the lines whose mark is gone.

    A line that is there already is not added again.
    """
    lost: list[str] = []
    for mark, line in lines.items():
        rows: list[str] = text.splitlines()
        if line in rows:
            continue
        if mark == _IMPORTS:
            text = _with_import(rows, line)
            continue
        place = next((index for index, row in enumerate(rows) if row.strip() == f"{_MARK}{mark}"), None)
        if place is None:
            lost.append(line.strip())
            continue
        text = "\n".join([*rows[:place], line, *rows[place:]]) + "\n"
    return text, lost


def _with_import(rows: list[str], line: str) -> str:
    """The text with one more import among those of the same package, in the order of the alphabet."""
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
