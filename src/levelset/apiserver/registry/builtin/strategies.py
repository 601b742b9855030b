"""The rules of each built-in kind: name validation, defaults, preparation, validation and immutable fields."""

from collections.abc import Callable, Iterable

import msgspec

from levelset.apiserver.registry.builtin import (
    admission_policies,
    config_maps_and_secrets,
    events_and_leases,
    namespaces,
    pods,
    rbac,
    webhook_configurations,
    workloads,
)
from levelset.apiserver.registry.builtin.defaults import DEFAULTERS
from levelset.apiserver.registry.metadata import check_dns1035_label, check_path_segment
from levelset.apiserver.resources.json_members import map_member
from levelset.apiserver.resources.served_resource import Object, Rules
from levelset.apiserver.schema import field_errors
from levelset.errors import Cause
from levelset.objects.names import check_dns1123_label, check_dns1123_subdomain

__all__ = ["builtin_rules"]

Defaulter = Callable[[Object], None]
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
# Kinds whose updates must have a resourceVersion, as those of custom resources.
REQUIRES_RESOURCE_VERSION = frozenset(
    {
        *((ADMISSION, kind) for group, kind in GENERATION if group == ADMISSION),
        ("apiextensions.k8s.io", "CustomResourceDefinition"),
        ("apiregistration.k8s.io", "APIService"),
        ("coordination.k8s.io", "Lease"),
        ("node.k8s.io", "RuntimeClass"),
        ("policy", "PodDisruptionBudget"),
    }
)
CREATE_ON_UPDATE = frozenset(
    {
        *(("", kind) for kind in ("Endpoints", "Event", "LimitRange", "Service")),
        ("coordination.k8s.io", "Lease"),
        ("events.k8s.io", "Event"),
        *((RBAC, kind) for kind in ("ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding")),
    }
)
# Dotted paths of the fields that cannot change after creation.
IMMUTABLE_FIELDS: dict[tuple[str, str], tuple[str, ...]] = {
    ("", "PersistentVolume"): ("spec.csi", "spec.hostPath", "spec.nfs", "spec.volumeMode"),
    ("scheduling.k8s.io", "PriorityClass"): ("value", "preemptionPolicy"),
    ("storage.k8s.io", "StorageClass"): ("parameters", "provisioner", "reclaimPolicy", "volumeBindingMode"),
    ("discovery.k8s.io", "EndpointSlice"): ("addressType",),
    (NETWORK, "IngressClass"): ("spec.controller",),
    ("node.k8s.io", "RuntimeClass"): ("handler",),
}


def builtin_rules(group: str, kind: str) -> Rules:
    """The stateless rules of a built-in kind; Services and CRDs add rules that depend on the server."""
    key = (group, kind)
    checks = [one for one in (CHECKS.get(key), _immutable_check(IMMUTABLE_FIELDS.get(key, ()))) if one is not None]
    return Rules(
        generation=key in GENERATION,
        unconditional_update=key not in REQUIRES_RESOURCE_VERSION,
        create_on_update=key in CREATE_ON_UPDATE,
        name_check=NAME_CHECKS.get(key, check_dns1123_subdomain),
        default=DEFAULTERS.get(key),
        prepare_create=PREPARE_CREATE.get(key),
        prepare_update=PREPARE_UPDATE.get(key),
        prepare_delete=namespaces.prepare_namespace_delete if key == ("", "Namespace") else None,
        held=namespaces.has_namespace_finalizers if key == ("", "Namespace") else None,
        validate=_all_of(checks) if checks else None,
        graceful=key == ("", "Pod"),
        finalizers_need_slash=True,
    )


def _check_volume_claim(new: Object, old: Object | None) -> list[Cause]:
    if old is None or _immutable_claim_fields(new) == _immutable_claim_fields(old):
        return []
    detail = "spec is immutable after creation except resources.requests and volumeAttributesClassName"
    return [field_errors.forbidden("spec", detail)]


def _immutable_claim_fields(tree: Object) -> Object:
    mutable = ("resources", "volumeAttributesClassName", "volumeName")
    return {name: value for name, value in map_member(tree, "spec").items() if name not in mutable}


def _check_pod(new: Object, old: Object | None) -> list[Cause]:
    causes = pods.check_pod_spec(map_member(new, "spec"), "spec")
    return causes if old is None else causes + pods.check_pod_update(new, old)


