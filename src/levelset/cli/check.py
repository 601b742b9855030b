"""`levelset check`: looks for what would go wrong, in the code and in the manifests, before a cluster does."""

import asyncio
from pathlib import Path

import click

from levelset.cli import checking
from levelset.cli.gathering import gather
from levelset.cli.linting import Complaint
from levelset.cli.progress import working
from levelset.cli.refusing import speaking
from levelset.cli.showing import output_option, show_json

__all__ = ["check"]


@click.command()
@click.argument("targets", metavar="MODULE...", nargs=-1, required=True)
@click.option(
    "--released",
    type=click.Path(path_type=Path, exists=True),
    help="The definitions of the last release: what would break objects stored under them is an error.",
)
@click.option(
    "--manifests",
    type=click.Path(path_type=Path, exists=True),
    help="Manifests whose Roles must allow all that the controllers do.",
)
@output_option
def check(targets: tuple[str, ...], released: Path | None, manifests: Path | None, output: str) -> None:
    """Looks for what would go wrong: definitions, permissions, calls that block, changes that break stored objects.

    Example: levelset check website --released released/crds --manifests manifests

    Exit codes: 0 nothing (or only warnings), 1 something, 2 it was not understood.
    """
    with speaking(), working("looks at the definitions, the code and the manifests", output=output):
        found = _check(targets, released, manifests)
    if output == "json":
        names = ("file", "line", "level", "problem", "next")
        show_json([{name: getattr(one, name) for name in names} for one in found])
    else:
        for one in found:
            click.echo(str(one))
        errors = sum(one.level == "error" for one in found)
        click.echo(f"{errors} errors, {len(found) - errors} warnings" if found else "nothing is wrong")
    if any(one.level == "error" for one in found):
        raise SystemExit(1)


def _check(targets: tuple[str, ...], released: Path | None, manifests: Path | None) -> list[Complaint]:
    project = gather(targets)
    definitions, found = checking.definitions_of(project)
    found += asyncio.run(checking.check_definitions(definitions))
    found += checking.check_code(project)
    if released is not None:
        found += checking.check_released(definitions, released)
    if manifests is not None:
        found += checking.check_permissions(project, manifests)
    return found
