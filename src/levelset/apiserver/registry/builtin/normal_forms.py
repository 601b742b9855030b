"""Normal forms of built-in kinds: canonical quantities, and what kube-apiserver prints although no client set it.

The latter are Go's structs and numbers without `omitempty`. They belong to no field manager, so they are set after the
fields of the client are recorded. So are fields dropped whose features are disabled.
"""

from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import Any, Final

from levelset.apiserver.resources.json_members import list_member, map_member
from levelset.apiserver.resources.served_resource import Object
from levelset.errors import BadQuantity
from levelset.objects.quantity import Quantity

__all__ = [
    "CONDITION_TIMES",
    "DISABLED",
    "STATUS",
    "ZEROS",
    "canonical",
    "set_canonical",
    "set_canonical_list",
    "set_new_status",
    "set_status_zeros",
    "set_zeros",
]

APPS: Final = "apps"
RBAC: Final = "rbac.authorization.k8s.io"
_CONTAINER_GROUPS: Final = ("containers", "initContainers", "ephemeralContainers")
_TEMPLATE: Final = ("spec", "template", "spec")
_ATTRIBUTE_LISTS: Final = ("bools", "ints", "strings", "versions")
# Paths of members that are always there, and their zero.
ZEROS: Final[dict[tuple[str, str], tuple[tuple[str, Any], ...]]] = {
    ("", "PodTemplate"): (("template.metadata", {}),),
    ("", "ReplicationController"): (("spec.template.metadata", {}),),
    (APPS, "ControllerRevision"): (("revision", 0),),
    (APPS, "DaemonSet"): (("spec.template.metadata", {}),),
    (APPS, "Deployment"): (("spec.template.metadata", {}),),
    (APPS, "ReplicaSet"): (("spec.template.metadata", {}),),
    (APPS, "StatefulSet"): (("spec.template.metadata", {}), ("spec.serviceName", "")),
    (RBAC, "ClusterRole"): (("rules", None),),
    (RBAC, "Role"): (("rules", None),),
    ("batch", "CronJob"): (("spec.jobTemplate.metadata", {}), ("spec.jobTemplate.spec.template.metadata", {})),
    ("batch", "Job"): (("spec.template.metadata", {}),),
}
# The zeros of a status; the status of other kinds is absent until it is written.
STATUS: Final[dict[tuple[str, str], Object]] = {
    ("", "ReplicationController"): {"replicas": 0},
    (APPS, "DaemonSet"): {
        "currentNumberScheduled": 0,
        "numberMisscheduled": 0,
        "desiredNumberScheduled": 0,
        "numberReady": 0,
    },
    (APPS, "Deployment"): {},
    (APPS, "ReplicaSet"): {"replicas": 0},
    (APPS, "StatefulSet"): {"replicas": 0, "availableReplicas": 0},
    ("batch", "CronJob"): {},
    ("batch", "Job"): {},
    ("", "ResourceQuota"): {},
    ("admissionregistration.k8s.io", "ValidatingAdmissionPolicy"): {},
    ("apiregistration.k8s.io", "APIService"): {},
    ("certificates.k8s.io", "CertificateSigningRequest"): {},
    ("flowcontrol.apiserver.k8s.io", "FlowSchema"): {},
    ("flowcontrol.apiserver.k8s.io", "PriorityLevelConfiguration"): {},
    ("networking.k8s.io", "Ingress"): {"loadBalancer": {}},
    ("networking.k8s.io", "ServiceCIDR"): {},
    ("resource.k8s.io", "ResourceClaim"): {},
    ("policy", "PodDisruptionBudget"): {
        "currentHealthy": 0,
        "desiredHealthy": 0,
        "disruptionsAllowed": 0,
        "expectedPods": 0,
    },
}
# The times of a condition, which are null until they are set.
CONDITION_TIMES: Final[dict[tuple[str, str], tuple[str, ...]]] = {
    ("", "Pod"): ("lastProbeTime", "lastTransitionTime"),
    ("", "ReplicationController"): ("lastTransitionTime",),
    ("apiregistration.k8s.io", "APIService"): ("lastTransitionTime",),
    ("flowcontrol.apiserver.k8s.io", "FlowSchema"): ("lastTransitionTime",),
    ("flowcontrol.apiserver.k8s.io", "PriorityLevelConfiguration"): ("lastTransitionTime",),
    (APPS, "DaemonSet"): ("lastTransitionTime",),
    (APPS, "Deployment"): ("lastUpdateTime", "lastTransitionTime"),
    (APPS, "ReplicaSet"): ("lastTransitionTime",),
    (APPS, "StatefulSet"): ("lastTransitionTime",),
    ("batch", "Job"): ("lastProbeTime", "lastTransitionTime"),
}


def set_zeros(key: tuple[str, str], tree: Object) -> None:
    """Sets the members of an object that are always there."""
    for path, zero in ZEROS.get(key, ()):
        *parents, last = path.split(".")
        here: Any = tree
        for name in parents:
            here = here.get(name) if here.__class__ is dict else None
        if here.__class__ is dict and here.get(last) is None:
            here[last] = zero.copy() if zero.__class__ is dict else zero


def set_new_status(key: tuple[str, str], tree: Object) -> None:
    """Sets the status of a new object."""
    if key in STATUS:
        tree["status"] = STATUS[key].copy()


