"""`levelset init`, `levelset create kind` and `levelset create webhook`: a project that works at once, and grows."""

import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path

import click

from levelset.cli.output import Refused, output_option, show_json, speaking
from levelset.cli.scaffold.project_files import (
    Answer,
    KindNames,
    Project,
    ProjectNames,
    add_lines,
    check_kind,
    check_project,
    kind_files,
    kind_lines,
    project_files,
    webhook_files,
    webhook_lines,
)

__all__ = ["create", "init", "kind", "webhook"]

_force = click.option("--force", is_flag=True, help="Overwrite files that were changed, without asking.")


@click.command()
@click.argument("folder", type=click.Path(path_type=Path, file_okay=False), default=".")
@click.option("--name", help="What the project is called; the folder's name unless given.")
@click.option("--kind", default="Greeting", show_default=True, help="The first kind.")
@click.option("--api", default="example.dev/v1", show_default=True, help="Its group and version.")
@_force
@output_option
def init(*, folder: Path, name: str | None, kind: str, api: str, force: bool, output: str) -> None:
    """Makes a project with one kind, its controller and its tests. It passes its own lint, types and tests at once.

    What is there already is never overwritten without asking.

    Example: levelset init shop --kind Order --api shop.example.dev/v1
    """
    with speaking():
        names = check_project(name or folder.resolve().name.replace("_", "-"))
        first = check_kind(kind, api)
        project = _open(folder, force, output)
        operator = f"src/{names.package}/operator.py"  # grows with the project, so it is written once
        files = project_files(names)
        project.write({path: text for path, text in files.items() if path != operator or project.read(path) is None})
        lost = _add_kind(project, names, first)
    where = "" if folder == Path() else f"cd {folder} && "
    following = f"{where}make install lint test"
    _tell(project, lost, output, following=following)
    if output == "text":
        click.echo(f"Type next: {following}")


@click.group()
def create() -> None:
    """Adds a kind or webhooks to a project."""


@create.command()
@click.argument("name", metavar="KIND")
@click.option("--api", required=True, help="Its group and version, such as shop.example.dev/v1.")
@_force
@output_option
def kind(name: str, api: str, force: bool, output: str) -> None:
    """Adds a kind: its classes, its controller and their tests.

    Example: levelset create kind Order --api shop.example.dev/v1
    """
    with speaking():
        names, project = check_kind(name, api), _open(Path(), force, output)
        lost = _add_kind(project, _project_here(), names)
    _tell(project, lost, output)


@create.command()
@click.argument("name", metavar="KIND")
@_force
@output_option
def webhook(name: str, force: bool, output: str) -> None:
    """Adds webhooks to a kind of the project: functions that fill in and check its objects, and their tests.

    Example: levelset create webhook Order
    """
    with speaking():
        names = check_kind(name, "example.dev/v1")
        here, project = _project_here(), _open(Path(), force, output)
        if project.read(f"src/{here.package}/{names.module}.py") is None:
            raise Refused(
                f"there is no src/{here.package}/{names.module}.py; first: levelset create kind {name} --api ..."
            )
        project.write(webhook_files(here, names))
        lost = _tell_operator(project, here, webhook_lines(here, names))
    _tell(project, lost, output)


def _open(folder: Path, force: bool, output: str) -> Project:
    """The project; a program that reads JSON cannot be asked, and keeps what somebody changed."""
    is_quiet = output == "json"
    return Project(folder, _asks(force, may_ask=not is_quiet), is_quiet=is_quiet)


def _tell(project: Project, lost: Sequence[str], output: str, *, following: str | None = None) -> None:
    """Says as JSON what became of each file, which lines somebody must add themselves, and what to type next."""
    if output != "json":
        return
    files = [{"file": path, "state": state} for path, state in project.told.items()]
    show_json({"files": files, "add": list(lost)} | ({"next": following} if following else {}))


def _add_kind(project: Project, names: ProjectNames, kind: KindNames) -> list[str]:
    project.write(kind_files(names, kind))
    return _tell_operator(project, names, kind_lines(names, kind))


def _tell_operator(project: Project, names: ProjectNames, lines: Mapping[str, str]) -> list[str]:
    """Adds the lines to the operator's file; gives those whose mark is gone, after saying so."""
    path = f"src/{names.package}/operator.py"
    text = project.read(path)
    if text is None:
        raise Refused(f"there is no {path}; is this folder a project that `levelset init` made?")
    changed, lost = add_lines(text, lines)
    if changed != text:
        project.change(path, changed)
    for line in lost:
        click.echo(f"{path} has lost its mark; add this line yourself: {line}", err=True)
    return lost


def _project_here() -> ProjectNames:
    try:
        named = tomllib.loads(Path("pyproject.toml").read_text(encoding="utf-8"))["project"]["name"]
    except FileNotFoundError:
        raise Refused(
            "there is no pyproject.toml here; go to the project's folder, or make one: levelset init"
        ) from None
    except (tomllib.TOMLDecodeError, KeyError, TypeError) as error:
        raise Refused(f"pyproject.toml does not say the project's name: {error}") from error
    return check_project(str(named))


def _asks(force: bool, *, may_ask: bool) -> Answer:
    def ask(path: str, difference: str) -> bool:
        if force or not may_ask:
            return force
        click.echo(difference)
        return click.confirm(f"{path} was changed by somebody. Overwrite it?", default=False)

    return ask
