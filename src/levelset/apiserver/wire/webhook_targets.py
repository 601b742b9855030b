"""Where the server may call webhooks, how it finds them, and whom it trusts there.

A webhook is called at an https URL, or as a Service. Nobody resolves the names of Services here: whoever runs the
server says where they are (`services`), or they cannot be reached. Addresses are looked at before they are connected
to, and it is the address that was looked at that is used, so that a name cannot mean something else a moment later.
A connection is kept for a moment for the next call to the same address; a call is never made twice.
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
from typing import Any, Final, Literal
from urllib.parse import quote, urlsplit

from levelset.errors import TimedOut, Unreachable
from levelset.http import Destination, Poster

__all__ = ["Reachable", "Services", "Targets"]

Reachable = Literal["any", "loopback", "none"]
"""Which addresses may be called: any but those of the machine's own network (link-local, multicast), or fewer."""

Services = Callable[[str, str, int], tuple[str, int] | None]
"""Where the Service of a namespace, name and port is; None if that is not known."""

log = logging.getLogger(__name__)

_LARGEST: Final = 16 * 1024 * 1024
_OK: Final = 200
_PATH_SIGNS: Final = "/%~!$&'()*+,;=:@"


class Targets:
    """Calls webhooks: sends a review to the one that a `clientConfig` names, and gives the body of its answer."""

    def __init__(self, *, reach: Reachable = "any", services: Services | None = None) -> None:
        self.reach: Reachable = reach
        self._services = services
        self._poster = Poster()

    def close(self) -> None:
        """Ends the connections that are kept for the next call."""
        self._poster.close()

    async def call(self, config: Mapping[str, Any], body: bytes, *, seconds: float) -> bytes:
        """The body of a good answer; raises Unreachable, with the URL and why there is none."""
        url = _url(config, seconds)
        try:
            async with asyncio.timeout(seconds):
                to = await self._find(config, url)
                tls = await _context(config)
                posted = await self._poster.post(to, body, tls=tls, largest=_LARGEST)
        except TimeoutError as error:
            raise TimedOut(f'Post "{url}": no answer within {seconds:g} s') from error
        except Unreachable as error:
            raise Unreachable(f'Post "{url}": {error}', is_sent=error.is_sent) from error
        if posted.status != _OK:
            raise Unreachable(f'Post "{url}": it answered with status {posted.status}')
        return posted.body

    async def _find(self, config: Mapping[str, Any], url: str) -> Destination:
        host, port, path = _parts(url)
        service = config.get("service")
        where = self._resolve(service, port) if service else (host, port)
        if where is None:
            problem = f"nobody said where the Service {host} is"
            raise Unreachable(f"{problem}: give the server a resolver of services, or the webhook a url", is_sent=False)
        address = await self._address(*where)
        return Destination(address, where[1], host if port == 443 else f"{host}:{port}", path, host)

    def _resolve(self, service: Mapping[str, Any], port: int) -> tuple[str, int] | None:
        return None if self._services is None else self._services(service["namespace"], service["name"], port)

    async def _address(self, host: str, port: int) -> str:
        """An address of the host that may be called; raises Unreachable."""
        try:
            found = [ip_address(host)]
        except ValueError:
            try:
                rows = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
            except OSError as error:
                raise Unreachable(f"there is no host {host}: {error.strerror}", is_sent=False) from error
            found = [ip_address(str(row[4][0]).partition("%")[0]) for row in rows]
        allowed = [one for one in found if self._may_reach(one)]
        if not allowed:
            log.warning("webhook target refused", extra={"host": host, "reach": self.reach})
            problem = f"the address of {host} may not be called from this server (webhooks reach: {self.reach})"
            raise Unreachable(problem, is_sent=False)
        return str(allowed[0])

    def _may_reach(self, address: IPv4Address | IPv6Address) -> bool:
        if isinstance(address, IPv6Address) and address.ipv4_mapped is not None:
            address = address.ipv4_mapped
        if self.reach == "none" or address.is_link_local or address.is_multicast or address.is_unspecified:
            return False
        return self.reach == "any" or address.is_loopback


def _url(config: Mapping[str, Any], seconds: float) -> str:
    """The URL that is called; that of a Service is named as in a cluster."""
    query = f"timeout={seconds:g}s"
    service = config.get("service")
    if not service:
        return f"{config.get('url', '')}?{query}"
    path = str(service.get("path") or "/")
    return f"https://{service['name']}.{service['namespace']}.svc:{service.get('port') or 443}{path}?{query}"


def _parts(url: str) -> tuple[str, int, str]:
    """Host, port and path with query; raises Unreachable for a URL that cannot be called."""
    try:
        parts = urlsplit(url)
        host, port = parts.hostname or "", parts.port or 443
    except ValueError as error:
        raise Unreachable(f"the URL cannot be read: {error}", is_sent=False) from error
    if parts.scheme != "https" or not host or not host.isascii():
        raise Unreachable("webhooks are called at https://HOST[:PORT][/PATH] only", is_sent=False)
    return host, port, f"{quote(parts.path, safe=_PATH_SIGNS) or '/'}?{parts.query}"


async def _context(config: Mapping[str, Any]) -> ssl.SSLContext:
    bundle = str(config.get("caBundle") or "")
    try:
        # What the system trusts is read from files: not on the loop.
        return _trusting(bundle) if bundle else await asyncio.to_thread(_trusting, "")
    except (ssl.SSLError, ValueError, binascii.Error) as error:
        raise Unreachable(f"its caBundle holds no certificate that can be used: {error}", is_sent=False) from error


@lru_cache(maxsize=64)
def _trusting(bundle: str) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(["http/1.1"])
    if bundle:
        context.load_verify_locations(cadata=base64.b64decode(bundle, validate=True).decode())
    else:
        context.load_default_certs()
    return context
