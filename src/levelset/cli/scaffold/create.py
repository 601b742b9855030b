"""`levelset init`, `levelset create kind` and `levelset create webhook`: scaffolding of projects."""

import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path

import click

from levelset.cli.commands import CommandGroup
from levelset.cli.output import UsageError, output_option, reporting_errors, show_json
from levelset.cli.scaffold.project_files import (
    ConfirmOverwrite,
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

_force = click.option("--force", is_flag=True, help="Overwrite changed files without confirmation.")


@click.command()
@click.argument("folder", type=click.Path(path_type=Path, file_okay=False), default=".")
@click.option("--name", help="The name of the project; the folder's name unless given.")
@click.option("--kind", default="Greeting", show_default=True, help="The first kind.")
@click.option("--api", default="example.dev/v1", show_default=True, help="Its group and version.")
@_force
@output_option
def init(*, folder: Path, name: str | None, kind: str, api: str, force: bool, output: str) -> None:
    """Creates a project with one kind, its controller and its tests, which passes its own lint, types and tests.

    Existing files are never overwritten without confirmation.

    Example: levelset init shop --kind Order --api shop.example.dev/v1
    """
    with reporting_errors():
        names = check_project(name or folder.resolve().name.replace("_", "-"))
        first = check_kind(kind, api)
        project = _open(folder, force, output)
        operator = f"src/{names.package}/operator.py"  # later commands add to it, so it is written only once
        files = project_files(names)
        project.write({path: text for path, text in files.items() if path != operator or project.read(path) is None})
        lost = _add_kind(project, names, first)
    where = "" if folder == Path() else f"cd {folder} && "
    following = f"{where}make install lint test"
    _show_files(project, lost, output, following=following)
    if output == "text":
        click.echo(f"Next: {following}")


@click.group(cls=CommandGroup)
def create() -> None:
    """Adds a kind or webhooks to a project.

    Example: levelset create kind Order --api shop.example.dev/v1
    """


@create.command()
@click.argument("name", metavar="KIND")
@click.option("--api", required=True, help="Its group and version, such as shop.example.dev/v1.")
@_force
@output_option
def kind(name: str, api: str, force: bool, output: str) -> None:
    """Adds a kind: its classes, its controller and their tests.

    Example: levelset create kind Order --api shop.example.dev/v1
    """
    with reporting_errors():
        names, project = check_kind(name, api), _open(Path(), force, output)
        lost = _add_kind(project, _project_here(), names)
    _show_files(project, lost, output)


@create.command()
@click.argument("name", metavar="KIND")
@_force
@output_option
def webhook(name: str, force: bool, output: str) -> None:
    """Adds webhooks to a kind of the project: functions that default and validate its objects, and their tests.

    Example: levelset create webhook Order
    """
    with reporting_errors():
        names = check_kind(name, "example.dev/v1")
        here, project = _project_here(), _open(Path(), force, output)
        if project.read(f"src/{here.package}/{names.module}.py") is None:
            raise UsageError(
                f"there is no src/{here.package}/{names.module}.py; first: levelset create kind {name} --api ..."
            )
        project.write(webhook_files(here, names))
        lost = _add_to_operator(project, here, webhook_lines(here, names))
    _show_files(project, lost, output)


def _open(folder: Path, force: bool, output: str) -> Project:
    """The project; with JSON output it cannot ask, so changed files are not overwritten."""
    is_quiet = output == "json"
    return Project(folder, _confirm_overwrite(force, is_interactive=not is_quiet), is_quiet=is_quiet)


def _show_files(project: Project, lost: Sequence[str], output: str, *, following: str | None = None) -> None:
    """Prints as JSON the state of each file, the lines to add by hand, and the next command."""
    if output != "json":
        return
    files = [{"file": path, "state": state} for path, state in project.states.items()]
    show_json({"files": files, "add": list(lost)} | ({"next": following} if following else {}))


def _add_kind(project: Project, names: ProjectNames, kind: KindNames) -> list[str]:
    project.write(kind_files(names, kind))
    return _add_to_operator(project, names, kind_lines(names, kind))


def _add_to_operator(project: Project, names: ProjectNames, lines: Mapping[str, str]) -> list[str]:
    """Adds the lines to operator.py; prints and returns those whose marker comment is missing."""
    path = f"src/{names.package}/operator.py"
    text = project.read(path)
    if text is None:
        raise UsageError(f"there is no {path}; is this folder a project created by `levelset init`?")
    changed, lost = add_lines(text, lines)
    if changed != text:
        project.change(path, changed)
    for line in lost:
        click.echo(f"{path} has no marker comment for this line; add it by hand: {line}", err=True)
    return lost


def _project_here() -> ProjectNames:
    try:
        named = tomllib.loads(Path("pyproject.toml").read_text(encoding="utf-8"))["project"]["name"]
    except FileNotFoundError:
        raise UsageError(
            "there is no pyproject.toml in this directory; go to the project, or create one: levelset init"
        ) from None
    except (tomllib.TOMLDecodeError, KeyError, TypeError) as error:
        raise UsageError(f"pyproject.toml has no project name: {error}") from error
    return check_project(str(named))


def _confirm_overwrite(force: bool, *, is_interactive: bool) -> ConfirmOverwrite:
    def confirm(path: str, difference: str) -> bool:
        if force or not is_interactive:
            return force
        click.echo(difference)
        return click.confirm(f"{path} was changed since it was generated. Overwrite it?", default=False)

    return confirm
