"""`levelset serve`: runs an API server on this machine."""

import asyncio
import shlex
import signal
import socket
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import click

from levelset.cli.etcd_options import EtcdOptions, etcd_options
from levelset.cli.main import STARTED
from levelset.cli.output import UsageError, durability_option, output_option, progress, show_line, version_option
from levelset.errors import ConfigError

if TYPE_CHECKING:
    from levelset.apiserver import AuditLog, SecretBox, User
    from levelset.http import CertificateAuthority
    from levelset.storage import Storage

__all__ = ["serve"]

KUBECONFIG = "levelset.kubeconfig"
_MEMORY = "memory"
_COMMAND = "from levelset.cli.main import main; main()"


@click.command()
@click.option(
    "--data", default=_MEMORY, metavar="memory|PATH", help="Where objects are stored: in memory, or in a file."
)
@durability_option
@click.option("--etcd", metavar="URL,URL,...", help="Store objects in this etcd, instead of --data.")
@click.option(
    "--compaction",
    default=300.0,
    show_default=True,
    type=click.FloatRange(min=0),
    help="Discard the history, of etcd too, every so many seconds, up to one period ago; 0 for never.",
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
@click.option(
    "--secrets-key",
    type=click.Path(path_type=Path),
    help="A key file: the authority and the tokens are then in etcd, encrypted, for all servers; created if missing.",
)
@click.option("--workers", default=1, show_default=True, type=click.IntRange(1, 64), help="Servers behind the port.")
@click.option("--worker", type=int, hidden=True)
@click.option("--server", "servers", multiple=True, metavar="URL", help="A further server on this etcd, for clients.")
@click.option("--tls-san", "names", multiple=True, help="A further name or address of the certificate.")
@click.option("--rbac", is_flag=True, help="Authorize other users than the owner by RBAC.")
@click.option(
    "--webhooks",
    type=click.Choice(["any", "loopback", "none"]),
    default="any",
    show_default=True,
    help="Which webhook servers may be called: any, only on this machine, or none.",
)
@click.option(
    "--webhook-service",
    "webhook_services",
    multiple=True,
    metavar="NAMESPACE/NAME[:PORT]=HOST:PORT",
    help="Where the Service of a webhook is reached; others at their endpoints, external name or ClusterIP.",
)
@version_option
@click.option(
    "--service-cluster-ip-range",
    "service_ranges",
    metavar="CIDR[,CIDR]",
    help="The range of ClusterIPs; one of IPv4 and one of IPv6 for dual-stack Services.",
)
@click.option("--audit-log", metavar="FILE|-", help="The audit log, one JSON line for each request.")
@output_option
def serve(
    *,
    data: str,
    durability: Literal["full", "normal"],
    etcd: str | None,
    compaction: float,
    access: EtcdOptions,
    host: str,
    port: int,
    kubeconfig: Path,
    token_file: Path | None,
    secrets_key: Path | None,
    workers: int,
    worker: int | None,
    servers: tuple[str, ...],
    names: tuple[str, ...],
    rbac: bool,
    webhooks: Literal["any", "loopback", "none"],
    webhook_services: tuple[str, ...],
    kubernetes_version: str | None,
    service_ranges: str | None,
    audit_log: str | None,
    output: str,
) -> None:
    """Runs a Kubernetes API server on this machine until SIGINT or SIGTERM.

    With --output json it prints its URL as a line of JSON when it is ready.

    Example: levelset serve --data shop.db --kubeconfig shop.kubeconfig
    """
    # Imported late: it is slow to import, and the help does not need it.
    from levelset.aio.event_loop import run  # noqa: PLC0415

    if etcd is not None and data != _MEMORY:
        raise UsageError("Objects are stored in etcd or in a file: pass --etcd or --data, not both.")
    if etcd is None and (workers > 1 or secrets_key is not None or servers):
        raise UsageError("--workers, --secrets-key and --server are for several servers on one etcd: pass --etcd.")
    if workers > 1 and audit_log == "-":
        raise UsageError("Several workers cannot share standard output: name a file with --audit-log.")
    place = _Place(data, durability, etcd, compaction or None, access, secrets_key)
    reach = _Reach(host, port, worker, servers, names)
    called = _Webhooks(webhooks, webhook_services)
    shown = _Shown(kubernetes_version, service_ranges)
    given = _Options(place, reach, kubeconfig, token_file, rbac, called, shown, audit_log, output)
    try:
        run(_serve(given) if workers == 1 else _serve_workers(given, workers))
    except ConfigError as error:
        raise UsageError(str(error)) from error


class _Place(NamedTuple):
    """Where objects are stored."""

    data: str
    durability: Literal["full", "normal"]
    etcd: str | None
    compaction: float | None
    access: EtcdOptions
    secrets_key: Path | None

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

    async def secrets(
        self, storage: "Storage", kubeconfig: Path, token_file: Path | None
    ) -> "tuple[dict[str, User], CertificateAuthority | None, SecretBox | None]":
        """The users, the authority, and what encrypts secrets: from files, or with a secrets key from etcd."""
        from levelset.apiserver import data_directory  # noqa: PLC0415  # as above

        if self.secrets_key is None:
            path = self.secrets_path(kubeconfig)
            return *await asyncio.to_thread(data_directory.load_secrets, path, token_file), None
        return await data_directory.load_shared_secrets(storage, self.secrets_key, token_file)

    def arguments(self) -> list[str]:
        """The options of the command that say the same."""
        given = {"--etcd": self.etcd, "--compaction": self.compaction or 0, "--secrets-key": self.secrets_key}
        return _arguments({**given, **self.access.arguments()})


class _Reach(NamedTuple):
    """How clients reach the server."""

    host: str
    port: int
    worker: int | None
    """The number of this process, if it is one of several behind one port."""
    servers: tuple[str, ...]
    names: tuple[str, ...]


class _Webhooks(NamedTuple):
    """Which webhook servers are called, and where their Services are."""

    reach: Literal["any", "loopback", "none"]
    services: tuple[str, ...]


class _Shown(NamedTuple):
    """The properties of the cluster that clients are shown; None for the default."""

    kubernetes_version: str | None
    service_ranges: str | None

    def options(self) -> dict[str, str | None]:
        """As options of the server."""
        given: dict[str, str | None] = {"kubernetes_version": self.kubernetes_version}
        return given if self.service_ranges is None else {**given, "service_addresses": self.service_ranges}

    def arguments(self) -> dict[str, str | None]:
        """The options of the command that say the same."""
        return {
            "--kubernetes-version": self.kubernetes_version,
            "--service-cluster-ip-range": self.service_ranges,
        }


class _Options(NamedTuple):
    """The options of the command."""

    place: _Place
    reach: _Reach
    kubeconfig: Path
    token_file: Path | None
    rbac: bool
    webhooks: _Webhooks
    shown: _Shown
    audit_log: str | None
    output: str

    def arguments(self, port: int) -> list[str]:
        """The options of a worker that listens on this port."""
        reach = self.reach
        given = {"--host": reach.host, "--port": port, "--kubeconfig": self.kubeconfig, "--token-file": self.token_file}
        given |= {"--webhooks": self.webhooks.reach, "--audit-log": self.audit_log, "--output": "json"}
        given |= self.shown.arguments()
        several = [*(("--server", one) for one in reach.servers), *(("--tls-san", one) for one in reach.names)]
        several += [("--webhook-service", one) for one in self.webhooks.services]
        flags = ["--rbac"] if self.rbac else []
        return [*self.place.arguments(), *_arguments(given), *(text for pair in several for text in pair), *flags]


def _arguments(options: Mapping[str, object]) -> list[str]:
    return [text for name, value in options.items() if value is not None for text in (name, str(value))]


async def _serve(given: _Options) -> None:
    from levelset.apiserver.kubeconfig_file import ConnectionInfo, claim_kubeconfig  # noqa: PLC0415  # as above
    from levelset.apiserver.server import ApiServer  # noqa: PLC0415
    from levelset.apiserver.wire.webhook_client import WebhookClient, parse_service_address  # noqa: PLC0415

    place, reach, kubeconfig = given.place, given.reach, given.kubeconfig
    services = dict(map(parse_service_address, given.webhooks.services))
    if reach.worker is None:
        await _check(kubeconfig, reach.host, reach.port)
    with progress(f"opening {place.name}", output=given.output):
        storage = await place.open()
    try:
        stopped = _stop_event()
        users, authority, secrets = await place.secrets(storage, kubeconfig, given.token_file)
        first = next(token for token, caller in users.items() if caller.is_master)
        options: dict[str, Any] = {"rbac": given.rbac, "audit_log": _audit_log(given.audit_log, reach.worker)}
        options["webhook_client"] = WebhookClient(reach=given.webhooks.reach)
        options |= {"webhook_services": services, "cluster_defaults": True, "compaction": place.compaction}
        options |= given.shown.options()
        options |= {"host": reach.host, "port": reach.port, "names": reach.names, "authority": authority}
        options |= {"secrets": secrets, "reuse_port": reach.worker is not None}
        async with ApiServer(storage, token=first, tokens=users, **options) as server:
            url = _reachable_url(server.url)
            if not reach.worker:  # the first of several writes it
                contact = ConnectionInfo(url, server.token, server.ca, reach.servers)
                await asyncio.to_thread(claim_kubeconfig, kubeconfig, contact)
            _show_ready(given, url, (time.perf_counter() - STARTED) * 1000)
            await _wait_end(stopped, reach.worker)
    finally:
        await storage.close()


async def _wait_end(stopped: asyncio.Event, worker: int | None) -> None:
    """Waits for a signal, or for the end of the parent of a worker."""
    ends: list[asyncio.Future[Any]] = [asyncio.ensure_future(stopped.wait())]
    if worker is not None:
        from levelset.apiserver.server_workers import wait_parent  # noqa: PLC0415  # as above

        ends.append(asyncio.ensure_future(wait_parent()))
    try:
        await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for one in ends:
            one.cancel()
        await asyncio.gather(*ends, return_exceptions=True)


async def _check(kubeconfig: Path, host: str, port: int) -> None:
    """Checks first: nothing is created or changed if one fails."""
    from levelset.apiserver.kubeconfig_file import check_kubeconfig  # noqa: PLC0415  # as above

    await asyncio.to_thread(check_kubeconfig, kubeconfig)
    await asyncio.to_thread(_check_port, host, port)


async def _serve_workers(given: _Options, number: int) -> None:
    """Runs several servers behind one port until SIGINT or SIGTERM."""
    from levelset.apiserver.server_workers import WorkerGroup, reserve_port  # noqa: PLC0415  # as above

    await _check(given.kubeconfig, given.reach.host, given.reach.port)
    stopped = _stop_event()
    with await asyncio.to_thread(reserve_port, given.reach.host, given.reach.port) as held:
        command = [sys.executable, "-c", _COMMAND, "serve", *given.arguments(held.getsockname()[1])]
        workers = WorkerGroup(command, number)
        try:
            with progress(f"starting {number} workers", output=given.output):
                first = await workers.start()
            asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, workers.reopen_logs)
            _show_ready(given, first["url"], (time.perf_counter() - STARTED) * 1000)
            await stopped.wait()
        finally:
            await workers.stop()


def _show_ready(given: _Options, url: str, milliseconds: float) -> None:
    """Prints the URL of the server; on stderr if stdout is the audit log."""
    kubeconfig, aside = given.kubeconfig, given.audit_log == "-"
    if given.output == "json":
        info = {"url": url, "kubeconfig": str(kubeconfig), "data": given.place.name, "ready_ms": round(milliseconds, 1)}
        show_line(info, err=aside)
        return
    from levelset.runtime.manager.ready_message import fact_lines, ready_lines  # noqa: PLC0415  # as above

    hint = f"kubectl --kubeconfig {shlex.quote(str(kubeconfig))} get namespaces"
    for line in (*fact_lines({"url": url, "kubeconfig": str(kubeconfig)}), *ready_lines(milliseconds, [hint])):
        click.echo(line, err=aside)


def _audit_log(path: str | None, worker: int | None) -> "AuditLog | None":
    """The audit log; SIGHUP reopens the file after a log rotation."""
    from levelset.apiserver.audit_log import AuditLog  # noqa: PLC0415  # as above

    if path is None:
        return None
    if worker is not None:
        from levelset.apiserver.server_workers import audit_log_of  # noqa: PLC0415  # as above

        path = audit_log_of(path, worker)
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
