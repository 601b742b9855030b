"""The next step of a DaemonSet: on which nodes it creates a Pod, which Pods it deletes, and its status; pure.

A node should run a Pod if it has the labels of the node selector. A rolling update deletes old Pods within
`maxUnavailable`, or creates the new Pod beside the old one within `maxSurge`.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Final

from msgspec import Struct

from levelset import replace
from levelset.kinds.apps_v1 import DaemonSet, DaemonSetStatus
from levelset.kinds.core_v1 import Node, Pod
from levelset_local import pod_state
from levelset_local.controller_revisions import POD_REVISION
from levelset_local.pod_state import int_or_percent

__all__ = ["Plan", "make_plan", "new_pod", "should_run"]

_GENERATION: Final = "pod-template-generation"
_GENERATION_ANNOTATION: Final = "deprecated.daemonset.template.generation"


class Plan(Struct, frozen=True, kw_only=True):
    """The next step of a DaemonSet."""

    status: DaemonSetStatus
    create: tuple[str, ...] = ()
    """The names of the nodes that get a Pod."""
    delete: tuple[Pod, ...] = ()
    requeue_at: datetime | None = None
    """When the next of its Pods becomes available."""


def make_plan(owner: DaemonSet, pods: Sequence[Pod], nodes: Sequence[Node], revision: str, *, now: datetime) -> Plan:
    """Plans the next step of a DaemonSet that controls these Pods; `revision` is the hash of its template."""
    places = [_Place(owner, node, _pods_on(node, pods), revision, now) for node in nodes]
    create, delete = list[str](), list[Pod]()
    if owner.metadata.deletion_timestamp is None:
        known = {node.name for node in nodes}
        delete += [pod for pod in pods if pod.spec.node_name and pod.spec.node_name not in known and _is_present(pod)]
        for place in places:
            delete += place.unwanted()
            create += [place.node.name] if place.is_empty else []
        if owner.spec.update_strategy.type != "OnDelete":
            more, fewer = _update(owner, places)
            create, delete = [*create, *more], [*delete, *fewer]
    return Plan(
        status=_status(owner, places),
        create=tuple(dict.fromkeys(create)),
        delete=tuple({pod.name: pod for pod in delete}.values()),
        requeue_at=pod_state.next_available_at(pods, owner.spec.min_ready_seconds or 0, now=now),
    )


def should_run(owner: DaemonSet, node: Node) -> bool:
    """Whether a node should run a Pod of the DaemonSet."""
    wanted: Mapping[str, str] = owner.spec.template.spec.node_selector
    name = owner.spec.template.spec.node_name
    return (not name or name == node.name) and wanted.items() <= node.metadata.labels.items()


def new_pod(owner: DaemonSet, node: str, revision: str) -> Pod:
    """The Pod to create on a node."""
    made = pod_state.pod_from_template(owner.spec.template, generate_name=f"{owner.name}-", namespace=owner.namespace)
    labels = {**made.metadata.labels, POD_REVISION: revision}
    if _GENERATION_ANNOTATION in owner.metadata.annotations:
        labels[_GENERATION] = owner.metadata.annotations[_GENERATION_ANNOTATION]
    return replace(made.with_metadata(labels=labels), spec=replace(made.spec, node_name=node))


class _Place(Struct, frozen=True):
    """A node, and the Pods of the DaemonSet on it, the oldest first."""

    owner: DaemonSet
    node: Node
    pods: tuple[Pod, ...]
    revision: str
    now: datetime

    @property
    def is_wanted(self) -> bool:
        return should_run(self.owner, self.node)

    @property
    def is_empty(self) -> bool:
        """Whether a Pod is missing; one that is being deleted or has failed must be gone first."""
        return self.is_wanted and not self.pods

    @property
    def running(self) -> list[Pod]:
        return [pod for pod in self.pods if pod_state.is_active(pod)]

    @property
    def new(self) -> Pod | None:
        return next((pod for pod in self.running if self.is_updated(pod)), None)

    @property
    def old(self) -> Pod | None:
        return next((pod for pod in self.running if not self.is_updated(pod)), None)

    def is_updated(self, pod: Pod) -> bool:
        return pod.metadata.labels.get(POD_REVISION) == self.revision

    def is_available(self, pod: Pod) -> bool:
        return pod_state.is_available(pod, self.owner.spec.min_ready_seconds or 0, now=self.now)

    def unwanted(self) -> list[Pod]:
        """The Pods that have finished, are too many, or are on a node that should have none."""
        present = [pod for pod in self.pods if _is_present(pod)]
        if not self.is_wanted:
            return present
        ended = [pod for pod in present if pod_state.is_finished(pod)]
        staying = [pod for pod in (self.new, self.old) if pod is not None]
        if _surge(self.owner, 1) == 0 or self.owner.spec.update_strategy.type == "OnDelete":
            staying = self.running[:1]
        return [*ended, *(pod for pod in self.running if all(one is not pod for one in staying))]


def _pods_on(node: Node, pods: Sequence[Pod]) -> tuple[Pod, ...]:
    return tuple(sorted((pod for pod in pods if pod.spec.node_name == node.name), key=_age))


def _age(pod: Pod) -> tuple[float, str]:
    created = pod.metadata.creation_timestamp
    return (0.0 if created is None else created.timestamp()), pod.name


def _is_present(pod: Pod) -> bool:
    return pod.metadata.deletion_timestamp is None


def _surge(owner: DaemonSet, wanted: int) -> int:
    rolling = owner.spec.update_strategy.rolling_update
    given = 0 if rolling is None or rolling.max_surge is None else rolling.max_surge
    return int_or_percent(given, wanted, up=True)


def _unavailable(owner: DaemonSet, wanted: int) -> int:
    rolling = owner.spec.update_strategy.rolling_update
    given = 1 if rolling is None or rolling.max_unavailable is None else rolling.max_unavailable
    return int_or_percent(given, wanted, up=True)


def _update(owner: DaemonSet, places: Sequence[_Place]) -> tuple[list[str], list[Pod]]:
    """The nodes that get a new Pod beside the old one, and the old Pods that a rolling update deletes."""
    wanted = [place for place in places if place.is_wanted]
    surge = _surge(owner, len(wanted))
    return (
        _surging_update(wanted, surge) if surge else ([], _replacing_update(wanted, _unavailable(owner, len(wanted))))
    )


def _replacing_update(places: Sequence[_Place], limit: int) -> list[Pod]:
    """Old Pods that are not available are deleted in any case, others while fewer Pods than the limit are missing."""
    missing, broken, candidates = 0, list[Pod](), list[Pod]()
    for place in places:
        new, old = place.new, place.old
        if old is None or new is not None:
            missing += new is None or old is not None or not place.is_available(new)
        elif place.is_available(old):
            candidates.append(old)
        else:
            broken.append(old)
            missing += 1
    return [*broken, *candidates[: max(0, limit - missing)]]


def _surging_update(places: Sequence[_Place], limit: int) -> tuple[list[str], list[Pod]]:
    """An old Pod is deleted when the new one is available; one that is not available does not use up the limit."""
    create, candidates, delete, surging = list[str](), list[str](), list[Pod](), 0
    for place in places:
        new, old = place.new, place.old
        if old is None:
            continue
        if new is None:
            (candidates if place.is_available(old) else create).append(place.node.name)
        elif place.is_available(new):
            delete.append(old)
        else:
            surging += 1
    return [*create, *candidates[: max(0, limit - surging)]], delete


def _status(owner: DaemonSet, places: Sequence[_Place]) -> DaemonSetStatus:
    wanted = [place for place in places if place.is_wanted]
    firsts = [(place, place.pods[0]) for place in wanted if place.pods]
    before = owner.status
    available = sum(place.is_available(pod) for place, pod in firsts)
    return DaemonSetStatus(
        desired_number_scheduled=len(wanted),
        current_number_scheduled=len(firsts),
        number_misscheduled=sum(bool(place.pods) and not place.is_wanted for place in places),
        number_ready=sum(pod_state.is_ready(pod) for _, pod in firsts),
        updated_number_scheduled=sum(place.is_updated(pod) for place, pod in firsts),
        number_available=available,
        number_unavailable=len(wanted) - available,
        observed_generation=owner.metadata.generation,
        collision_count=None if before is None else before.collision_count,
        conditions=() if before is None else before.conditions,
    )
