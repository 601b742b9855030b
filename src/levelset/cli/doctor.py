"""`levelset doctor`: what is wrong with a kubeconfig, with permissions and definitions, and what to do about it."""

import asyncio
from collections.abc import Sequence
from typing import Any

import click

from levelset.cli.examining import Symptom, examine
from levelset.cli.gathering import gather
from levelset.cli.progress import working
from levelset.cli.refusing import speaking
from levelset.cli.showing import mark, output_option, show_json

__all__ = ["doctor"]


@click.command()
@click.argument("targets", metavar="[MODULE:CONTROLLERS]...", nargs=-1)
@click.option("--kubeconfig", metavar="PATH", help="The file that says where the cluster is.")
@click.option("--context", metavar="NAME", help="The context in it.")
@output_option
def doctor(targets: tuple[str, ...], kubeconfig: str | None, context: str | None, output: str) -> None:
    """Looks for what is wrong: the kubeconfig, the server, permissions, definitions and the clock.

    With controllers, it asks whether they may do what they do, and whether the definitions on the cluster are those of
    their classes.

    Example: levelset doctor website:controllers

    Exit codes: 0 all is well, 1 something is wrong, 2 it was not understood.
    """
    with speaking():
        with working("loads the controllers", output=output):
            project = gather(targets)
        with working("asks the cluster", output=output):
            found = asyncio.run(examine(kubeconfig, context, project))
    _show(found, output)
    if any(one.how == "fail" for one in found):
        raise SystemExit(1)


def _show(found: Sequence[Symptom], output: str) -> None:
    if output == "json":
        rows: list[dict[str, Any]] = [
            {"how": one.how, "what": one.what, "said": one.said, "next": one.next} for one in found
        ]
        show_json(rows)
        return
    for one in found:
        click.echo(f"{mark(one.how)} {one.what}: {one.said}")
        if one.next:
            click.echo(f"       next: {one.next}")
