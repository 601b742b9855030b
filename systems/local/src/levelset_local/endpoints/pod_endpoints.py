"""A Pod as an endpoint of a Service: its address, its ports, its host name and its reference."""

from collections.abc import Hashable
from ipaddress import ip_address
from typing import Final

from levelset.kinds.core_v1 import ObjectReference, Pod, Service, ServicePort
from levelset.kinds.discovery_v1 import EndpointPort
from levelset_local.pod_state import is_finished, is_ready

__all__ = ["address_of", "endpoint_inputs", "hostname_in", "is_being_deleted", "port_of", "ports_of", "reference_to"]

_VERSIONS: Final = {"IPv4": 4, "IPv6": 6}


def address_of(pod: Pod, family: str = "IPv4") -> str | None:
    """The address of a Pod in an IP family; None if it has none, or has finished."""
    if pod.status is None or is_finished(pod):
        return None
    listed = [one.ip for one in pod.status.pod_ips] or [pod.status.pod_ip or ""]
    return next((one for one in listed if _version(one) == _VERSIONS[family]), None)


def is_being_deleted(pod: Pod) -> bool:
    """Whether a Pod has a deletion timestamp."""
    return pod.metadata.deletion_timestamp is not None


def port_of(pod: Pod, port: ServicePort) -> int | None:
    """The number of a Pod's port for the target port of a Service; None if no container has a port of that name."""
    target = port.target_port
    if not isinstance(target, str):
        return target or port.port
    sidecars = (one for one in pod.spec.init_containers if one.restart_policy == "Always")
    for container in (*pod.spec.containers, *sidecars):
        for one in container.ports:
            if one.name == target and (one.protocol or "TCP") == (port.protocol or "TCP"):
                return one.container_port
    return int(target) if target.isdigit() else None


def ports_of(service: Service, pod: Pod) -> tuple[EndpointPort, ...]:
    """The ports of a Pod for the ports of a Service; those that it does not have are left out."""
    found: list[EndpointPort] = []
    for port in service.spec.ports:
        number = port_of(pod, port)
        if number is not None:
            made = EndpointPort(
                name=port.name or "", port=number, protocol=port.protocol or "TCP", app_protocol=port.app_protocol
            )
            found.append(made)
    return tuple(found)


def hostname_in(service: Service, pod: Pod) -> str | None:
    """The host name of a Pod in the subdomain of a Service; None if it has none."""
    if not pod.spec.hostname or pod.spec.subdomain != service.name:
        return None
    return pod.spec.hostname if pod.namespace == service.namespace else None


def reference_to(pod: Pod) -> ObjectReference:
    """The target reference of an endpoint."""
    return ObjectReference(kind="Pod", namespace=pod.namespace, name=pod.name, uid=pod.metadata.uid)


def endpoint_inputs(pod: Pod) -> Hashable:
    """All fields of a Pod that endpoints depend on: while they are unchanged, no reconcile is needed."""
    spec, status = pod.spec, pod.status
    containers = (*spec.containers, *spec.init_containers)
    return (
        pod.metadata.uid,
        tuple(sorted(pod.metadata.labels.items())),
        is_being_deleted(pod),
        is_finished(pod),
        is_ready(pod),
        () if status is None else (status.pod_ip, *(one.ip for one in status.pod_ips)),
        (spec.node_name, spec.hostname, spec.subdomain),
        tuple((one.name, one.container_port, one.protocol) for each in containers for one in each.ports),
    )


def _version(address: str) -> int | None:
    try:
        return ip_address(address).version
    except ValueError:
        return None
