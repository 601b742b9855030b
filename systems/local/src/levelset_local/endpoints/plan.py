"""Where a Service leads to, as EndpointSlices: up to 100 Pods with the same ports in each, and who is in one stays.

Pods whose ports have the same name and different numbers are in different slices. A Service without any Pod has one
slice that says so: whoever waits for it sees that it was thought of.
"""

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Final

from levelset import set_controller
from levelset.kinds.core_v1 import Pod, Service
from levelset.kinds.discovery_v1 import Endpoint, EndpointConditions, EndpointPort, EndpointSlice
from levelset_local.endpoints.pods import address_of, hostname_in, is_going, ports_of, reference_to
from levelset_local.podstates import is_ready

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


@dataclass(frozen=True, slots=True)
class SlicePlan:
    """What is to be done, in this order."""

    stale: tuple[EndpointSlice, ...] = ()
    """Slices of an earlier Service of the same name, to be deleted."""
    wanted: tuple[EndpointSlice, ...] = ()
    """Slices that are new or different, to be applied."""
    empty: tuple[EndpointSlice, ...] = ()
    """Slices in which there is nothing any more, to be deleted."""


def plan_slices(service: Service, pods: Iterable[Pod], existing: Iterable[EndpointSlice]) -> SlicePlan:
    """What has to be done so that the slices of a Service show its Pods, with as few writes as possible.

    `existing` are the slices with its name that this controller manages.
    """
    known = sorted(existing, key=lambda one: one.name)
    own = [one for one in known if _belongs(one, service)]
    stale = tuple(one for one in known if not _belongs(one, service))
    kept = _fill_all(service, _groups(service, pods), own)
    if not kept:
        kept = [_placeholder(service, own)]
    before = {one.name: one for one in own}
    names = {one.name for one in kept}
    return SlicePlan(
        stale=stale,
        wanted=tuple(one for one in kept if not _is_same(before.get(one.name), one)),
        empty=tuple(one for one in own if one.name not in names),
    )


def families_of(service: Service) -> tuple[str, ...]:
    """The families of addresses that a Service has."""
    return tuple(service.spec.ip_families) or ("IPv4",)


def slice_labels(service: Service) -> dict[str, str]:
    """The labels of a slice: those of the Service, and those by which it is found."""
    labels = {key: value for key, value in service.metadata.labels.items() if key not in _RESERVED}
    if is_headless(service):
        labels[HEADLESS] = ""
    return {**labels, SERVICE_NAME: service.name, MANAGED_BY: MANAGER}


def is_headless(service: Service) -> bool:
    """Whether a Service has no address of its own."""
    return service.spec.cluster_ip in {None, "", "None"}


_Group = tuple[str, tuple[EndpointPort, ...]]
"""What the Pods of a slice have in common: the family of their addresses, and their ports."""


def _groups(service: Service, pods: Iterable[Pod]) -> dict[_Group, dict[str, Endpoint]]:
    """The endpoints of each group, by the uid of the Pod, in the order of their names."""
    groups: dict[_Group, dict[str, Endpoint]] = {}
    for family in families_of(service):
        for pod in sorted(pods, key=lambda one: one.name):
            address = address_of(pod, family)
            if address is not None:
                group = groups.setdefault((family, ports_of(service, pod)), {})
                group[pod.metadata.uid] = _endpoint(service, pod, address)
    return groups


def _endpoint(service: Service, pod: Pod, address: str) -> Endpoint:
    serving, terminating = is_ready(pod), is_going(pod)
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
    """What is in the slices of one group: who is in one stays there, and who is new goes where least is written."""
    left = dict(wanted)
    inside = {one.name: _keep(one, left) for one in slices}
    news = list(left.values())
    changing = [one.name for one in slices if inside[one.name] != list(one.endpoints)]
    for name in changing:
        room = _MOST - len(inside[name])
        inside[name] += news[:room]
        news = news[room:]
    fitting = [name for name, some in inside.items() if len(some) + len(news) <= _MOST]
    if news and fitting:
        inside[max(fitting, key=lambda name: len(inside[name]))] += news
        news = []
    while news:
        inside[_new_name(service, group, taken)] = news[:_MOST]
        news = news[_MOST:]
    return {name: sorted(some, key=_pod_name) for name, some in inside.items() if some}


def _keep(one: EndpointSlice, left: dict[str, Endpoint]) -> list[Endpoint]:
    """Those of a slice that are still wanted, as they are wanted now; they are taken out of what is left."""
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
    """A name like those of Kubernetes, but always the same for the same Service, ports and number.

    So a slice whose creation was not heard of is found again, and not made twice.
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
