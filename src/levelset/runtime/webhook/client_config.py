"""How the API server reaches the webhooks of this process: through a Service, or at a URL."""

import os
from base64 import b64encode
from collections.abc import Mapping, Sequence
from ipaddress import ip_address
from typing import Any, Final
from urllib.parse import urlsplit

import msgspec

from levelset.errors import ConfigError
from levelset.objects.names import is_dns1123_label

__all__ = ["SERVICE_VARIABLE", "URL_VARIABLE", "ClientConfig", "Service", "Url", "client_config_from_environment"]

SERVICE_VARIABLE: Final = "LEVELSET_WEBHOOK_SERVICE"
"""The environment variable that names the Service, as name.namespace or name.namespace:port."""
URL_VARIABLE: Final = "LEVELSET_WEBHOOK_URL"
"""The environment variable with the URL, for a process outside of the cluster."""


class Service(msgspec.Struct, frozen=True):
    """A Service whose pods are this process and its replicas."""

    name: str
    namespace: str
    port: int = 443

    @property
    def names(self) -> Sequence[str]:
        """The DNS names of the certificate."""
        short = f"{self.name}.{self.namespace}"
        return (f"{short}.svc", f"{short}.svc.cluster.local", short)

    @property
    def addresses(self) -> Sequence[str]:
        """The IP addresses of the certificate."""
        return ()

    def config(self, path: str, ca: bytes | None) -> dict[str, Any]:
        """The `clientConfig` of the webhook at a path."""
        service = {"name": self.name, "namespace": self.namespace, "path": path, "port": self.port}
        return {"service": service, **_ca_bundle(ca)}


class Url(msgspec.Struct, frozen=True):
    """A URL of this process that the API server can reach."""

    base: str

    def __post_init__(self) -> None:
        parts = urlsplit(self.base)
        try:
            has_port = parts.port != 0
        except ValueError:
            has_port = False
        is_plain = not (parts.query or parts.fragment or parts.username)
        if parts.scheme != "https" or not parts.hostname or not is_plain or not has_port:
            raise ConfigError(f"url {self.base!r}: an API server calls webhooks only at https://HOST[:PORT][/PATH]")

    @property
    def port(self) -> int | None:
        """The port in the URL; None if it has none."""
        return urlsplit(self.base).port

    @property
    def names(self) -> Sequence[str]:
        """The DNS names of the certificate."""
        return () if self.addresses else (urlsplit(self.base).hostname or "",)

    @property
    def addresses(self) -> Sequence[str]:
        """The IP addresses of the certificate."""
        host = urlsplit(self.base).hostname or ""
        try:
            return (str(ip_address(host)),)
        except ValueError:
            return ()

    def config(self, path: str, ca: bytes | None) -> dict[str, Any]:
        """The `clientConfig` of the webhook at a path."""
        return {"url": self.base.rstrip("/") + path, **_ca_bundle(ca)}


ClientConfig = Service | Url


def client_config_from_environment(environ: Mapping[str, str] | None = None) -> ClientConfig | None:
    """The client config of the environment; None if it has none, ConfigError if it is invalid."""
    found = os.environ if environ is None else environ
    if found.get(SERVICE_VARIABLE):
        return _service(found[SERVICE_VARIABLE])
    return Url(found[URL_VARIABLE]) if found.get(URL_VARIABLE) else None


def _service(text: str) -> Service:
    place, _, port = text.partition(":")
    name, _, namespace = place.partition(".")
    is_port = not port or (port.isascii() and port.isdecimal() and 0 < int(port) <= 65535)
    if not is_port or not is_dns1123_label(name) or not is_dns1123_label(namespace):
        raise ConfigError(f"{SERVICE_VARIABLE}={text!r}: must be name.namespace or name.namespace:port")
    return Service(name, namespace, int(port or 443))


def _ca_bundle(ca: bytes | None) -> dict[str, Any]:
    return {} if ca is None else {"caBundle": b64encode(ca).decode()}
