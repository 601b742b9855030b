"""`levelset serve`: runs an API server on this machine."""

import asyncio
import shlex
import signal
import socket
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import click

from levelset.cli.etcd_options import EtcdOptions, etcd_options
from levelset.cli.output import UsageError, durability_option, output_option, progress, show_line
from levelset.errors import ConfigError

if TYPE_CHECKING:
    from levelset.apiserver.audit_log import AuditLog
    from levelset.storage import Storage

__all__ = ["serve"]

KUBECONFIG = "levelset.kubeconfig"
_MEMORY = "memory"


@click.command()
@click.option(
    "--data", default=_MEMORY, metavar="memory|PATH", help="Where objects are stored: in memory, or in a file."
)
@durability_option
@click.option("--etcd", metavar="URL,URL,...", help="Store objects in this etcd, instead of --data.")
@click.option(
    "--etcd-compaction",
    default=300.0,
    show_default=True,
    type=click.FloatRange(min=0),
    help="Compact etcd every so many seconds; 0 for never.",
)
@etcd_options
@click.option("--port", default=0, type=click.IntRange(0, 65535), help="The port to listen on; any free one if 0.")
@click.option(
    "--host", default="127.0.0.1", help="The address to listen on; 0.0.0.0 in a container.", show_default=True
)
@click.option("--kubeconfig", default=KUBECONFIG, type=click.Path(path_type=Path), help="The kubeconfig file to write.")
@click.option(
    "--token-file", type=click.Path(path_type=Path), help="A file with the accepted tokens; created if missing."
)
@click.option("--rbac", is_flag=True, help="Authorize other users than the owner by RBAC.")
@click.option(
    "--webhooks",
    type=click.Choice(["any", "loopback", "none"]),
    default="any",
    show_default=True,
    help="Which webhook servers may be called: any, only on this machine, or none.",
)
@click.option("--audit-log", metavar="FILE|-", help="The audit log, one JSON line for each request.")
@output_option
def serve(
    *,
    data: str,
    durability: Literal["full", "normal"],
    etcd: str | None,
    etcd_compaction: float,
    access: EtcdOptions,
    host: str,
    port: int,
    kubeconfig: Path,
    token_file: Path | None,
    rbac: bool,
    webhooks: Literal["any", "loopback", "none"],
    audit_log: str | None,
    output: str,
) -> None:
    """Runs a Kubernetes API server on this machine until SIGINT or SIGTERM.

    With --output json it prints its URL as a line of JSON when it is ready.
    """
    # Imported late: it is slow to import, and the help does not need it.
    from levelset.aio.event_loop import run  # noqa: PLC0415

    began = time.perf_counter()
    if etcd is not None and data != _MEMORY:
        raise UsageError("Objects are stored in etcd or in a file: pass --etcd or --data, not both.")
    place = _Place(data, durability, etcd, etcd_compaction or None, access)
    given = _Options(place, host, port, kubeconfig, token_file, rbac, webhooks, audit_log, output)
    try:
        run(_serve(given, began))
    except ConfigError as error:
        raise UsageError(str(error)) from error


class _Place(NamedTuple):
    """Where objects are stored."""

    data: str
    durability: Literal["full", "normal"]
    etcd: str | None
    compaction: float | None
    access: EtcdOptions

    @property
    def name(self) -> str:
        """As it is shown."""
        return self.data if self.etcd is None else self.etcd

    def secrets_path(self, kubeconfig: Path) -> str:
        """What the files with the token and the certificate authority are named after; etcd has none beside it."""
        return self.data if self.etcd is None else str(kubeconfig.with_suffix(""))

    async def open(self) -> "Storage":
        """The storage; raises ConfigError."""
        from levelset.apiserver.data_directory import check_data_path, open_storage  # noqa: PLC0415  # as above

        if self.etcd is None:
            await asyncio.to_thread(check_data_path, self.data)
            return await open_storage(self.data, self.durability)
        storage = await asyncio.to_thread(self.access.storage, self.etcd, compaction=self.compaction)
        await storage.start()
        return storage


