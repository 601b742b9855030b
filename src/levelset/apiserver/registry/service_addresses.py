"""Where a Service is reached from this server: by webhooks that name it, and by requests that are forwarded to it.

There is no cluster DNS and no proxy here. An address is, in this order: the one that the operator has given for the
Service, its external name, a ready endpoint (of its EndpointSlices, or of its Endpoints), and its ClusterIP, which
leads somewhere only where a data plane serves it.
"""

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from levelset.apiserver.resources.json_members import list_member, map_member
from levelset.apiserver.resources.served_resource import Object
from levelset.apiserver.resources.server_state import ServerState
from levelset.errors import Unreachable
from levelset.objects import decode_tree

__all__ = ["Endpoint", "ServiceAddresses"]

_SERVICE_NAME = "kubernetes.io/service-name"

Address = tuple[str, int]


class Endpoint(NamedTuple):
    """An address of a Service that is ready; `target` is the reference to its Pod, empty without one."""

    address: str
    port: int
    target: Object


class ServiceAddresses:
    """Resolves Services by the stored objects, or by `given` addresses of `namespace/name` or `namespace/name:port`."""

    def __init__(self, state: ServerState, given: Mapping[str, Address] | None = None) -> None:
        self._state = state
        self._given = dict(given or {})

    def resolve(self, namespace: str, name: str, port: int) -> Address:
        """The host and port of a Service's port; raises Unreachable with what is missing."""
        named = f"{namespace}/{name}"
        given = self._given.get(f"{named}:{port}") or self._given.get(named)
        if given is not None:
            return given
        service = self._get("", "services", namespace, name)
        if service is None:
            raise _unreachable(named, port, "does not exist")
        spec = map_member(service, "spec")
        entry = next((one for one in list_member(spec, "ports") if one.get("port") == port), None)
        if entry is None:
            raise _unreachable(named, port, f"has no port {port}")
        if spec.get("type") == "ExternalName":
            return str(spec.get("externalName")), port
        found = next(self.endpoints(namespace, name, str(entry.get("name") or "")), None)
        if found is not None:
            return found.address, found.port
        address = spec.get("clusterIP")
        if not address or address == "None":
            raise _unreachable(named, port, "has neither a ready endpoint nor a ClusterIP")
        return str(address), port

    def endpoints(self, namespace: str, name: str, port_name: str) -> Iterator[Endpoint]:
        """The ready endpoints for a port of a Service, of its EndpointSlices and then of its Endpoints."""
        for one in self._slices(namespace, name):
            port = _port(list_member(one, "ports"), port_name)
            if port is not None:
                yield from (Endpoint(address, port, target) for address, target in _ready_addresses(one))
        endpoints = self._get("", "endpoints", namespace, name)
        for subset in list_member(endpoints, "subsets"):
            port = _port(list_member(subset, "ports"), port_name)
            if port is not None:
                for one in list_member(subset, "addresses"):
                    yield Endpoint(one["ip"], port, map_member(one, "targetRef"))

    def _slices(self, namespace: str, name: str) -> Iterator[Object]:
        kind = self._state.catalog.find("discovery.k8s.io", "v1", "endpointslices")
        assert kind is not None  # built in
        for item in self._state.reader.list_nowait(f"{kind.prefix}{namespace}/").items:
            tree: Object = decode_tree(item.value)
            if map_member(map_member(tree, "metadata"), "labels").get(_SERVICE_NAME) == name:
                yield tree

    def _get(self, group: str, plural: str, namespace: str, name: str) -> Object | None:
        kind = self._state.catalog.find(group, "v1", plural)
        assert kind is not None  # built in
        item = self._state.reader.get_nowait(kind.key(namespace, name))
        return None if item is None else decode_tree(item.value)


def _port(ports: list[Any], name: str) -> int | None:
    return next((one.get("port") for one in ports if (one.get("name") or "") == name), None)


def _ready_addresses(one: Object) -> Iterator[tuple[str, Object]]:
    for endpoint in list_member(one, "endpoints"):
        if map_member(endpoint, "conditions").get("ready") is not False:  # unknown counts as ready
            target = map_member(endpoint, "targetRef")
            yield from ((address, target) for address in list_member(endpoint, "addresses"))


def _unreachable(named: str, port: int, problem: str) -> Unreachable:
    remedy = f"serve it, give its address (levelset serve --webhook-service {named}:{port}=HOST:PORT), or use a url"
    return Unreachable(f"the Service {named} {problem}: {remedy}", is_sent=False)
