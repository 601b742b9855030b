"""How an API server reaches this process: through a Service of the cluster, or at a URL."""

import os
from base64 import b64encode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from ipaddress import ip_address
from typing import Any, Final
from urllib.parse import urlsplit

from levelset.errors import ConfigError
from levelset.objects.names import is_dns1123_label

__all__ = ["SERVICE", "URL", "Reach", "Service", "Url", "reach_from_environment"]

SERVICE: Final = "LEVELSET_WEBHOOK_SERVICE"
"""Names the Service in the environment, as name.namespace or name.namespace:port."""
URL: Final = "LEVELSET_WEBHOOK_URL"
"""Names the URL in the environment, for a process outside of the cluster."""


@dataclass(frozen=True, slots=True)
class Service:
    """A Service of the cluster whose pods are this process and its replicas."""

    name: str
    namespace: str
    port: int = 443

    @property
    def names(self) -> Sequence[str]:
        """The host names that a certificate must be for."""
        short = f"{self.name}.{self.namespace}"
        return (f"{short}.svc", f"{short}.svc.cluster.local", short)

    @property
    def addresses(self) -> Sequence[str]:
        """The IP addresses that a certificate must be for."""
        return ()

    def config(self, path: str, ca: bytes | None) -> dict[str, Any]:
        """The `clientConfig` of what is served at a path."""
        service = {"name": self.name, "namespace": self.namespace, "path": path, "port": self.port}
        return {"service": service, **_bundle(ca)}


@dataclass(frozen=True, slots=True)
class Url:
    """An address of this process that the API server can reach."""

    base: str

    def __post_init__(self) -> None:
        parts = urlsplit(self.base)
        if parts.scheme != "https" or not parts.hostname or parts.query or parts.fragment or parts.username:
            raise ConfigError(f"url {self.base!r}: an API server calls webhooks at https://HOST[:PORT][/PATH] only")

    @property
    def names(self) -> Sequence[str]:
        """The host names that a certificate must be for."""
        return () if self.addresses else (urlsplit(self.base).hostname or "",)

    @property
    def addresses(self) -> Sequence[str]:
        """The IP addresses that a certificate must be for."""
        host = urlsplit(self.base).hostname or ""
        try:
            return (str(ip_address(host)),)
        except ValueError:
            return ()

    def config(self, path: str, ca: bytes | None) -> dict[str, Any]:
        """The `clientConfig` of what is served at a path."""
        return {"url": self.base.rstrip("/") + path, **_bundle(ca)}


Reach = Service | Url


def reach_from_environment(environ: Mapping[str, str] | None = None) -> Reach | None:
    """What the environment says; None if it says nothing, ConfigError if that makes no sense."""
    found = os.environ if environ is None else environ
    if found.get(SERVICE):
        return _service(found[SERVICE])
    return Url(found[URL]) if found.get(URL) else None


def _service(text: str) -> Service:
    place, _, port = text.partition(":")
    name, _, namespace = place.partition(".")
    is_port = not port or (port.isascii() and port.isdecimal() and 0 < int(port) <= 65535)
    if not is_port or not is_dns1123_label(name) or not is_dns1123_label(namespace):
        raise ConfigError(f"{SERVICE}={text!r}: write it as name.namespace or name.namespace:port")
    return Service(name, namespace, int(port or 443))


def _bundle(ca: bytes | None) -> dict[str, Any]:
    return {} if ca is None else {"caBundle": b64encode(ca).decode()}
