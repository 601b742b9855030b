"""The commands around the API server: `levelset serve` runs one, `levelset compact` makes it forget its history."""

import asyncio
import http.client
import json
import shlex
import signal
import socket
import ssl
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import click

from levelset.errors import ConfigError

if TYPE_CHECKING:
    from levelset.apiserver.kubeconfig import Contact
    from levelset.storage import Storage
    from levelset.web import Authority

__all__ = ["compact", "serve"]

KUBECONFIG = "levelset.kubeconfig"
MEMORY = "memory"
MILLISECONDS_TO_2020 = 1_577_836_800_000


@click.command()
@click.option("--data", default=MEMORY, metavar="memory|PATH", help="Where objects are kept: in memory, or in a file.")
@click.option("--port", default=0, type=click.IntRange(0, 65535), help="The port to listen on; any free one if 0.")
@click.option(
    "--kubeconfig", default=KUBECONFIG, type=click.Path(path_type=Path), help="The file that kubectl is to be given."
)
@click.option(
    "--token-file", type=click.Path(path_type=Path), help="A file with the tokens to accept; made if missing."
)
def serve(data: str, port: int, kubeconfig: Path, token_file: Path | None) -> None:
    """Runs a Kubernetes API server on this machine until it is stopped."""
    from levelset.web.loops import run  # noqa: PLC0415  # as below

    began = time.perf_counter()
    try:
        run(_serve(data, port, kubeconfig, token_file, began))
    except ConfigError as error:
        raise _Refused(str(error)) from error


@click.command()
@click.option(
    "--kubeconfig", default=KUBECONFIG, type=click.Path(path_type=Path), help="The file that `levelset serve` printed."
)
def compact(kubeconfig: Path) -> None:
    """Makes a running server forget its history of changes up to now."""
    # Late, because most commands need no server, and its parts take a while to load.
    from levelset.apiserver.kubeconfig import read_kubeconfig  # noqa: PLC0415

    try:
        told = _post(read_kubeconfig(kubeconfig), "/levelset/compact")
    except ConfigError as error:
        raise _Refused(str(error)) from error
    click.echo(f"forgot {told['forgotten']} changes; history begins at revision {told['compacted']}")


class _Refused(click.ClickException):
    """A sentence on stderr and exit code 2: it was not understood, or cannot start."""

    exit_code = 2

    def show(self, file: Any = None) -> None:
        """Prints the sentence alone."""
        click.echo(self.format_message(), err=True, file=file)


async def _serve(data: str, port: int, kubeconfig: Path, token_file: Path | None, began: float) -> None:
    from levelset.apiserver.kubeconfig import Contact, check_kubeconfig, write_kubeconfig  # noqa: PLC0415  # as above
    from levelset.apiserver.server import ApiServer  # noqa: PLC0415

    # Before anything is made or changed.
    await asyncio.to_thread(check_kubeconfig, kubeconfig)
    await asyncio.to_thread(_check_port, port)
    await asyncio.to_thread(_check_data, data)
    storage = await _open(data)
    try:
        stopped = _until_signal()
        (first, *more), authority = await asyncio.to_thread(_secrets, data, token_file)
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


def _check_data(data: str) -> None:
    if data != MEMORY and Path(data).is_dir():
        example = shlex.quote(str(Path(data, "levelset.db")))
        raise ConfigError(f"{data} is a directory, and the objects are kept in a file: try --data {example}")


async def _open(data: str) -> "Storage":
    from levelset.storage import MemoryStorage, SqliteStorage  # noqa: PLC0415  # as above

    if data == MEMORY:
        return MemoryStorage(after=_revisions_before())
    # A large file takes a while to read.
    return await SqliteStorage.open(data)


def _revisions_before() -> int:
    """More than a process before this one has used, unless it wrote a thousand times a second all its life.

    Clients that come back with one of those are told to list again; a store that began at 1 would let them wait for a
    future that has nothing to do with what they have seen.
    """
    return time.time_ns() // 1_000_000 - MILLISECONDS_TO_2020


def _secrets(data: str, token_file: Path | None) -> "tuple[list[str], Authority | None]":
    """The tokens and the authority: with data in a file they stay beside it, so that clients survive a restart."""
    from levelset.apiserver.authorities import load_authority  # noqa: PLC0415  # as above
    from levelset.apiserver.tokens import load_tokens, new_token  # noqa: PLC0415

    if data == MEMORY:
        return [new_token()] if token_file is None else load_tokens(token_file), None
    return load_tokens(token_file or f"{data}.token"), load_authority(f"{data}.authority")


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


def _post(contact: "Contact", path: str) -> dict[str, Any]:
    parts = urlsplit(contact.url)
    connection = _connect(parts.hostname or "", parts.port, contact)
    try:
        connection.request("POST", path, headers={"Authorization": f"Bearer {contact.token}"})
        answer = connection.getresponse()
        body = answer.read()
    except (OSError, http.client.HTTPException) as error:
        raise click.ClickException(f"The server at {contact.url} does not answer: {error}. Is it running?") from error
    finally:
        connection.close()
    if answer.status != 200:
        raise click.ClickException(f"The server at {contact.url} refused ({answer.status}): {body[:500].decode()}")
    told: dict[str, Any] = json.loads(body)
    return told


def _connect(host: str, port: int | None, contact: "Contact") -> http.client.HTTPConnection:
    if contact.ca is None:
        return http.client.HTTPConnection(host, port, timeout=30)
    context = ssl.create_default_context(cadata=contact.ca.decode("ascii"))
    return http.client.HTTPSConnection(host, port, timeout=30, context=context)
