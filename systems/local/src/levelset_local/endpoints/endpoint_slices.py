"""The EndpointSlices of a Service: up to 100 endpoints with the same ports in each, changed with few writes; pure.

An endpoint stays in its slice. Pods whose ports have the same name and different numbers are in different slices. A
Service without Pods has one empty slice, so that clients can tell it from one that was not reconciled yet.
"""

import hashlib
from collections.abc import Iterable, Sequence
from itertools import count
from typing import Final

from msgspec import Struct

from levelset import set_controller
from levelset.kinds.core_v1 import Pod, Service
from levelset.kinds.discovery_v1 import Endpoint, EndpointConditions, EndpointPort, EndpointSlice
from levelset_local.endpoints.pod_endpoints import address_of, hostname_in, is_being_deleted, ports_of, reference_to
from levelset_local.pod_state import is_ready

__all__ = [
    "HEADLESS",
    "MANAGED_BY",
    "MANAGER",
    "SERVICE_NAME",
    "SlicePlan",
    "families_of",
    "is_headless",
    "plan_slices",
    "slice_labels",
]

SERVICE_NAME: Final = "kubernetes.io/service-name"
MANAGED_BY: Final = "endpointslice.kubernetes.io/managed-by"
MANAGER: Final = "endpointslice-controller.k8s.io"
HEADLESS: Final = "service.kubernetes.io/headless"

_MOST: Final = 100
_RESERVED: Final = frozenset({SERVICE_NAME, MANAGED_BY, HEADLESS})
_LETTERS: Final = "bcdfghjklmnpqrstvwxz2456789"


class SlicePlan(Struct, frozen=True):
    """The writes to make, in this order."""

    stale: tuple[EndpointSlice, ...] = ()
    """Slices of an earlier Service of the same name, to delete."""
    wanted: tuple[EndpointSlice, ...] = ()
    """Slices that are new or changed, to apply."""
    empty: tuple[EndpointSlice, ...] = ()
    """Slices without endpoints, to delete."""


def plan_slices(service: Service, pods: Iterable[Pod], existing: Iterable[EndpointSlice]) -> SlicePlan:
    """Plans the writes after which the slices of a Service have its Pods, as few as possible.

    `existing` are the slices with the name of the Service that this controller manages.
    """
    ordered = sorted(existing, key=lambda one: one.name)
    own = [one for one in ordered if _belongs(one, service)]
    stale = tuple(one for one in ordered if not _belongs(one, service))
    desired = _fill_all(service, _groups(service, pods), own)
    if not desired:
        desired = [_placeholder(service, own)]
    before = {one.name: one for one in own}
    names = {one.name for one in desired}
    return SlicePlan(
        stale=stale,
        wanted=tuple(one for one in desired if not _is_same(before.get(one.name), one)),
        empty=tuple(one for one in own if one.name not in names),
    )


def families_of(service: Service) -> tuple[str, ...]:
    """The IP families of a Service."""
    return tuple(service.spec.ip_families) or ("IPv4",)


def slice_labels(service: Service) -> dict[str, str]:
    """The labels of a slice: those of the Service, its name and the manager."""
    labels = {key: value for key, value in service.metadata.labels.items() if key not in _RESERVED}
    if is_headless(service):
        labels[HEADLESS] = ""
    return {**labels, SERVICE_NAME: service.name, MANAGED_BY: MANAGER}


def is_headless(service: Service) -> bool:
    """Whether a Service has no cluster IP."""
    return service.spec.cluster_ip in {None, "", "None"}


_Group = tuple[str, tuple[EndpointPort, ...]]
"""What the endpoints of a slice have in common: their IP family and their ports."""


def _groups(service: Service, pods: Iterable[Pod]) -> dict[_Group, dict[str, Endpoint]]:
    """The endpoints of each group by the uid of the Pod, sorted by its name."""
    groups: dict[_Group, dict[str, Endpoint]] = {}
    for family in families_of(service):
        for pod in sorted(pods, key=lambda one: one.name):
            address = address_of(pod, family)
            if address is not None:
                group = groups.setdefault((family, ports_of(service, pod)), {})
                group[pod.metadata.uid] = _endpoint(service, pod, address)
    return groups


