"""The addresses of Services: which a browser on this machine can open, and which are only reachable inside a cluster.

The input is not trusted: an address becomes a link only if it is one of an IP or a host name, with a port.
"""

import ipaddress
from collections.abc import Sequence
from typing import Any, Final

from levelset.client import Client
from levelset.client.discovery import ApiResource
from levelset.client.internals import list_page
from levelset.dashboard.views import kind_text, map_in, maps_in, text_of
from levelset.errors import LevelsetError
from levelset.objects.lazy_pattern import Pattern

__all__ = ["endpoints_of", "list_endpoints"]

_MOST_SERVICES: Final = 500
_HOST: Final = Pattern(r"[A-Za-z0-9]([A-Za-z0-9.-]{0,251}[A-Za-z0-9])?")
_SECURE_PORTS: Final = frozenset({443, 6443, 8443})


async def list_endpoints(client: Client, kinds: Sequence[ApiResource]) -> dict[str, Any]:
    """The endpoints of all Services, of the core group and of other groups that have such a kind."""
    found: list[dict[str, Any]] = []
    for one in kinds:
        if one.gvk.kind != "Service":
            continue
        try:
            page = await list_page(client, one.gvk, limit=_MOST_SERVICES, managed_fields=False)
        except LevelsetError:
            continue  # forbidden, or deleted meanwhile
        for cached in page.items:
            about = {"kind": kind_text(one.gvk), "name": cached.name, "namespace": cached.namespace}
            found += [{**about, **each} for each in endpoints_of(cached.tree())]
    return {"endpoints": found}


def endpoints_of(tree: Any) -> list[dict[str, Any]]:
    """The endpoints of a Service: address, port, protocol, and the URL if this machine can probably reach it."""
    status = map_in(tree, "status")
    if text_of(status.get("effectiveAddress")):  # of a local system that chooses the address itself
        port = {"port": status.get("effectivePort"), "protocol": map_in(tree, "spec").get("protocol")}
        return [_endpoint(text_of(status.get("effectiveAddress")), port, is_near=True)]
    spec = map_in(tree, "spec")
    ingress = maps_in(map_in(status, "loadBalancer"), "ingress")
    outside = [text_of(one.get("ip")) or text_of(one.get("hostname")) for one in ingress]
    addresses = [(one, True) for one in outside if one]
    inside = text_of(spec.get("clusterIP"))
    if inside and inside != "None":
        addresses.append((inside, _is_loopback(inside)))
    return [
        _endpoint(address, port, is_near=is_near) for port in maps_in(spec, "ports") for address, is_near in addresses
    ]


def _endpoint(address: str, port: Any, *, is_near: bool) -> dict[str, Any]:
    number = port.get("port")
    protocol = text_of(port.get("protocol")) or "TCP"
    is_number = isinstance(number, int) and 0 < number < 65536
    url = _url(address, number, port) if is_near and is_number and protocol.upper() == "TCP" else None
    shown = number if is_number else 0
    return {"address": address, "port": shown, "protocol": protocol, "portName": text_of(port.get("name")), "url": url}


def _url(address: str, number: int, port: Any) -> str | None:
    words = f"{text_of(port.get('name'))} {text_of(port.get('appProtocol'))}".lower()
    scheme = "https" if "https" in words or number in _SECURE_PORTS else "http"
    if _is_ip(address):
        return f"{scheme}://[{address}]:{number}/" if ":" in address else f"{scheme}://{address}:{number}/"
    return f"{scheme}://{address}:{number}/" if _HOST.fullmatch(address) else None


def _is_ip(address: str) -> bool:
    try:
        ipaddress.ip_address(address)
    except ValueError:
        return False
    return "%" not in address


def _is_loopback(address: str) -> bool:
    return _is_ip(address) and ipaddress.ip_address(address).is_loopback
