"""The Endpoints object of a Service, the API before EndpointSlices; pure."""

from collections.abc import Iterable, Iterator
from ipaddress import ip_address
from typing import Final

from levelset import set_controller
from levelset.kinds.core_v1 import EndpointAddress, Endpoints, EndpointSubset, Pod, Service
from levelset.kinds.core_v1_network import EndpointPort
from levelset.kinds.enums import Protocol
from levelset_local.endpoints.endpoint_slices import HEADLESS, families_of, is_headless
from levelset_local.endpoints.pod_endpoints import address_of, hostname_in, is_being_deleted, ports_of, reference_to
from levelset_local.pod_state import is_ready

__all__ = ["ENDPOINTS_WARNING", "is_same_endpoints", "plan_endpoints"]

ENDPOINTS_WARNING: Final = "v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice"
"""What the API server says to every client of Endpoints; they are maintained for clients that know nothing newer."""

_MANAGED_BY: Final = "endpoints.kubernetes.io/managed-by"
_TRUNCATED: Final = "endpoints.kubernetes.io/over-capacity"
_MOST: Final = 1000

_Port = tuple[str, int, str, str]
"""Name, number, protocol and application protocol: a sortable form of a port."""
_Found = tuple[EndpointAddress, bool]
"""An address, and whether it is ready."""


def plan_endpoints(service: Service, pods: Iterable[Pod]) -> Endpoints:
    """The Endpoints object that a Service should have: ready and not ready addresses, grouped by ports.

    Pods that are being deleted are left out, unless the Service publishes not ready addresses. More than 1000 addresses
    are truncated, which an annotation shows.
    """
    found = list(_addresses(service, pods))
    by_port: dict[_Port | None, list[_Found]] = {}
    for pod, one in found[:_MOST]:
        for port in _ports(service, pod):
            by_port.setdefault(port, []).append(one)
    made = Endpoints.new(
        service.name,
        namespace=service.namespace,
        labels=_labels(service),
        annotations={_TRUNCATED: "truncated"} if len(found) > _MOST else {},
        subsets=_subsets(by_port),
    )
    return set_controller(made, service)


def is_same_endpoints(before: Endpoints | None, wanted: Endpoints) -> bool:
    """Whether the existing object is up to date."""
    if before is None:
        return False
    old, new = before.metadata, wanted.metadata
    return (
        before.subsets == wanted.subsets
        and old.labels == new.labels
        and old.annotations.get(_TRUNCATED) == new.annotations.get(_TRUNCATED)
        and [one.uid for one in old.owner_references] == [one.uid for one in new.owner_references]
    )


def _addresses(service: Service, pods: Iterable[Pod]) -> Iterator[tuple[Pod, _Found]]:
    """The Pods that have an address, sorted by it."""
    publish_all = bool(service.spec.publish_not_ready_addresses)
    family = families_of(service)[0]
    candidates = [(pod, address_of(pod, family)) for pod in pods if publish_all or not is_being_deleted(pod)]
    addressed = [(pod, address) for pod, address in candidates if address is not None]
    for pod, address in sorted(addressed, key=lambda one: (ip_address(one[1]), one[0].name)):
        made = EndpointAddress(
            ip=address,
            hostname=hostname_in(service, pod),
            node_name=pod.spec.node_name or None,
            target_ref=reference_to(pod),
        )
        yield pod, (made, publish_all or is_ready(pod))


def _ports(service: Service, pod: Pod) -> list[_Port | None]:
    """The ports of a Pod; a headless Service without ports has the single entry None."""
    if not service.spec.ports:
        return [None] if is_headless(service) else []
    found = ports_of(service, pod)
    return [(one.name or "", one.port or 0, one.protocol or "TCP", one.app_protocol or "") for one in found]


def _subsets(by_port: dict[_Port | None, list[_Found]]) -> tuple[EndpointSubset, ...]:
    """The subsets: ports with the same addresses are in the same one."""
    together: dict[tuple[tuple[str | None, bool], ...], list[_Port]] = {}
    addresses: dict[tuple[tuple[str | None, bool], ...], list[_Found]] = {}
    for port, found in by_port.items():
        key = tuple((one.target_ref.uid if one.target_ref else None, ready) for one, ready in found)
        addresses[key] = found
        together.setdefault(key, []).extend([] if port is None else [port])
    ordered = sorted(together.items(), key=lambda one: (sorted(one[1]), str(one[0])))
    return tuple(_subset(addresses[key], sorted(ports)) for key, ports in ordered)


def _subset(found: Iterable[_Found], ports: Iterable[_Port]) -> EndpointSubset:
    return EndpointSubset(
        addresses=tuple(one for one, ready in found if ready),
        not_ready_addresses=tuple(one for one, ready in found if not ready),
        ports=tuple(
            EndpointPort(name=name or None, port=number, protocol=_protocol(protocol), app_protocol=app or None)
            for name, number, protocol, app in ports
        ),
    )


def _protocol(name: str) -> Protocol:
    return "UDP" if name == "UDP" else "SCTP" if name == "SCTP" else "TCP"


def _labels(service: Service) -> dict[str, str]:
    reserved = {_MANAGED_BY, HEADLESS}
    labels = {key: value for key, value in service.metadata.labels.items() if key not in reserved}
    if is_headless(service):
        labels[HEADLESS] = ""
    return {**labels, _MANAGED_BY: "endpoint-controller"}
