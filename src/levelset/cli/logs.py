"""`levelset logs KIND/NAME`: the log of a Pod, or of another object with one, such as a program of a local system."""

import asyncio
import signal
from contextlib import suppress
from typing import Any

import click

from levelset.cli.output import UsageError, output_option, progress, reporting_errors, show_line
from levelset.cli.server_names import (
    complete_namespaces,
    find_kind,
    kubeconfig_options,
    object_argument,
    server_kubeconfig,
)
from levelset.client import Client
from levelset.objects.ref import Ref

__all__ = ["logs"]


@click.command()
@object_argument(subresource="log")
@click.option("-n", "--namespace", shell_complete=complete_namespaces, help="The namespace of the object.")
@click.option("-f", "--follow", is_flag=True, help="Goes on with what is written, until Ctrl-C.")
@click.option("--tail", type=click.IntRange(0), metavar="LINES", help="Only the last lines.")
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
            chosen = container or _first_container((await client.get(ref)).tree)
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


def _first_container(tree: Any) -> str | None:
    """The container to read if none is named, with a line that names the others; None for what has one log."""
    containers = tree.get("spec", {}).get("containers") if tree.get("kind") == "Pod" else None
    names: list[str] = [one["name"] for one in containers or ()]
    if len(names) < 2:
        return None
    click.echo(f"the log of container {names[0]}; the others: --container {', '.join(names[1:])}", err=True)
    return names[0]
