"""Which rules a built-in kind goes by: its names, what it means by default, what must hold and what never changes."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from levelset.apiserver.registry.builtin import (
    admission_policies,
    config_and_namespaces,
    events_and_leases,
    pods,
    rbac,
    webhook_configurations,
    workloads,
)
from levelset.apiserver.registry.builtin.defaults import FILLERS
from levelset.apiserver.registry.metadata import check_dns1035_label, check_path_segment
from levelset.apiserver.resources.json_members import part
from levelset.apiserver.resources.served_resource import Object, Rules
from levelset.apiserver.schema import field_errors
from levelset.errors import Cause
from levelset.objects.names import check_dns1123_label, check_dns1123_subdomain

__all__ = ["rules_of"]

Fill = Callable[[Object], None]
Check = Callable[[Object, Object | None], list[Cause]]

APPS = "apps"
BATCH = "batch"
ADMISSION = "admissionregistration.k8s.io"
RBAC = "rbac.authorization.k8s.io"
NETWORK = "networking.k8s.io"

GENERATION = frozenset(
    {
        *((APPS, kind) for kind in ("DaemonSet", "Deployment", "ReplicaSet", "StatefulSet")),
        *((BATCH, kind) for kind in ("CronJob", "Job")),
        *(("", kind) for kind in ("Pod", "ReplicationController")),
        *((ADMISSION, kind) for kind in ("MutatingAdmissionPolicy", "MutatingAdmissionPolicyBinding")),
        *((ADMISSION, kind) for kind in ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration")),
        *((ADMISSION, kind) for kind in ("ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding")),
        ("apiextensions.k8s.io", "CustomResourceDefinition"),
        ("discovery.k8s.io", "EndpointSlice"),
        *(("flowcontrol.apiserver.k8s.io", kind) for kind in ("FlowSchema", "PriorityLevelConfiguration")),
        *((NETWORK, kind) for kind in ("Ingress", "IngressClass", "NetworkPolicy")),
        ("policy", "PodDisruptionBudget"),
        ("scheduling.k8s.io", "PriorityClass"),
    }
)
# These demand a resourceVersion in every update, as custom resources do.
CONDITIONAL = frozenset(
    {
        *((ADMISSION, kind) for group, kind in GENERATION if group == ADMISSION),
        ("apiextensions.k8s.io", "CustomResourceDefinition"),
        ("apiregistration.k8s.io", "APIService"),
        ("coordination.k8s.io", "Lease"),
        ("node.k8s.io", "RuntimeClass"),
        ("policy", "PodDisruptionBudget"),
    }
)
CREATED_BY_UPDATE = frozenset(
    {
        *(("", kind) for kind in ("Endpoints", "Event", "LimitRange", "Service")),
        ("coordination.k8s.io", "Lease"),
        ("events.k8s.io", "Event"),
        *((RBAC, kind) for kind in ("ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding")),
    }
)
# Fields that stay as they were created, by kind; a dotted path.
FIXED: dict[tuple[str, str], tuple[str, ...]] = {
    ("", "PersistentVolume"): ("spec.csi", "spec.hostPath", "spec.nfs", "spec.volumeMode"),
    ("scheduling.k8s.io", "PriorityClass"): ("value", "preemptionPolicy"),
    ("storage.k8s.io", "StorageClass"): ("parameters", "provisioner", "reclaimPolicy", "volumeBindingMode"),
    ("discovery.k8s.io", "EndpointSlice"): ("addressType",),
    (NETWORK, "IngressClass"): ("spec.controller",),
    ("node.k8s.io", "RuntimeClass"): ("handler",),
}


def rules_of(group: str, kind: str) -> Rules:
    """The rules of a built-in kind, as far as they can be told from the object alone."""
    key = (group, kind)
    checks = [one for one in (CHECKS.get(key), _fixed_check(FIXED.get(key, ()))) if one is not None]
    return Rules(
        generation=key in GENERATION,
        unconditional_update=key not in CONDITIONAL,
        create_on_update=key in CREATED_BY_UPDATE,
        name_check=NAMES.get(key, check_dns1123_subdomain),
        default=FILLERS.get(key),
        prepare_create=STARTS.get(key),
        prepare_update=KEEPS.get(key),
        prepare_delete=config_and_namespaces.terminate_namespace if key == ("", "Namespace") else None,
        held=config_and_namespaces.is_held_namespace if key == ("", "Namespace") else None,
        validate=_all_of(checks) if checks else None,
        graceful=key == ("", "Pod"),
        finalizers_need_slash=True,
    )


def _check_claim(new: Object, old: Object | None) -> list[Cause]:
    if old is None or _claimed(new) == _claimed(old):
        return []
    detail = "spec is immutable after creation except resources.requests and volumeAttributesClassName"
    return [field_errors.forbidden("spec", detail)]


def _claimed(tree: Object) -> Object:
    open_to_change = ("resources", "volumeAttributesClassName", "volumeName")
    return {name: value for name, value in part(tree, "spec").items() if name not in open_to_change}


def _check_pod(new: Object, old: Object | None) -> list[Cause]:
    causes = pods.check_pod_spec(part(new, "spec"), "spec")
    return causes if old is None else causes + pods.check_pod_update(new, old)


@dataclass(frozen=True, slots=True)
class _Fixed:
    """Refuses an update that changes one of these fields."""

    paths: tuple[str, ...]

    def __call__(self, new: Object, old: Object | None) -> list[Cause]:
        if old is None:
            return []
        changed = [path for path in self.paths if _at(new, path) != _at(old, path)]
        return [field_errors.invalid(path, _at(new, path), "field is immutable") for path in changed]


def _fixed_check(paths: tuple[str, ...]) -> Check | None:
    return _Fixed(paths) if paths else None


def _at(tree: Object, path: str) -> object:
    found: object = tree
    for name in path.split("."):
        found = found.get(name) if isinstance(found, dict) else None  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType] - a JSON tree
    return found  # pyright: ignore[reportUnknownVariableType] - a JSON tree


def _all_of(checks: Iterable[Check]) -> Check:
    kept = tuple(checks)
    if len(kept) == 1:
        return kept[0]
    return lambda new, old: [cause for check in kept for cause in check(new, old)]


def _start_pod(tree: Object) -> None:
    tree["status"] = {"phase": "Pending"}


def _start_volume(tree: Object) -> None:
    tree["status"] = {"phase": "Pending"}


def _keep_request(new: Object, old: Object) -> None:
    new["spec"] = part(old, "spec")


CHECKS: dict[tuple[str, str], Check] = {
    ("", "ConfigMap"): config_and_namespaces.check_config_map,
    ("", "Event"): events_and_leases.check_core_event,
    ("", "PersistentVolumeClaim"): _check_claim,
    ("", "Pod"): _check_pod,
    ("", "Secret"): config_and_namespaces.check_secret,
    (APPS, "DaemonSet"): workloads.check_workload,
    (APPS, "Deployment"): workloads.check_workload,
    (APPS, "ReplicaSet"): workloads.check_workload,
    (APPS, "StatefulSet"): workloads.check_workload,
    (BATCH, "Job"): workloads.check_job,
    (ADMISSION, "MutatingAdmissionPolicy"): admission_policies.check_mutating_policy,
    (ADMISSION, "MutatingAdmissionPolicyBinding"): admission_policies.check_mutating_binding,
    (ADMISSION, "MutatingWebhookConfiguration"): webhook_configurations.check_webhooks,
    (ADMISSION, "ValidatingAdmissionPolicy"): admission_policies.check_validating_policy,
    (ADMISSION, "ValidatingAdmissionPolicyBinding"): admission_policies.check_validating_binding,
    (ADMISSION, "ValidatingWebhookConfiguration"): webhook_configurations.check_webhooks,
    ("coordination.k8s.io", "Lease"): events_and_leases.check_lease,
    ("events.k8s.io", "Event"): events_and_leases.check_newer_event,
    (RBAC, "ClusterRole"): rbac.check_cluster_role,
    (RBAC, "ClusterRoleBinding"): rbac.check_cluster_binding,
    (RBAC, "Role"): rbac.check_role,
    (RBAC, "RoleBinding"): rbac.check_role_binding,
}
STARTS: dict[tuple[str, str], Fill] = {
    ("", "Namespace"): config_and_namespaces.start_namespace,
    ("", "PersistentVolume"): _start_volume,
    ("", "PersistentVolumeClaim"): _start_volume,
    ("", "Pod"): _start_pod,
    (BATCH, "Job"): workloads.prepare_job,
}
KEEPS: dict[tuple[str, str], Callable[[Object, Object], None]] = {
    ("", "Namespace"): config_and_namespaces.keep_namespace,
    ("certificates.k8s.io", "CertificateSigningRequest"): _keep_request,
}
NAMES: dict[tuple[str, str], Callable[[str], list[str]]] = {
    ("", "Namespace"): check_dns1123_label,
    ("", "Service"): check_dns1035_label,
    ("apiregistration.k8s.io", "APIService"): check_path_segment,
    **{(RBAC, kind): check_path_segment for kind in ("ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding")},
}