class _ImmutableFields(msgspec.Struct, frozen=True):
    """Rejects an update that changes one of these fields."""

    paths: tuple[str, ...]

    def __call__(self, new: Object, old: Object | None) -> list[Cause]:
        if old is None:
            return []
        changed = [path for path in self.paths if _at(new, path) != _at(old, path)]
        return [field_errors.invalid(path, _at(new, path), "field is immutable") for path in changed]


def _immutable_check(paths: tuple[str, ...]) -> Check | None:
    return _ImmutableFields(paths) if paths else None


def _at(tree: Object, path: str) -> object:
    found: object = tree
    for name in path.split("."):
        found = found.get(name) if isinstance(found, dict) else None  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType] - a JSON tree
    return found  # pyright: ignore[reportUnknownVariableType] - a JSON tree


def _all_of(checks: Iterable[Check]) -> Check:
    combined = tuple(checks)
    if len(combined) == 1:
        return combined[0]
    return lambda new, old: [cause for check in combined for cause in check(new, old)]


def _prepare_pod_create(tree: Object) -> None:
    tree["status"] = {"phase": "Pending"}


def _prepare_volume_create(tree: Object) -> None:
    tree["status"] = {"phase": "Pending"}


def _prepare_csr_update(new: Object, old: Object) -> None:
    new["spec"] = map_member(old, "spec")


CHECKS: dict[tuple[str, str], Check] = {
    ("", "ConfigMap"): config_maps_and_secrets.check_config_map,
    ("", "Event"): events_and_leases.check_core_event,
    ("", "PersistentVolumeClaim"): _check_volume_claim,
    ("", "Pod"): _check_pod,
    ("", "Secret"): config_maps_and_secrets.check_secret,
    (APPS, "DaemonSet"): workloads.check_workload,
    (APPS, "Deployment"): workloads.check_workload,
    (APPS, "ReplicaSet"): workloads.check_workload,
    (APPS, "StatefulSet"): workloads.check_workload,
    (BATCH, "Job"): workloads.check_job,
    (ADMISSION, "MutatingAdmissionPolicy"): admission_policies.check_mutating_policy,
    (ADMISSION, "MutatingAdmissionPolicyBinding"): admission_policies.check_mutating_binding,
    (ADMISSION, "MutatingWebhookConfiguration"): webhook_configurations.check_webhook_configuration,
    (ADMISSION, "ValidatingAdmissionPolicy"): admission_policies.check_validating_policy,
    (ADMISSION, "ValidatingAdmissionPolicyBinding"): admission_policies.check_validating_binding,
    (ADMISSION, "ValidatingWebhookConfiguration"): webhook_configurations.check_webhook_configuration,
    ("coordination.k8s.io", "Lease"): events_and_leases.check_lease,
    ("events.k8s.io", "Event"): events_and_leases.check_events_v1_event,
    (RBAC, "ClusterRole"): rbac.check_cluster_role,
    (RBAC, "ClusterRoleBinding"): rbac.check_cluster_role_binding,
    (RBAC, "Role"): rbac.check_role,
    (RBAC, "RoleBinding"): rbac.check_role_binding,
}
PREPARE_CREATE: dict[tuple[str, str], Defaulter] = {
    ("", "Namespace"): namespaces.prepare_namespace_create,
    ("", "PersistentVolume"): _prepare_volume_create,
    ("", "PersistentVolumeClaim"): _prepare_volume_create,
    ("", "Pod"): _prepare_pod_create,
    (BATCH, "Job"): workloads.prepare_job_create,
}
PREPARE_UPDATE: dict[tuple[str, str], Callable[[Object, Object], None]] = {
    ("", "Namespace"): namespaces.prepare_namespace_update,
    ("certificates.k8s.io", "CertificateSigningRequest"): _prepare_csr_update,
}
NAME_CHECKS: dict[tuple[str, str], Callable[[str], list[str]]] = {
    ("", "Namespace"): check_dns1123_label,
    ("", "Service"): check_dns1035_label,
    ("apiregistration.k8s.io", "APIService"): check_path_segment,
    **{(RBAC, kind): check_path_segment for kind in ("ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding")},
}
