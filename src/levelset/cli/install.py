"""`levelset install` and `uninstall`: puts definitions and manifests on a cluster, and takes them away again."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import click

from levelset.cli.gathering import gather
from levelset.cli.installing import Step, install_all, objects_at_stake, read_manifests, uninstall_all
from levelset.cli.progress import working
from levelset.cli.refusing import Refused, speaking
from levelset.cli.showing import output_option, show_json
from levelset.client.client import Client
from levelset.codegen.crd import crds_of

__all__ = ["install", "uninstall"]

F = TypeVar("F", bound=Callable[..., Any])


def _options(function: F) -> F:
    for option in reversed(
        [
            click.argument("targets", metavar="[MODULE:CONTROLLERS]...", nargs=-1),
            click.option("-f", "--file", "files", multiple=True, metavar="PATH", help="Manifests: a file or a folder."),
            click.option("--kubeconfig", metavar="PATH", help="The file that says where the cluster is."),
            click.option("--context", metavar="NAME", help="The context in it."),
        ]
    ):
        function = option(function)
    return function


@click.command()
@_options
@click.option("--within", default=60.0, show_default=True, help="Seconds to wait until definitions are served.")
@click.option("--dry-run", is_flag=True, help="Ask the server, and change nothing.")
@output_option
def install(
    *,
    targets: tuple[str, ...],
    files: tuple[str, ...],
    kubeconfig: str | None,
    context: str | None,
    output: str,
    **how: Any,
) -> None:
    """Applies the definitions of controllers' kinds, and manifests. Waits until they are served.

    Example: levelset install website:controllers -f manifests/
    """
    with speaking():
        documents = _documents(targets, files)

        async def work(client: Client) -> None:
            await _tell(install_all(client, documents, **how), len(documents), output)

        asyncio.run(_on(kubeconfig, context, work))


@click.command()
@_options
@click.option("--yes", is_flag=True, help="Do not ask, although objects of these kinds go with their definitions.")
@click.option("--within", default=60.0, show_default=True, help="Seconds to wait until they are gone.")
@output_option
def uninstall(
    *,
    targets: tuple[str, ...],
    files: tuple[str, ...],
    kubeconfig: str | None,
    context: str | None,
    yes: bool,
    within: float,
    output: str,
) -> None:
    """Takes from a cluster what `levelset install` with the same arguments has put there, in reverse order.

    A definition takes all objects of its kind with it, so it asks first if there are any.

    Example: levelset uninstall website:controllers
    """
    with speaking():
        documents = _documents(targets, files)

        async def work(client: Client) -> None:
            stake = await objects_at_stake(client, documents)
            if stake and not yes:
                await asyncio.to_thread(_confirm, stake)
            await _tell(uninstall_all(client, documents, within=within), len(documents), output)

        asyncio.run(_on(kubeconfig, context, work))


def _documents(targets: Sequence[str], files: Sequence[str]) -> list[dict[str, Any]]:

    if not targets and not files:
        raise Refused("say what: MODULE:CONTROLLERS for the definitions of their kinds, or -f PATH for manifests")
    project = gather(targets)
    found = crds_of(project.own_kinds, hubs=project.hubs)
    if targets and not found:
        raise Refused(f"{', '.join(targets)}: no kind of your own is there to be defined")
    for path in files:
        found += read_manifests(Path(path))
    return found


async def _tell(steps: AsyncGenerator[Step, None], count: int, output: str) -> None:
    """Shows each step when it is done, or all of them as JSON; and on a terminal which one is waited for."""
    done: list[Step] = []
    while True:
        with working(f"{len(done) + 1} of {count}: waits for the server"):
            step = await anext(steps, None)
        if step is None:
            break
        done.append(step)
        if output == "text":
            click.echo(str(step))
    if output == "json":
        show_json([{"object": one.object, "change": one.change} for one in done])


def _confirm(stake: Sequence[str]) -> None:
    click.echo(f"This deletes {', '.join(stake)} with the definitions.", err=True)
    if not click.confirm("Go on?", default=False, err=True):
        raise Refused("nothing was deleted")


async def _on(kubeconfig: str | None, context: str | None, work: Callable[[Client], Any]) -> None:

    async with await Client.connect(kubeconfig, context=context) as client:
        await work(client)
