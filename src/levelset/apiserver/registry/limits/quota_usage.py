"""What ResourceQuotas count: the usage of an object, the scopes of a quota, and what it demands of a Pod.

Pure: `verbs/quota_admission.py` charges quotas, and `controllers/resource_quotas.py` counts them again.
"""

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Any, Final

from levelset.apiserver.registry.builtin.pods import qos_class
from levelset.apiserver.registry.limits.pod_resources import Amounts, add, pod_resources
from levelset.apiserver.resources.json_members import list_member, map_member
from levelset.apiserver.resources.served_resource import Object, ServedResource
from levelset.objects.quantity import Quantity
from levelset.objects.timestamps import parse_time

__all__ = ["counted_resources", "exceeded", "missing_resources", "requested", "sum_usage", "usage_of", "used_amounts"]

ONE: Final = Quantity("1")
ZERO: Final = Quantity("0")
_COUNTED: Final = frozenset(
    {"configmaps", "persistentvolumeclaims", "replicationcontrollers", "resourcequotas", "secrets", "services"}
)
# Resources of containers that quotas count under their own name, too.
_PLAIN: Final = ("cpu", "memory", "ephemeral-storage")
_CLASS: Final = ".storageclass.storage.k8s.io/"


def usage_of(served: ServedResource, tree: Object, now: datetime) -> Amounts:
    """What an object uses of any quota, by the names that quotas have for it."""
    usage: Amounts = {f"count/{served.qualified}": ONE}
    if served.group:
        return usage
    if served.plural in _COUNTED:
        usage[served.plural] = ONE
    match served.plural:
        case "pods":
            if _is_running(tree, now):
                usage |= _pod_usage(map_member(tree, "spec"))
        case "services":
            usage |= _service_usage(map_member(tree, "spec"))
        case "persistentvolumeclaims":
            usage |= _claim_usage(tree)
        case _:
            pass
    return usage


def _is_running(pod: Object, now: datetime) -> bool:
    """Whether a Pod uses resources: not one that has ended, or whose grace period is over."""
    if map_member(pod, "status").get("phase") in ("Failed", "Succeeded"):
        return False
    metadata = pod["metadata"]
    since, grace = metadata.get("deletionTimestamp"), metadata.get("deletionGracePeriodSeconds")
    return since is None or grace is None or parse_time(since) + timedelta(seconds=grace) >= now


def _pod_usage(spec: Object) -> Amounts:
    usage: Amounts = {"pods": ONE}
    for name, value in pod_resources(spec, "requests").items():
        if name in _PLAIN or name.startswith("hugepages-"):
            usage[name] = value
        usage[f"requests.{name}"] = value
    for name, value in pod_resources(spec, "limits").items():
        if name in _PLAIN or name.startswith("hugepages-"):
            usage[f"limits.{name}"] = value
    return usage


def _service_usage(spec: Object) -> Amounts:
    ports = list_member(spec, "ports")
    balanced = spec.get("type") == "LoadBalancer"
    has_node_ports = spec.get("type") == "NodePort" or (
        balanced and spec.get("allocateLoadBalancerNodePorts") is not False
    )
    nodes = len(ports) if has_node_ports else sum(1 for one in ports if one.get("nodePort")) if balanced else 0
    return {"services.nodeports": Quantity(str(nodes)), "services.loadbalancers": ONE if balanced else ZERO}


def _claim_usage(claim: Object) -> Amounts:
    spec = map_member(claim, "spec")
    annotations = map_member(claim["metadata"], "annotations")
    name = annotations.get("volume.beta.kubernetes.io/storage-class") or spec.get("storageClassName")
    usage: Amounts = {f"{name}{_CLASS}persistentvolumeclaims": ONE} if name else {}
    size = map_member(map_member(spec, "resources"), "requests").get("storage")
    if size is not None:
        usage["requests.storage"] = Quantity.from_tree(size)
        if name:
            usage[f"{name}{_CLASS}requests.storage"] = usage["requests.storage"]
    return usage


def _quota_matches(quota: Object, served: ServedResource, tree: Object) -> bool:
    """Whether a quota counts this object: its scopes select it; one without scopes counts everything."""
    spec = map_member(quota, "spec")
    selectors: list[Any] = [{"scopeName": name, "operator": "Exists"} for name in list_member(spec, "scopes")]
    selectors += list_member(map_member(spec, "scopeSelector"), "matchExpressions")
    return all(_in_scope(selector, served, tree) for selector in selectors)


