"""Turns a context of a kubeconfig into a config: its cluster, its user and its namespace together."""

import base64
from pathlib import Path
from typing import Any, Final

from levelset.client.config import Config
from levelset.client.credentials import Anonymous
from levelset.client.entries import Entry
from levelset.client.kubeconfig import Kubeconfig
from levelset.client.users import credentials_of, impersonation_of
from levelset.errors import ConfigError

__all__ = ["config_of"]

_EXTENSION: Final = "client.authentication.k8s.io/exec"


def config_of(kubeconfig: Kubeconfig, context: str | None = None) -> Config:
    """The config of a context, the current one if none is named; ConfigError says what is wrong where.

    It blocks: files that the context names are looked at.
    """
    chosen = kubeconfig.context(context)
    cluster = kubeconfig.cluster(chosen)
    user = kubeconfig.user(chosen)
    authority = cluster.pem("certificate-authority")
    try:
        return Config(
            server=_server(cluster),
            namespace=chosen.text("namespace") or "default",
            ca=authority if isinstance(authority, bytes) else None,
            ca_file=authority if isinstance(authority, Path) else None,
            insecure=cluster.flag("insecure-skip-tls-verify"),
            tls_server_name=cluster.text("tls-server-name"),
            proxy=cluster.text("proxy-url"),
            credentials=Anonymous() if user is None else credentials_of(user, lambda: _told(cluster, authority)),
            impersonate=None if user is None else impersonation_of(user),
            source=str(chosen),
        )
    except ConfigError as error:
        raise _placed(error, cluster, user) from error


def _server(cluster: Entry) -> str:
    server = cluster.text("server")
    if server is None:
        raise cluster.wrong("server", "is missing: write the URL of the API server, https://HOST:PORT.")
    if "://" in server:
        return server
    # As kubectl reads a bare HOST:PORT: without anything about TLS, it is not meant.
    names = ("certificate-authority", "certificate-authority-data", "insecure-skip-tls-verify", "tls-server-name")
    return f"{'https' if any(cluster.tree.get(name) for name in names) else 'http'}://{server}"


def _told(cluster: Entry, authority: bytes | Path | None) -> dict[str, Any]:
    """What a plugin is told about the cluster, if it is to be told."""
    pem = authority.read_bytes() if isinstance(authority, Path) else authority
    told: dict[str, Any] = {
        "server": _server(cluster),
        "tls-server-name": cluster.text("tls-server-name"),
        "insecure-skip-tls-verify": cluster.flag("insecure-skip-tls-verify") or None,
        "certificate-authority-data": None if pem is None else base64.b64encode(pem).decode("ascii"),
        "proxy-url": cluster.text("proxy-url"),
        "disable-compression": cluster.flag("disable-compression") or None,
        "config": next(
            (one.get("extension") for one in cluster.maps("extensions") if one.get("name") == _EXTENSION), None
        ),
    }
    return {name: value for name, value in told.items() if value is not None}


def _placed(error: ConfigError, cluster: Entry, user: Entry | None) -> ConfigError:
    """The error with the entry in it: what a Config refuses does not know which file it comes from."""
    text = str(error)
    if str(cluster) in text or (user is not None and str(user) in text):
        return error
    return ConfigError(f"{cluster}: {text}")
