"""The objects that every cluster has from its start: the system PriorityClasses, and how Pods reach the API server.

The Service `default/kubernetes` has the first address of the service range. Its Endpoints and its EndpointSlice have
the address at which the server listens, also on loopback, which clients may not write.
"""

from typing import Any, Final

import msgspec

from levelset.apiserver.registry.builtin.pods import SYSTEM_PRIORITIES
from levelset.apiserver.resources.served_resource import Object, ServedResource
from levelset.apiserver.resources.server_state import ServerState
from levelset.apiserver.verbs import create_and_update
from levelset.errors import AlreadyExists, Invalid

__all__ = ["ServingAddress", "reconcile_bootstrap_objects"]

_NAMESPACE: Final = "default"
_NAME: Final = "kubernetes"
_DESCRIPTIONS: Final = {
    "system-cluster-critical": "Used for system critical pods that must run in the cluster, but can be moved to another"
    " node if necessary.",
    "system-node-critical": "Used for system critical pods that must not be moved from their current node.",
}


class ServingAddress(msgspec.Struct, frozen=True):
    """Where the API server listens."""

    host: str
    port: int
    is_secure: bool = True

    @property
    def endpoint_port(self) -> Object:
        """The port of an endpoint."""
        return {"name": "https" if self.is_secure else "http", "port": self.port, "protocol": "TCP"}


async def reconcile_bootstrap_objects(
    state: ServerState, cluster_ip: str, service_ranges: list[str], address: ServingAddress | None
) -> None:
    """Creates what is missing, and updates the endpoints of the API server; without an address it has none."""
    for name, value in SYSTEM_PRIORITIES.items():
        tree = {"value": value, "description": _DESCRIPTIONS[name]}
        await _create(state, "scheduling.k8s.io", "priorityclasses", None, {**tree, "metadata": {"name": name}})
    await _create_ranges(state, service_ranges)
    await _create_service(state, cluster_ip, address or ServingAddress("", 443))
    if address is not None:
        await _reconcile_endpoints(state, address)


async def _create_ranges(state: ServerState, service_ranges: list[str]) -> None:
    """Creates the ServiceCIDR of the ranges of addresses, which is ready at once."""
    group, plural = "networking.k8s.io", "servicecidrs"
    tree = {"metadata": {"name": _NAME}, "spec": {"cidrs": service_ranges}}
    await _create(state, group, plural, None, tree)
    ready = {"type": "Ready", "status": "True", "reason": "", "message": "Kubernetes default Service CIDR is ready"}

    def change(old: Object) -> Object | None:
        if old.get("status"):
            return None
        since = old["metadata"]["creationTimestamp"]
        return {**old, "status": {"conditions": [{**ready, "lastTransitionTime": since}]}}

    await create_and_update.mutate(state, _kind(state, group, plural), None, _NAME, change)


async def _create_service(state: ServerState, cluster_ip: str, address: ServingAddress) -> None:
    named = address.endpoint_port["name"]
    port = {"name": named, "port": 443 if address.is_secure else 80, "protocol": "TCP", "targetPort": address.port}
    labels = {"component": "apiserver", "provider": _NAME}
    spec: Object = {"type": "ClusterIP", "ports": [port], "sessionAffinity": "None"}
    metadata: Object = {"name": _NAME, "labels": labels}
    try:
        given = {"metadata": metadata, "spec": {**spec, "clusterIP": cluster_ip}}
        await _create(state, "", "services", _NAMESPACE, given)
    except Invalid:  # data of a server without this Service may have given its address to another one
        await _create(state, "", "services", _NAMESPACE, {"metadata": metadata, "spec": spec})

    def change(old: Object) -> Object | None:
        return None if old["spec"]["ports"] == [port] else {**old, "spec": {**old["spec"], "ports": [port]}}

    await create_and_update.mutate(state, _kind(state, "", "services"), _NAMESPACE, _NAME, change)


async def _reconcile_endpoints(state: ServerState, address: ServingAddress) -> None:
    labels = {"endpointslice.kubernetes.io/skip-mirror": "true"}
    subset = {"addresses": [{"ip": address.host}], "ports": [address.endpoint_port]}
    await _write(state, "", "endpoints", {"metadata": {"labels": labels}}, {"subsets": [subset]})
    family = "IPv6" if ":" in address.host else "IPv4"
    endpoint = {"addresses": [address.host], "conditions": {"ready": True}}
    base: Object = {
        "metadata": {"labels": {"kubernetes.io/service-name": _NAME}},
        "addressType": family,
        "endpoints": [],
    }
    content = {"addressType": family, "endpoints": [endpoint], "ports": [address.endpoint_port]}
    await _write(state, "discovery.k8s.io", "endpointslices", base, content)


async def _write(state: ServerState, group: str, plural: str, base: Object, content: Object) -> None:
    """Creates the object, and sets its content without validation, which refuses addresses on loopback."""
    base = {**base, "metadata": {**base["metadata"], "name": _NAME}}
    await _create(state, group, plural, _NAMESPACE, base)

    def change(old: Object) -> Object | None:
        return None if all(old.get(name) == value for name, value in content.items()) else {**old, **content}

    await create_and_update.mutate(state, _kind(state, group, plural), _NAMESPACE, _NAME, change)


async def _create(state: ServerState, group: str, plural: str, namespace: str | None, tree: Any) -> None:
    served = _kind(state, group, plural)
    if state.reader.get_nowait(served.key(namespace, tree["metadata"]["name"])) is not None:
        return
    whole = {"apiVersion": served.api_version, "kind": served.kind, **tree, "metadata": {**tree["metadata"]}}
    try:
        await create_and_update.create(state, served, namespace, whole)
    except AlreadyExists:
        return


def _kind(state: ServerState, group: str, plural: str) -> ServedResource:
    found = state.catalog.find(group, "v1", plural)
    assert found is not None  # built in
    return found
