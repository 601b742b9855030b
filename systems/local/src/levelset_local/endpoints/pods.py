"""What endpoints need to know of a Pod: whether it is one, where it is, and which of its ports a Service leads to."""

from collections.abc import Hashable
from ipaddress import ip_address
from typing import Final

from levelset.kinds.core_v1 import ObjectReference, Pod, Service, ServicePort
from levelset.kinds.discovery_v1 import EndpointPort
from levelset_local.podstates import is_finished, is_ready

__all__ = ["address_of", "footprint", "hostname_in", "is_going", "port_of", "ports_of", "reference_to"]

_VERSIONS: Final = {"IPv4": 4, "IPv6": 6}


def address_of(pod: Pod, family: str = "IPv4") -> str | None:
    """The address of a Pod in a family; None if it has none, or will never run again."""
    if pod.status is None or is_finished(pod):
        return None
    listed = [one.ip for one in pod.status.pod_ips] or [pod.status.pod_ip or ""]
    return next((one for one in listed if _version(one) == _VERSIONS[family]), None)


def is_going(pod: Pod) -> bool:
    """Whether somebody has deleted it."""
    return pod.metadata.deletion_timestamp is not None


def port_of(pod: Pod, port: ServicePort) -> int | None:
    """The number of the port of a Pod that a port of a Service leads to; None if no container has one of that name."""
    target = port.target_port
    if not isinstance(target, str):
        return target or port.port
    beside = (one for one in pod.spec.init_containers if one.restart_policy == "Always")
    for container in (*pod.spec.containers, *beside):
        for one in container.ports:
            if one.name == target and (one.protocol or "TCP") == (port.protocol or "TCP"):
                return one.container_port
    return int(target) if target.isdigit() else None


def ports_of(service: Service, pod: Pod) -> tuple[EndpointPort, ...]:
    """The ports at which a Pod serves what a Service offers; those that it does not have are left out."""
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
    """The name that a Pod has below that of the Service, if it asks for one."""
    if not pod.spec.hostname or pod.spec.subdomain != service.name:
        return None
    return pod.spec.hostname if pod.namespace == service.namespace else None


def reference_to(pod: Pod) -> ObjectReference:
    """The Pod, as an address points to it."""
    return ObjectReference(kind="Pod", namespace=pod.namespace, name=pod.name, uid=pod.metadata.uid)


def footprint(pod: Pod) -> Hashable:
    """All of a Pod that can make a difference to endpoints: while this stays the same, nobody has to look."""
    spec, status = pod.spec, pod.status
    containers = (*spec.containers, *spec.init_containers)
    return (
        pod.metadata.uid,
        tuple(sorted(pod.metadata.labels.items())),
        is_going(pod),
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
