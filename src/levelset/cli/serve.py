"""`levelset serve`: runs an API server on this machine."""

import asyncio
import shlex
import signal
import socket
import time
from pathlib import Path

import click

from levelset.cli.refusing import Refused
from levelset.errors import ConfigError

__all__ = ["serve"]

KUBECONFIG = "levelset.kubeconfig"


@click.command()
@click.option(
    "--data", default="memory", metavar="memory|PATH", help="Where objects are kept: in memory, or in a file."
)
@click.option("--port", default=0, type=click.IntRange(0, 65535), help="The port to listen on; any free one if 0.")
@click.option(
    "--kubeconfig", default=KUBECONFIG, type=click.Path(path_type=Path), help="The file that kubectl is to be given."
)
@click.option(
    "--token-file", type=click.Path(path_type=Path), help="A file with the tokens to accept; made if missing."
)
def serve(data: str, port: int, kubeconfig: Path, token_file: Path | None) -> None:
    """Runs a Kubernetes API server on this machine until it is stopped."""
    # Late: most of it takes a while to load, and the help needs none of it.
    from levelset.web.loops import run  # noqa: PLC0415

    began = time.perf_counter()
    try:
        run(_serve(data, port, kubeconfig, token_file, began))
    except ConfigError as error:
        raise Refused(str(error)) from error


async def _serve(data: str, port: int, kubeconfig: Path, token_file: Path | None, began: float) -> None:
    from levelset.apiserver.kubeconfig import Contact, check_kubeconfig, write_kubeconfig  # noqa: PLC0415  # as above
    from levelset.apiserver.server import ApiServer  # noqa: PLC0415
    from levelset.apiserver.stores import check_data, open_data, secrets_of  # noqa: PLC0415

    # Before anything is made or changed.
    await asyncio.to_thread(check_kubeconfig, kubeconfig)
    await asyncio.to_thread(_check_port, port)
    await asyncio.to_thread(check_data, data)
    storage = await open_data(data)
    try:
        stopped = _until_signal()
        (first, *more), authority = await asyncio.to_thread(secrets_of, data, token_file)
        async with ApiServer(storage, port=port, token=first, tokens=more, authority=authority) as server:
            contact = Contact(server.url, server.token, server.ca)
            await asyncio.to_thread(write_kubeconfig, kubeconfig, contact)
            milliseconds = (time.perf_counter() - began) * 1000
            click.echo(f"url         {server.url}")
            click.echo(f"kubeconfig  {kubeconfig}")
            click.echo(f"ready in {milliseconds:.0f} ms. Type next, in another terminal:")
            click.echo(f"  kubectl --kubeconfig {shlex.quote(str(kubeconfig))} get namespaces")
            await stopped.wait()
    finally:
        await storage.close()


def _check_port(port: int) -> None:
    """Makes sure that the port is free; the server says so too, but the data file is open by then."""
    from levelset.web.serving import explain  # noqa: PLC0415  # as above

    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError as error:
            raise ConfigError(explain(error, "127.0.0.1", port)) from error


def _until_signal() -> asyncio.Event:
    """An event that the signals to stop set; a second one ends the process the hard way."""
    stopped = asyncio.Event()
    loop = asyncio.get_running_loop()

    def stop() -> None:
        stopped.set()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.remove_signal_handler(number)

    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop)
    return stopped
