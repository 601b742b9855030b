"""`levelset install` and `uninstall`: puts definitions and manifests on a cluster, and takes them away again."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import click

from levelset.cli.awaiting import Doing
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
@click.option(
    "--timeout",
    "within",
    default=60.0,
    show_default=True,
    help="Seconds to wait until definitions are served and programs run.",
)
@click.option("--wait/--no-wait", default=True, help="Wait until Deployments and the like run; on unless --no-wait.")
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
    """Applies the definitions of controllers' kinds, and manifests. Waits until they are served, and run.

    Deployments, StatefulSets, DaemonSets and Jobs are waited for after all is applied, until they run what was applied.

    Example: levelset install website:controllers -f manifests/

    Exit codes: 0 done, 1 something failed or did not run in time, 2 it was not understood.
    """
    with speaking():
        documents, doing = _documents(targets, files, output), Doing()

        async def work(client: Client) -> None:
            await _tell(install_all(client, documents, doing=doing, **how), doing, output)

        asyncio.run(_on(kubeconfig, context, work))


@click.command()
@_options
@click.option("--yes", is_flag=True, help="Do not ask, although objects of these kinds go with their definitions.")
@click.option("--timeout", "within", default=60.0, show_default=True, help="Seconds to wait until each is gone.")
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
        documents, doing = _documents(targets, files, output), Doing()

        async def work(client: Client) -> None:
            with working("looks which objects there are", output=output):
                stake = await objects_at_stake(client, documents)
            if stake and not yes:
                await asyncio.to_thread(_confirm, stake)
            await _tell(uninstall_all(client, documents, within=within, doing=doing), doing, output)

        asyncio.run(_on(kubeconfig, context, work))


def _documents(targets: Sequence[str], files: Sequence[str], output: str) -> list[dict[str, Any]]:
    if not targets and not files:
        raise Refused("say what: MODULE:CONTROLLERS for the definitions of their kinds, or -f PATH for manifests")
    with working("loads the controllers", output=output):
        project = gather(targets)
        found = crds_of(project.own_kinds, hubs=project.hubs)
    if targets and not found:
        raise Refused(f"{', '.join(targets)}: no kind of your own is there to be defined")
    for path in files:
        found += read_manifests(Path(path))
    return found


async def _tell(steps: AsyncGenerator[Step, None], doing: Doing, output: str) -> None:
    """Shows each step when it is done, or all of them as JSON at the end, also if that is a failure.

    On a terminal it shows what is waited for.
    """
    done: list[Step] = []
    try:
        while True:
            with working(lambda: f"{len(done) + 1} of {doing.steps}: {doing.what}", output=output):
                step = await anext(steps, None)
            if step is None:
                return
            done.append(step)
            if output == "text":
                click.echo(str(step))
    finally:
        if output == "json":
            show_json([{"object": one.object, "change": one.change} for one in done])


def _confirm(stake: Sequence[str]) -> None:
    click.echo(f"This deletes {', '.join(stake)} with the definitions.", err=True)
    if not click.confirm("Go on?", default=False, err=True):
        raise Refused("nothing was deleted")


async def _on(kubeconfig: str | None, context: str | None, work: Callable[[Client], Any]) -> None:
    async with await Client.connect(kubeconfig, context=context) as client:
        await work(client)
