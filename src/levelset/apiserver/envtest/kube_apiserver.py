"""The program `kube-apiserver` of `levelset envtest`: the API server, with the flags and files that envtest gives it.

It does what kube-apiserver does alone, without kube-controller-manager: nothing is garbage collected, and a namespace
that is deleted stays Terminating. `--levelset-controllers` in front of the flags adds these controllers.
"""

import asyncio
import os
import signal
import ssl
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from levelset.apiserver.envtest.kube_apiserver_flags import ServerFlags, help_text, parse_flags
from levelset.errors import ConfigError, LevelsetError

if TYPE_CHECKING:
    from levelset.apiserver.authn.users import User
    from levelset.apiserver.server import ApiServer

__all__ = ["CONTROLLERS", "build_server", "main", "serve"]

CONTROLLERS: Final = "--levelset-controllers"
_PARENT_SECONDS: Final = 1.0
_STOP_SECONDS: Final = 2.0


def main(arguments: Sequence[str] | None = None) -> int:
    """Serves until SIGTERM, SIGINT or the end of its parent; returns the exit code, with an error on stderr."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    controllers = given[:1] == [CONTROLLERS]
    given = given[1:] if controllers else given
    try:
        if "--help" in given:
            sys.stdout.write(help_text())
            return 0
        if "--version" in given:
            return _show_version()
        flags = parse_flags(given)
        for note in flags.notes:
            sys.stderr.write(f"levelset: {note}\n")
        # Imported late: the help does not need it.
        from levelset.aio.event_loop import run  # noqa: PLC0415

        run(serve(flags, controllers=controllers))
    except (LevelsetError, OSError) as error:
        sys.stderr.write(f"Error: {error}\n")
        return 1
    return 0


async def serve(flags: ServerFlags, *, controllers: bool = False) -> None:
    """Runs the server of these flags until a signal, or until the parent of this process has ended."""
    stopped = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopped.set)
    server = await build_server(flags, controllers=controllers)
    try:
        await server.start()
        await _wait_end(stopped)
    finally:
        await server.stop(within=_STOP_SECONDS)


async def build_server(flags: ServerFlags, *, controllers: bool = False) -> "ApiServer":
    """The server of these flags, not started; raises ConfigError that names the flag."""
    # Imported late, and without collections: it is most of the start, and all of it stays.
    from levelset.garbage_collection import paused  # noqa: PLC0415

    with paused():
        from levelset.apiserver.audit_log import AuditLog  # noqa: PLC0415
        from levelset.apiserver.server import ApiServer  # noqa: PLC0415
    server = ApiServer(
        host=flags.host,
        port=flags.port,
        tls=await asyncio.to_thread(_tls_context, flags),
        tokens=await asyncio.to_thread(_tokens, flags),
        audit_log=AuditLog(flags.audit_log) if flags.audit_log else None,
        service_addresses=flags.service_range,
        service_accounts=flags.service_accounts,
        cluster_defaults=True,
        controllers=controllers,
        rbac=True,
    )
    if server.state.authenticator is not None:
        server.state.authenticator.allow_anonymous = flags.anonymous
    return server


async def _wait_end(stopped: asyncio.Event) -> None:
    """Waits for a signal, or until this process has another parent: a test that is killed does not stop it."""
    parent = os.getppid()
    while os.getppid() == parent:
        try:
            async with asyncio.timeout(_PARENT_SECONDS):
                await stopped.wait()
                return
        except TimeoutError:
            continue


def _tls_context(flags: ServerFlags) -> ssl.SSLContext:
    """Serves with the given certificate, or as kube-apiserver with one that is created in its place."""
    from levelset.http import CertificateAuthority, Identity, server_context  # noqa: PLC0415  # as above

    certificate, key = flags.certificate, flags.key
    if not certificate.exists() and not key.exists():
        certificate.parent.mkdir(parents=True, exist_ok=True)
        CertificateAuthority.create("levelset").issue_server(["localhost"], [flags.host]).save(certificate, key)
    trusted = None if flags.client_authority is None else _read(flags.client_authority, "client-ca-file")
    identity = Identity(_read(certificate, "tls-cert-file"), _read(key, "tls-private-key-file"))
    try:
        return server_context(identity, trusted)
    except (ssl.SSLError, ValueError) as error:
        raise ConfigError(f"--client-ca-file: {flags.client_authority} has no certificates: {error}") from error


def _read(path: Path, flag: str) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise ConfigError(f"--{flag}: {path} cannot be read: {error.strerror or error}") from error


def _tokens(flags: ServerFlags) -> "dict[str, User]":
    from levelset.apiserver.authn.token_file import read_users  # noqa: PLC0415  # as above

    return {} if flags.tokens is None else read_users(flags.tokens)


def _show_version() -> int:
    from levelset.apiserver.discovery import VERSION  # noqa: PLC0415  # as above

    sys.stdout.write(f"Kubernetes {VERSION['gitVersion']}\n")
    return 0
