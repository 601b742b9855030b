"""`levelset logs KIND/NAME`: the log of a Pod, or of another object with one, such as a program of a local system."""

import asyncio
import re
import signal
from contextlib import suppress
from typing import Any, Final

import click

from levelset.cli.output import CommandFailed, UsageError, output_option, progress, reporting_errors, show_line
from levelset.cli.server_names import (
    complete_namespaces,
    find_kind,
    kubeconfig_options,
    object_argument,
    server_kubeconfig,
)
from levelset.client import Client, OnlyMetadata
from levelset.client.internals import list_page
from levelset.command_parser import suggestion
from levelset.errors import NotFound
from levelset.objects.ref import Ref

__all__ = ["logs"]

_MOST_COMPARED: Final = 500
_UNITS: Final = {"s": 1, "m": 60, "h": 3600}


def _read_time(_: click.Context, option: click.Parameter, value: str | None) -> float | None:
    found = re.fullmatch(r"([0-9]{1,9}(?:\.[0-9]{1,3})?)([smh])", value or "")
    if value is not None and found is None:
        raise click.BadParameter(f"{value}: expected a time such as 90s, 10m or 1h", param=option)
    return None if found is None else float(found[1]) * _UNITS[found[2]]


@click.command()
@object_argument(subresource="log", kind_of_names="pod")
@click.option("-n", "--namespace", shell_complete=complete_namespaces, help="The namespace of the object.")
@click.option("-f", "--follow", is_flag=True, help="Goes on with what is written, until Ctrl-C.")
@click.option("--tail", type=click.IntRange(0), metavar="LINES", help="Only the last lines.")
@click.option("--since", metavar="TIME", callback=_read_time, help="Only what is newer, such as 10m.")
@click.option("-p", "--previous", is_flag=True, help="The run of the container before its last restart.")
@click.option("--timestamps", is_flag=True, help="Begins each line with its time.")
@click.option("-c", "--container", metavar="NAME", help="The container of a Pod that has several.")
@click.option("--source", metavar="NAME", help="Which log of an Executable or Container: stdout, stderr, ...")
@kubeconfig_options
@output_option
def logs(*, kubeconfig: str | None, context: str | None, **options: Any) -> None:
    """Prints the log of a Pod, or of another object that has one.

    The kind may be written as in kubectl; a name alone is a Pod. Local Pods, Executables and Containers have logs. With
    --output json each line is an object.

    Example: levelset logs executable/api --follow
    """
    with reporting_errors():
        asyncio.run(_run(server_kubeconfig(kubeconfig), context, options))


async def _run(kubeconfig: str | None, context: str | None, options: dict[str, Any]) -> None:
    """Reads until the end, or until SIGINT or SIGTERM."""
    reading = asyncio.create_task(_read(kubeconfig, context, **options))
    for number in (signal.SIGINT, signal.SIGTERM):
        # Not in a thread of a program that has its own handlers.
        with suppress(ValueError, RuntimeError):
            asyncio.get_running_loop().add_signal_handler(number, reading.cancel)
    with suppress(asyncio.CancelledError):
        await reading


async def _read(
    kubeconfig: str | None,
    context: str | None,
    *,
    thing: str,
    namespace: str | None,
    output: str,
    container: str | None,
    **options: Any,
) -> None:
    async with await Client.connect(kubeconfig, context=context) as client:
        with progress("waiting for the server", output=output):
            ref = await _object(client, thing, namespace)
            chosen = container or _first_container(await _tree(client, ref))
        async with client.logs(ref, container=chosen, **options) as lines:
            async for line in lines:
                if output == "json":
                    show_line({"object": str(ref), "line": line})
                else:
                    click.echo(line)


async def _object(client: Client, thing: str, namespace: str | None) -> Ref[Any]:
    kind, name = thing.split("/") if thing.count("/") == 1 else ("pod", thing)
    if not kind or not name or "/" in name:
        raise UsageError(f"{thing!r} is not KIND/NAME; write for example pod/web")
    served = await find_kind(client, kind)
    if "log" not in served.subresources:
        raise UsageError(f"{served.gvk.kind} has no log; Pods have one: levelset logs pod/NAME")
    return Ref(served.gvk, name, (namespace or client.namespace) if served.namespaced else None)


async def _tree(client: Client, ref: Ref[Any]) -> Any:
    """The object; if it does not exist, the error suggests the nearest name."""
    try:
        return (await client.get(ref)).tree
    except NotFound as error:
        page = await list_page(client, OnlyMetadata(ref.gvk), namespace=ref.namespace, limit=_MOST_COMPARED)
        near = suggestion(ref.name, [one.name for one in page.items])
        if not near:
            raise
        where = f" in namespace {ref.namespace}" if ref.namespace else ""
        raise CommandFailed(f"there is no {ref.gvk.kind} {ref.name}{where}. {near}") from error


def _first_container(tree: Any) -> str | None:
    """The container to read if none is named, with a line that names the others; None for what has one log."""
    containers = tree.get("spec", {}).get("containers") if tree.get("kind") == "Pod" else None
    names: list[str] = [one["name"] for one in containers or ()]
    if len(names) < 2:
        return None
    click.echo(f"the log of container {names[0]}; the others: --container {', '.join(names[1:])}", err=True)
    return names[0]