def _endpoint(service: Service, pod: Pod, address: str) -> Endpoint:
    serving, terminating = is_ready(pod), is_being_deleted(pod)
    ready = bool(service.spec.publish_not_ready_addresses) or (serving and not terminating)
    return Endpoint(
        addresses=(address,),
        conditions=EndpointConditions(ready=ready, serving=serving, terminating=terminating),
        hostname=hostname_in(service, pod),
        node_name=pod.spec.node_name or None,
        target_ref=reference_to(pod),
    )


def _fill_all(
    service: Service, groups: dict[_Group, dict[str, Endpoint]], own: Sequence[EndpointSlice]
) -> list[EndpointSlice]:
    taken = {one.name for one in own}
    found: list[EndpointSlice] = []
    for group, endpoints in groups.items():
        slices = [one for one in own if (one.address_type, one.ports) == group]
        for name, inside in _fill(service, group, endpoints, slices, taken).items():
            found.append(_slice(service, group, name, inside))
    return found


def _fill(
    service: Service, group: _Group, wanted: dict[str, Endpoint], slices: Sequence[EndpointSlice], taken: set[str]
) -> dict[str, list[Endpoint]]:
    """The endpoints of the slices of one group: present ones stay, new ones go where the fewest writes result.

    New endpoints first fill slices that are written anyway, then the fullest slice that has space for all, then new
    slices.
    """
    left = dict(wanted)
    inside = {one.name: _retained(one, left) for one in slices}
    new = list(left.values())
    changing = [one.name for one in slices if inside[one.name] != list(one.endpoints)]
    for name in changing:
        space = _MOST - len(inside[name])
        inside[name] += new[:space]
        new = new[space:]
    fitting = [name for name, some in inside.items() if len(some) + len(new) <= _MOST]
    if new and fitting:
        inside[max(fitting, key=lambda name: len(inside[name]))] += new
        new = []
    while new:
        inside[_new_name(service, group, taken)] = new[:_MOST]
        new = new[_MOST:]
    return {name: sorted(some, key=_pod_name) for name, some in inside.items() if some}


def _retained(one: EndpointSlice, left: dict[str, Endpoint]) -> list[Endpoint]:
    """The current endpoints of those Pods of a slice that are still wanted; they are removed from `left`."""
    uids = [endpoint.target_ref.uid or "" for endpoint in one.endpoints if endpoint.target_ref is not None]
    return [left.pop(uid) for uid in uids if uid in left]


def _pod_name(endpoint: Endpoint) -> str:
    return (endpoint.target_ref.name if endpoint.target_ref else None) or ""


def _placeholder(service: Service, own: Sequence[EndpointSlice]) -> EndpointSlice:
    group: _Group = families_of(service)[0], ()
    found = [one.name for one in own if (one.address_type, one.ports) == group]
    name = found[0] if found else _new_name(service, group, {one.name for one in own})
    return _slice(service, group, name, [])


def _slice(service: Service, group: _Group, name: str, endpoints: Iterable[Endpoint]) -> EndpointSlice:
    family, ports = group
    made = EndpointSlice.new(
        name,
        namespace=service.namespace,
        labels=slice_labels(service),
        address_type="IPv6" if family == "IPv6" else "IPv4",
        endpoints=tuple(endpoints),
        ports=ports,
    )
    return set_controller(made, service)


def _new_name(service: Service, group: _Group, taken: set[str]) -> str:
    """A name in the form that Kubernetes generates, but deterministic for a Service, its ports and a number.

    A slice whose create response was lost is therefore found again, and not created twice.
    """
    for number in count():
        text = repr((group[0], [(one.name, one.port, one.protocol, one.app_protocol) for one in group[1]], number))
        digest = hashlib.sha256(text.encode()).digest()
        name = f"{service.name}-{''.join(_LETTERS[byte % len(_LETTERS)] for byte in digest[:5])}"
        if name not in taken:
            taken.add(name)
            return name
    raise AssertionError  # count() has no end


def _belongs(one: EndpointSlice, service: Service) -> bool:
    return any(owner.uid == service.metadata.uid for owner in one.metadata.owner_references)


def _is_same(before: EndpointSlice | None, wanted: EndpointSlice) -> bool:
    return (
        before is not None
        and before.endpoints == wanted.endpoints
        and before.ports == wanted.ports
        and before.metadata.labels == wanted.metadata.labels
    )
