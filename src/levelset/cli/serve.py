"""`levelset serve`: runs an API server on this machine."""

import asyncio
import shlex
import signal
import socket
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import click

from levelset.cli.output import Refused, output_option, show_line, working
from levelset.errors import ConfigError

if TYPE_CHECKING:
    from levelset.apiserver.audit_log import AuditLog

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
@click.option("--rbac", is_flag=True, help="Let roles decide what others than the owner may do.")
@click.option(
    "--webhooks",
    type=click.Choice(["any", "loopback", "none"]),
    default="any",
    show_default=True,
    help="Where webhooks may be that others register: anywhere, on this machine, or nowhere.",
)
@click.option("--audit-log", metavar="FILE|-", help="Where to write down who asked for what, one line of JSON each.")
@output_option
def serve(
    *,
    data: str,
    port: int,
    kubeconfig: Path,
    token_file: Path | None,
    rbac: bool,
    webhooks: Literal["any", "loopback", "none"],
    audit_log: str | None,
    output: str,
) -> None:
    """Runs a Kubernetes API server on this machine until it is stopped.

    With --output json it says where it is in a line of JSON, as soon as it is ready.
    """
    # Late: most of it takes a while to load, and the help needs none of it.
    from levelset.aio.event_loop import run  # noqa: PLC0415

    began = time.perf_counter()
    try:
        run(_serve(_Wanted(data, port, kubeconfig, token_file, rbac, webhooks, audit_log, output), began))
    except ConfigError as error:
        raise Refused(str(error)) from error


class _Wanted(NamedTuple):
    """What was typed."""

    data: str
    port: int
    kubeconfig: Path
    token_file: Path | None
    rbac: bool
    webhooks: Literal["any", "loopback", "none"]
    audit_log: str | None
    output: str


async def _serve(wanted: _Wanted, began: float) -> None:
    from levelset.apiserver.data_directory import check_data, open_data, secrets_of  # noqa: PLC0415
    from levelset.apiserver.kubeconfig_file import Contact, check_kubeconfig, write_kubeconfig  # noqa: PLC0415  # as above
    from levelset.apiserver.server import ApiServer  # noqa: PLC0415
    from levelset.apiserver.wire.webhook_targets import Targets  # noqa: PLC0415

    data, port, kubeconfig = wanted.data, wanted.port, wanted.kubeconfig
    # Before anything is made or changed.
    await asyncio.to_thread(check_kubeconfig, kubeconfig)
    await asyncio.to_thread(_check_port, port)
    await asyncio.to_thread(check_data, data)
    with working(f"opens {data}", output=wanted.output):
        storage = await open_data(data)
    try:
        stopped = _until_signal()
        users, authority = await asyncio.to_thread(secrets_of, data, wanted.token_file)
        first = next(token for token, caller in users.items() if caller.is_master)
        options: dict[str, Any] = {"rbac": wanted.rbac, "audit": _audit_log(wanted.audit_log)}
        options["targets"] = Targets(reach=wanted.webhooks)
        async with ApiServer(storage, port=port, token=first, tokens=users, authority=authority, **options) as server:
            contact = Contact(server.url, server.token, server.ca)
            await asyncio.to_thread(write_kubeconfig, kubeconfig, contact)
            _tell(wanted, server.url, (time.perf_counter() - began) * 1000)
            await stopped.wait()
    finally:
        await storage.close()


def _tell(wanted: _Wanted, url: str, milliseconds: float) -> None:
    """Says where the server is; aside if standard output is for the audit log."""
    kubeconfig, aside = wanted.kubeconfig, wanted.audit_log == "-"
    if wanted.output == "json":
        told = {"url": url, "kubeconfig": str(kubeconfig), "data": wanted.data, "ready_ms": round(milliseconds, 1)}
        show_line(told, err=aside)
        return
    for line in (
        f"url         {url}",
        f"kubeconfig  {kubeconfig}",
        f"ready in {milliseconds:.0f} ms. Type next, in another terminal:",
        f"  kubectl --kubeconfig {shlex.quote(str(kubeconfig))} get namespaces",
    ):
        click.echo(line, err=aside)


def _audit_log(path: str | None) -> "AuditLog | None":
    """The log, which goes on in a new file when a SIGHUP says that the old one was moved away."""
    from levelset.apiserver.audit_log import AuditLog  # noqa: PLC0415  # as above

    if path is None:
        return None
    audit = AuditLog(path)
    asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, audit.reopen)
    return audit


def _check_port(port: int) -> None:
    """Makes sure that the port is free; the server says so too, but the data file is open by then."""
    from levelset.http.server import explain  # noqa: PLC0415  # as above

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
