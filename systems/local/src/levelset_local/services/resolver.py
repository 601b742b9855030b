"""Resolves the DNS names of Services to their addresses: a lookup for programs, and an HTTP server for Pods.

`GET /resolve?name=web.shop.svc.cluster.local` returns `{"address": "127.96.0.7", "addresses": [...]}`: the cluster IP,
or the ready Pods of a headless Service. `db-0.db.shop.svc` is the Pod with the hostname `db-0` in the headless Service
`db`. Every Pod has its URL in the variable LEVELSET_RESOLVER; the server listens on a loopback address.
"""

import json
from collections.abc import Iterable
from ipaddress import ip_address
from typing import Final

from levelset import Client, NotFound, Ref
from levelset.http import Request, Response, Server
from levelset.kinds.core_v1 import Service
from levelset.kinds.discovery_v1 import EndpointSlice
from levelset_machine import Lookup, ServiceName, parse_service_name

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
        hostname, parsed = _split_hostname(name)
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
        addresses = await self._addresses(self.client, service, hostname)
        if not addresses:
            what = f"no Pod with the hostname {hostname}" if hostname else "neither a cluster IP nor a ready Pod"
            return _error(404, f"Service {parsed.name} has {what}")
        return Response(200, _JSON, json.dumps({"address": addresses[0], "addresses": addresses}).encode())

    async def _addresses(self, client: Client, service: Service, hostname: str | None) -> list[str]:
        """The address of a Service; for a headless one those of its ready Pods, or of the one with the hostname."""
        if hostname is None and _is_address(service.spec.cluster_ip):
            return [service.spec.cluster_ip or ""]
        labels = {"kubernetes.io/service-name": service.name}
        slices = await client.list(EndpointSlice, namespace=service.namespace, labels=labels)
        found = [one for each in slices for one in each.endpoints]
        ready = (one for one in found if one.conditions.ready is not False)
        chosen = ready if hostname is None else (one for one in ready if one.hostname == hostname)
        return sorted(address for one in chosen for address in one.addresses)


def _split_hostname(name: str) -> tuple[str | None, ServiceName | None]:
    """The Service that a name refers to, and the hostname of one of its Pods in front of it, if there is one."""
    parsed = parse_service_name(name)
    hostname, dot, rest = name.partition(".")
    if parsed is not None or not dot or ".svc" not in f"{rest}.":
        return None, parsed
    return hostname.lower(), parse_service_name(rest)


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
