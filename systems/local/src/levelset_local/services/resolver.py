"""Resolves the DNS names of Services to their addresses: a lookup for programs, and an HTTP server for Pods.

`GET /resolve?name=web.shop.svc.cluster.local` returns `{"address": "127.96.0.7"}`. Every Pod has its URL in the
variable LEVELSET_RESOLVER; the server listens on a loopback address.
"""

import json
from collections.abc import Iterable
from ipaddress import ip_address
from typing import Final

from levelset import Client, NotFound, Ref
from levelset.http import Request, Response, Server
from levelset.kinds.core_v1 import Service
from levelset_machine import Lookup, parse_service_name

__all__ = ["RESOLVER_VARIABLE", "Resolver", "service_lookup"]

RESOLVER_VARIABLE: Final = "LEVELSET_RESOLVER"
_JSON: Final = (("Content-Type", "application/json"),)


class Resolver:
    """Resolves the Services that its client finds; responds with 503 until the client is set."""

    def __init__(self) -> None:
        self.client: Client | None = None
        self.server = Server(self.handle)

    @property
    def url(self) -> str:
        """The URL to query, once the server is open."""
        return f"{self.server.url}/resolve"

    async def handle(self, request: Request) -> Response:
        """Handles one query."""
        name = request.parameter("name") or ""
        parsed = parse_service_name(name)
        if request.path != "/resolve" or parsed is None:
            return _error(
                404, f"{name!r} is not the name of a Service; request /resolve?name=web.shop.svc.cluster.local"
            )
        if self.client is None:
            return _error(503, "the control plane has not started yet; try again")
        try:
            service = await self.client.get(Ref(Service, parsed.name, parsed.namespace or "default"))
        except NotFound as error:
            return _error(404, str(error))
        address = service.spec.cluster_ip
        if not address or address == "None":
            return _error(404, f"Service {parsed.name} has no cluster IP")
        return Response(200, _JSON, json.dumps({"address": address}).encode())


def service_lookup(services: Iterable[Service]) -> Lookup:
    """Looks up the cluster IPs of these Services by name and namespace, for `levelset_machine.resolve_url`."""
    addresses = {(one.name, one.namespace): one.spec.cluster_ip for one in services if _is_address(one.spec.cluster_ip)}
    return lambda name, namespace: addresses.get((name, namespace))


def _is_address(text: str | None) -> bool:
    try:
        ip_address(text or "")
    except ValueError:
        return False
    return True


def _error(status: int, message: str) -> Response:
    return Response(status, _JSON, json.dumps({"error": message}).encode())