def set_status_zeros(key: tuple[str, str], tree: Object) -> None:
    """Sets the members of a status that are always there."""
    status = map_member(tree, "status")
    for name, zero in STATUS.get(key, {}).items():
        if status.get(name) is None:
            status[name] = zero
    _set_null_times(list_member(status, "conditions"), CONDITION_TIMES.get(key, ()))
    if STATUS.get(key) is not None or "status" in tree:
        tree["status"] = status


def _set_null_times(conditions: list[Any], names: Iterable[str]) -> None:
    for name in names:
        for condition in conditions:
            condition.setdefault(name, None)


def canonical(value: Any, *, milli: bool = False) -> Any:
    """The canonical text of a quantity; with `milli` it is rounded up to thousandths. Other values stay."""
    # A cache of long texts, of refused requests even, would fill the memory.
    is_short = value.__class__ is str and len(value) <= _MAX_CACHED
    return _cached_canonical(value, milli) if is_short else _canonical(value, milli)


_MAX_CACHED: Final = 40  # characters


def _canonical(value: Any, milli: bool) -> Any:
    try:
        found = Quantity.from_tree(value)
    except BadQuantity:
        return value
    if milli and found.nanos % 10**6:
        found = Quantity(f"{found.to_milli()}m")
    return str(found)


_cached_canonical = lru_cache(maxsize=2048)(_canonical)


def set_canonical(tree: Any, name: str) -> None:
    """Sets the canonical form of one member."""
    value = tree.get(name)
    if value is not None and value.__class__ is not bool:
        tree[name] = canonical(value)


def set_canonical_list(resources: Any) -> None:
    """Sets the canonical form of the amounts of a resource list, which are at least thousandths."""
    if resources:
        for name, value in resources.items():
            if value.__class__ is str and len(value) <= _MAX_CACHED:
                resources[name] = _cached_canonical(value, True)
            else:
                resources[name] = canonical(value, milli=True)


def _drop_members(*names: str) -> Callable[[Object], None]:
    def drop(tree: Object) -> None:
        _remove(map_member(tree, "spec"), *names)

    return drop


def _remove(members: Object, *names: str) -> None:
    for name in names:
        members.pop(name, None)


def _drop_of_pod(*path: str) -> Callable[[Object], None]:
    def drop(tree: Object) -> None:
        spec: Any = tree
        for name in path:
            spec = map_member(spec, name)
        spec.pop("schedulingGroup", None)
        for volume in spec.get("volumes") or ():
            if "projected" in volume:
                for source in list_member(volume["projected"], "sources"):
                    source.pop("clusterTrustBundle", None)
        for group in _CONTAINER_GROUPS:
            if group in spec:
                for container in spec[group] or ():
                    if "lifecycle" in container:
                        _drop_stop_signal(container)

    return drop


def _drop_stop_signal(container: Object) -> None:
    lifecycle = map_member(container, "lifecycle")
    if "stopSignal" in lifecycle:
        del lifecycle["stopSignal"]
        if not lifecycle:
            del container["lifecycle"]


_drop_of_template: Final = _drop_of_pod(*_TEMPLATE)


def _drop_of_stateful_set(tree: Object) -> None:
    _drop_of_template(tree)
    _remove(map_member(map_member(map_member(tree, "spec"), "updateStrategy"), "rollingUpdate"), "maxUnavailable")


def _drop_of_slice(tree: Object) -> None:
    for device in list_member(map_member(tree, "spec"), "devices"):
        for attribute in map_member(device, "attributes").values():
            _remove(attribute, *_ATTRIBUTE_LISTS)
        _remove(device, "nodeAllocatableResourceMappings")


def _drop_of_service(tree: Object) -> None:
    spec = map_member(tree, "spec")
    # Upstream drops it when it is read: what is invalid has been refused before.
    if spec.get("type") == "ExternalName" and spec.get("internalTrafficPolicy") in ("Cluster", "Local"):
        _remove(spec, "internalTrafficPolicy")


DISABLED: Final[dict[tuple[str, str], Callable[[Object], None]]] = {
    ("coordination.k8s.io", "Lease"): _drop_members("strategy", "preferredHolder"),
    ("resource.k8s.io", "ResourceSlice"): _drop_of_slice,
    ("storage.k8s.io", "CSIDriver"): _drop_members("preventPodSchedulingIfMissing"),
    ("", "Node"): _drop_members("configSource"),
    ("", "Pod"): _drop_of_pod("spec"),
    ("", "PodTemplate"): _drop_of_pod("template", "spec"),
    ("", "Service"): _drop_of_service,
    ("", "ReplicationController"): _drop_of_pod(*_TEMPLATE),
    **{(APPS, kind): _drop_of_template for kind in ("DaemonSet", "Deployment", "ReplicaSet")},
    (APPS, "StatefulSet"): _drop_of_stateful_set,
    ("batch", "Job"): _drop_of_pod(*_TEMPLATE),
    ("batch", "CronJob"): _drop_of_pod("spec", "jobTemplate", *_TEMPLATE),
}
"""What takes fields out of an object whose features are off by default in Kubernetes 1.36.

Upstream they are dropped after the owners of all fields were computed: the writer owns what is not stored.
"""
