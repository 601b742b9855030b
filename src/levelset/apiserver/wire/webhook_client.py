"""The client for admission and conversion webhooks: address resolution, TLS and the POST of a review.

A webhook is called at an https URL or as a Service. The server has no cluster DNS: Services are resolved by the
`services` function, which the server sets (`registry/service_addresses.py`) unless it is given. The address is checked
before connecting, and the checked address is used, so that a name cannot resolve to something else in between.
Connections are reused for a short time; a call is never retried, because webhooks may have side effects.
"""

import asyncio
import base64
import binascii
import logging
import socket
import ssl
from collections.abc import Callable, Mapping
from functools import lru_cache
from ipaddress import IPv4Address, IPv6Address, ip_address
from posixpath import normpath
from typing import Any, Final, Literal
from urllib.parse import quote, urlsplit

from levelset.errors import ConfigError, TimedOut, Unreachable
from levelset.http import Destination, OutboundClient

__all__ = ["ServiceResolver", "WebhookClient", "WebhookReach", "parse_service_address"]

WebhookReach = Literal["any", "loopback", "none"]
"""The addresses that webhooks may have: any but link-local and multicast, only loopback, or none."""

ServiceResolver = Callable[[str, str, int], tuple[str, int] | None]
"""Resolves the Service of a namespace, name and port to a host and port; None or Unreachable if it cannot."""

log = logging.getLogger(__name__)

_MAX_RESPONSE_BYTES: Final = 16 * 1024 * 1024
_OK: Final = 200
_SAFE_PATH_CHARACTERS: Final = "/%~!$&'()*+,;=:@"


def parse_service_address(text: str) -> tuple[str, tuple[str, int]]:
    """Reads `NAMESPACE/NAME[:PORT]=HOST:PORT`; raises ConfigError."""
    service, equals, target = text.partition("=")
    namespace, slash, name = service.partition("/")
    host, colon, port = target.rpartition(":")
    if not (namespace and slash and name and equals and host and colon and port.isdigit() and 0 < int(port) < 65536):
        raise ConfigError(f"{text!r} is no address of a Service: write NAMESPACE/NAME=HOST:PORT, or .../NAME:PORT=...")
    return service, (host.strip("[]"), int(port))


class WebhookClient:
    """Sends reviews to the webhooks that a `clientConfig` names."""

    def __init__(self, *, reach: WebhookReach = "any", services: ServiceResolver | None = None) -> None:
        self.reach: WebhookReach = reach
        self.services = services
        self._poster = OutboundClient()

    def close(self) -> None:
        """Closes the idle connections."""
        self._poster.close()

    async def call(self, config: Mapping[str, Any], body: bytes, *, seconds: float) -> bytes:
        """The body of a successful response; raises Unreachable with the URL and the cause, or TimedOut."""
        url = _url(config, seconds)
        try:
            async with asyncio.timeout(seconds):
                destination = await self._find(config, url)
                tls = await _tls_context(config)
                response = await self._poster.post(destination, body, tls=tls, largest=_MAX_RESPONSE_BYTES)
        except TimeoutError as error:
            raise TimedOut(f'Post "{url}": context deadline exceeded') from error
        except Unreachable as error:
            raise Unreachable(f'Post "{url}": {error}', is_sent=error.is_sent) from error
        if response.status != _OK:
            raise Unreachable(f'Post "{url}": the response has status {response.status}')
        return response.body

    async def _find(self, config: Mapping[str, Any], url: str) -> Destination:
        host, port, path = _parts(url)
        service = config.get("service")
        target = self._resolve(service, port) if service else (host, port)
        if target is None:
            problem = f"the Service {host} cannot be resolved"
            raise Unreachable(f"{problem}: configure a service resolver, or a url in the webhook", is_sent=False)
        address = await self._address(*target)
        return Destination(address, target[1], host if port == 443 else f"{host}:{port}", path, host)

    def _resolve(self, service: Mapping[str, Any], port: int) -> tuple[str, int] | None:
        return None if self.services is None else self.services(service["namespace"], service["name"], port)

    async def _address(self, host: str, port: int) -> str:
        """An address of the host that the webhook reach allows; raises Unreachable."""
        try:
            found = [ip_address(host)]
        except ValueError:
            try:
                rows = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
            except OSError as error:
                raise Unreachable(f"cannot resolve host {host}: {error.strerror}", is_sent=False) from error
            found = [ip_address(str(row[4][0]).partition("%")[0]) for row in rows]
        allowed = [one for one in found if self._is_allowed(one)]
        if not allowed:
            log.warning("webhook address not allowed", extra={"host": host, "reach": self.reach})
            problem = f"webhooks at the address of {host} are not allowed (webhook reach: {self.reach})"
            raise Unreachable(problem, is_sent=False)
        return str(allowed[0])

    def _is_allowed(self, address: IPv4Address | IPv6Address) -> bool:
        if isinstance(address, IPv6Address) and address.ipv4_mapped is not None:
            address = address.ipv4_mapped
        if self.reach == "none" or address.is_link_local or address.is_multicast or address.is_unspecified:
            return False
        return self.reach == "any" or address.is_loopback


def _url(config: Mapping[str, Any], seconds: float) -> str:
    """The URL of a webhook; a Service has the name that it has in a cluster."""
    query = f"timeout={seconds:g}s"
    service = config.get("service")
    if not service:
        scheme, colon, rest = str(config.get("url", "")).partition("://")
        host, _, path = rest.partition("/")
        return f"{scheme}{colon}{host}{_cleaned(path)}?{query}"
    path = _cleaned(str(service.get("path") or ""))
    return f"https://{service['name']}.{service['namespace']}.svc:{service.get('port') or 443}{path}?{query}"


def _cleaned(path: str) -> str:
    """The path as Go joins it: without empty segments, dots, and a slash at its end. envtest writes `//validate`."""
    return normpath(f"/{path.lstrip('/')}")


def _parts(url: str) -> tuple[str, int, str]:
    """Host, port and path with query; raises Unreachable for an invalid URL."""
    try:
        parts = urlsplit(url)
        host, port = parts.hostname or "", parts.port or 443
    except ValueError as error:
        raise Unreachable(f"invalid URL: {error}", is_sent=False) from error
    if parts.scheme != "https" or not host or not host.isascii():
        raise Unreachable("the URL of a webhook must have the form https://HOST[:PORT][/PATH]", is_sent=False)
    return host, port, f"{quote(parts.path, safe=_SAFE_PATH_CHARACTERS) or '/'}?{parts.query}"


async def _tls_context(config: Mapping[str, Any]) -> ssl.SSLContext:
    bundle = str(config.get("caBundle") or "")
    try:
        # Loading the system's certificates reads files, which would block the event loop.
        return _load_tls_context(bundle) if bundle else await asyncio.to_thread(_load_tls_context, "")
    except (ssl.SSLError, ValueError, binascii.Error) as error:
        raise Unreachable(f"the caBundle of the webhook has no valid certificate: {error}", is_sent=False) from error


@lru_cache(maxsize=64)
def _load_tls_context(bundle: str) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(["http/1.1"])
    # As in Go: any certificate of the bundle is trusted, also the webhook's own, which is what envtest gives.
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    if bundle:
        context.load_verify_locations(cadata=base64.b64decode(bundle, validate=True).decode())
    else:
        context.load_default_certs()
    return context