class _Options(NamedTuple):
    """The options of the command."""

    place: _Place
    host: str
    port: int
    kubeconfig: Path
    token_file: Path | None
    rbac: bool
    webhooks: Literal["any", "loopback", "none"]
    audit_log: str | None
    output: str


async def _serve(given: _Options, began: float) -> None:
    from levelset.apiserver.data_directory import load_secrets  # noqa: PLC0415
    from levelset.apiserver.kubeconfig_file import ConnectionInfo, check_kubeconfig, write_kubeconfig  # noqa: PLC0415  # as above
    from levelset.apiserver.server import ApiServer  # noqa: PLC0415
    from levelset.apiserver.wire.webhook_client import WebhookClient  # noqa: PLC0415

    place, host, port, kubeconfig = given.place, given.host, given.port, given.kubeconfig
    # Checks first: nothing is created or changed if one fails.
    await asyncio.to_thread(check_kubeconfig, kubeconfig)
    await asyncio.to_thread(_check_port, host, port)
    with progress(f"opening {place.name}", output=given.output):
        storage = await place.open()
    try:
        stopped = _stop_event()
        users, authority = await asyncio.to_thread(load_secrets, place.secrets_path(kubeconfig), given.token_file)
        first = next(token for token, caller in users.items() if caller.is_master)
        options: dict[str, Any] = {"rbac": given.rbac, "audit_log": _audit_log(given.audit_log)}
        options["webhook_client"] = WebhookClient(reach=given.webhooks)
        options |= {"host": host, "port": port, "authority": authority}
        async with ApiServer(storage, token=first, tokens=users, **options) as server:
            url = _reachable_url(server.url)
            contact = ConnectionInfo(url, server.token, server.ca)
            await asyncio.to_thread(write_kubeconfig, kubeconfig, contact)
            _show_ready(given, url, (time.perf_counter() - began) * 1000)
            await stopped.wait()
    finally:
        await storage.close()


def _show_ready(given: _Options, url: str, milliseconds: float) -> None:
    """Prints the URL of the server; on stderr if stdout is the audit log."""
    kubeconfig, aside = given.kubeconfig, given.audit_log == "-"
    if given.output == "json":
        info = {"url": url, "kubeconfig": str(kubeconfig), "data": given.place.name, "ready_ms": round(milliseconds, 1)}
        show_line(info, err=aside)
        return
    for line in (
        f"url         {url}",
        f"kubeconfig  {kubeconfig}",
        f"ready in {milliseconds:.0f} ms. Next, in another terminal:",
        f"  kubectl --kubeconfig {shlex.quote(str(kubeconfig))} get namespaces",
    ):
        click.echo(line, err=aside)


def _audit_log(path: str | None) -> "AuditLog | None":
    """The audit log; SIGHUP reopens the file after a log rotation."""
    from levelset.apiserver.audit_log import AuditLog  # noqa: PLC0415  # as above

    if path is None:
        return None
    audit = AuditLog(path)
    asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, audit.reopen)
    return audit


def _reachable_url(url: str) -> str:
    """The URL for clients on this machine: on all addresses means also on loopback, which the certificate names."""
    return url.replace("//0.0.0.0:", "//127.0.0.1:").replace("//[::]:", "//[::1]:")


def _check_port(host: str, port: int) -> None:
    """Raises ConfigError if the port is in use: the server would notice only after the data file is open."""
    from levelset.http.server import listen_error_message  # noqa: PLC0415  # as above

    try:
        family, *_, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
        with socket.socket(family) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(address)
    except OSError as error:
        raise ConfigError(listen_error_message(error, host, port)) from error


def _stop_event() -> asyncio.Event:
    """An event that is set by SIGINT or SIGTERM; a second signal kills the process."""
    stopped = asyncio.Event()
    loop = asyncio.get_running_loop()

    def stop() -> None:
        stopped.set()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.remove_signal_handler(number)

    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop)
    return stopped