def _in_scope(selector: Object, served: ServedResource, tree: Object) -> bool:
    if served.group:
        return False
    name, spec = selector.get("scopeName"), map_member(tree, "spec")
    if served.plural == "persistentvolumeclaims":
        wanted = spec.get("volumeAttributesClassName") or ""
        return name == "VolumeAttributesClass" and _selects(selector, wanted)
    if served.plural != "pods":
        return False
    match name:
        case "Terminating":
            return spec.get("activeDeadlineSeconds") is not None
        case "NotTerminating":
            return spec.get("activeDeadlineSeconds") is None
        case "BestEffort":
            return qos_class(spec) == "BestEffort"
        case "NotBestEffort":
            return qos_class(spec) != "BestEffort"
        case "PriorityClass":
            return _selects(selector, spec.get("priorityClassName") or "")
        case "CrossNamespacePodAffinity":
            return _crosses_namespaces(map_member(spec, "affinity"))
        case _:
            return False


def _selects(selector: Object, value: str) -> bool:
    values = list_member(selector, "values")
    match selector.get("operator"):
        case "In":
            return value in values
        case "NotIn":
            return value not in values
        case "Exists":
            return bool(value)
        case "DoesNotExist":
            return not value
        case _:
            return False


def _crosses_namespaces(affinity: Object) -> bool:
    terms: list[Any] = []
    for group in (map_member(affinity, "podAffinity"), map_member(affinity, "podAntiAffinity")):
        terms += list_member(group, "requiredDuringSchedulingIgnoredDuringExecution")
        preferred = list_member(group, "preferredDuringSchedulingIgnoredDuringExecution")
        terms += [map_member(one, "podAffinityTerm") for one in preferred]
    return any(one.get("namespaces") or one.get("namespaceSelector") is not None for one in terms)


def counted_resources(quota: Object) -> set[str]:
    """The names of what a quota limits."""
    return set(map_member(map_member(quota, "spec"), "hard"))


def used_amounts(quota: Object) -> Amounts:
    """What the status of a quota says is used."""
    used = map_member(map_member(quota, "status"), "used")
    return {name: Quantity.from_tree(value) for name, value in used.items()}


def sum_usage(quota: Object, objects: Iterable[tuple[ServedResource, Object]], now: datetime) -> Amounts:
    """What these objects use of a quota, of each resource that it limits."""
    names = counted_resources(quota)
    total: Amounts = dict.fromkeys(sorted(names), ZERO)
    for served, tree in objects:
        if _quota_matches(quota, served, tree):
            total = add(total, {name: value for name, value in usage_of(served, tree, now).items() if name in names})
    return total


def missing_resources(quota: Object, pod: Object) -> str:
    """What a quota demands that the containers of a Pod do not say, as a message; empty if nothing is missing."""
    spec = map_member(pod, "spec")
    if spec.get("resources"):  # what the Pod says for itself counts, and its containers need not say anything
        return ""
    names = [name for name in sorted(_hard(quota)) if _is_compute(name)]
    lacking: dict[str, set[str]] = {}
    for container in (*list_member(spec, "containers"), *list_member(spec, "initContainers")):
        own = _pod_usage({"containers": [container]})
        for name in names:
            if name not in own:
                lacking.setdefault(name, set()).add(str(container.get("name")))
    parts = [f"{name} for: {','.join(sorted(containers))}" for name, containers in lacking.items()]
    return f"must specify {'; '.join(parts)}" if parts else ""


def _is_compute(name: str) -> bool:
    """Whether every container must say how much it needs of this."""
    return name.removeprefix("requests.").removeprefix("limits.") in ("cpu", "memory")


def requested(quota: Object, served: ServedResource, tree: Object, old: Object | None, now: datetime) -> Amounts:
    """What a write asks of a quota beyond what the object before it used; without zeros."""
    if not _quota_matches(quota, served, tree):
        return {}
    hard = _hard(quota)
    before = usage_of(served, old, now) if old is not None and _quota_matches(quota, served, old) else {}
    found: Amounts = {}
    for name, value in usage_of(served, tree, now).items():
        more = value - before[name] if name in before else value
        if name in hard and more > ZERO:
            found[name] = more
    return found


def exceeded(quota: Object, more: Amounts) -> str:
    """Why a quota does not allow to use so much more, as a message; empty if it does."""
    hard, used = _hard(quota), used_amounts(quota)
    wrong = [name for name, value in sorted(more.items()) if hard[name] < used.get(name, ZERO) + value]
    if not wrong:
        return ""
    more_text, used_text, hard_text = (
        ",".join(f"{name}={amounts.get(name, ZERO)}" for name in wrong) for amounts in (more, used, hard)
    )
    name = quota["metadata"]["name"]
    return f"exceeded quota: {name}, requested: {more_text}, used: {used_text}, limited: {hard_text}"


def _hard(quota: Object) -> Amounts:
    """The limits that are in force: those of the status, for which the usage is known."""
    hard = map_member(map_member(quota, "status"), "hard")
    return {name: Quantity.from_tree(value) for name, value in hard.items()}
