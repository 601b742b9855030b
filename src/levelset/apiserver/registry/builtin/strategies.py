"""The rules of each built-in kind: name validation, defaults, preparation, validation and immutable fields."""

import functools
import importlib
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

import msgspec
from msgspec.structs import replace

from levelset.apiserver.registry.builtin import (
    admission_policies,
    events_and_leases,
    namespaces,
    normal_forms,
    rbac,
    webhook_configurations,
    workloads,
)
from levelset.apiserver.registry.builtin.defaults import DEFAULTERS
from levelset.apiserver.registry.builtin.pods import prepare_pod_create, prepare_pod_status, prepare_pod_update
from levelset.apiserver.registry.metadata import check_path_segment
from levelset.apiserver.resources.json_members import map_member
from levelset.apiserver.resources.served_resource import Object, Rules
from levelset.apiserver.schema import field_errors
from levelset.errors import Cause
from levelset.objects.names import check_dns1123_label, check_dns1123_subdomain

if TYPE_CHECKING:
    from levelset.apiserver.registry.builtin.rules.rule_tables import KindRules

__all__ = ["RULE_TABLES", "builtin_rules", "kind_rules"]

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
        *(("", kind) for kind in ("Pod", "PodTemplate", "ReplicationController")),
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
# The module and the name of the rule table of a kind, imported when the first object of the kind is validated.
RULE_TABLES: dict[tuple[str, str], str] = {
    ("", "ConfigMap"): "config_rules.CONFIG_MAP",
    ("", "Endpoints"): "networking_rules.ENDPOINTS",
    ("", "LimitRange"): "config_rules.LIMIT_RANGE",
    ("", "PersistentVolumeClaim"): "config_rules.CLAIM",
    ("", "Pod"): "pod_rules.POD",
    ("", "PodTemplate"): "pod_rules.POD_TEMPLATE",
    ("", "ReplicationController"): "workload_rules.REPLICATION_CONTROLLER",
    ("", "ResourceQuota"): "config_rules.RESOURCE_QUOTA",
    ("", "Secret"): "config_rules.SECRET",
    ("", "Service"): "service_rules.SERVICE",
    (APPS, "ControllerRevision"): "workload_rules.CONTROLLER_REVISION",
    (APPS, "DaemonSet"): "workload_rules.DAEMON_SET",
    (APPS, "Deployment"): "workload_rules.DEPLOYMENT",
    (APPS, "ReplicaSet"): "workload_rules.REPLICA_SET",
    (APPS, "StatefulSet"): "workload_rules.STATEFUL_SET",
    (BATCH, "CronJob"): "job_rules.CRON_JOB",
    (BATCH, "Job"): "job_rules.JOB",
    ("autoscaling", "HorizontalPodAutoscaler"): "scaling_rules.AUTOSCALER",
    ("discovery.k8s.io", "EndpointSlice"): "networking_rules.ENDPOINT_SLICE",
    (NETWORK, "Ingress"): "networking_rules.INGRESS",
    (NETWORK, "IngressClass"): "networking_rules.INGRESS_CLASS",
    (NETWORK, "NetworkPolicy"): "networking_rules.NETWORK_POLICY",
    ("node.k8s.io", "RuntimeClass"): "config_rules.RUNTIME_CLASS",
    ("policy", "PodDisruptionBudget"): "scaling_rules.BUDGET",
    ("scheduling.k8s.io", "PriorityClass"): "config_rules.PRIORITY_CLASS",
    ("storage.k8s.io", "StorageClass"): "config_rules.STORAGE_CLASS",
}
# Dotted paths of the fields that cannot change after creation.
IMMUTABLE_FIELDS: dict[tuple[str, str], tuple[str, ...]] = {
    ("", "PersistentVolume"): ("spec.csi", "spec.hostPath", "spec.nfs", "spec.volumeMode"),
}


def builtin_rules(group: str, kind: str) -> Rules:
    """The stateless rules of a built-in kind; Services and CRDs add rules that depend on the server."""
    key = (group, kind)
    if key in RULE_TABLES:
        return _with_table(_rules(key, []), key)
    checks = [one for one in (CHECKS.get(key), _immutable_check(IMMUTABLE_FIELDS.get(key, ()))) if one is not None]
    return _rules(key, checks)


@functools.cache
def kind_rules(group: str, kind: str) -> "KindRules":
    """The rule table of a kind; its module is imported on first use."""
    module, _, name = RULE_TABLES[group, kind].partition(".")
    found: KindRules = getattr(importlib.import_module(f"{__package__}.rules.{module}"), name)
    return found


def _rules(key: tuple[str, str], checks: list[Check]) -> Rules:
    return Rules(
        generation=key in GENERATION,
        unconditional_update=key not in REQUIRES_RESOURCE_VERSION,
        create_on_update=key in CREATE_ON_UPDATE,
        name_check=NAME_CHECKS.get(key, check_dns1123_subdomain),
        default=DEFAULTERS.get(key),
        prepare_create=_prepare_create(key),
        prepare_update=_prepare_update(key),
        prepare_status=_prepare_status(key),
        prepare_delete=namespaces.prepare_namespace_delete if key == ("", "Namespace") else None,
        held=namespaces.has_namespace_finalizers if key == ("", "Namespace") else None,
        validate=_all_of(checks) if checks else None,
        graceful=key == ("", "Pod"),
        finalizers_need_slash=True,
    )


def _prepare_create(key: tuple[str, str]) -> Defaulter | None:
    prepare = PREPARE_CREATE.get(key)
    if key not in normal_forms.ZEROS and key not in normal_forms.STATUS:
        return prepare

    def run(tree: Object) -> None:
        normal_forms.set_new_status(key, tree)
        normal_forms.set_zeros(key, tree)
        if prepare is not None:
            prepare(tree)

    return run


def _prepare_update(key: tuple[str, str]) -> Callable[[Object, Object], None] | None:
    prepare = PREPARE_UPDATE.get(key)
    has_times = key in normal_forms.CONDITION_TIMES
    if key not in normal_forms.ZEROS and not has_times:
        return prepare

    def run(new: Object, old: Object) -> None:
        normal_forms.set_zeros(key, new)
        if has_times and "status" in new:
            normal_forms.set_status_zeros(key, new)  # decoding has dropped null
        if prepare is not None:
            prepare(new, old)

    return run


def _prepare_status(key: tuple[str, str]) -> Callable[[Object, Object], None] | None:
    prepare = PREPARE_STATUS.get(key)
    if key not in normal_forms.STATUS and key not in normal_forms.CONDITION_TIMES:
        return prepare

    def run(new: Object, old: Object) -> None:
        normal_forms.set_status_zeros(key, new)
        if prepare is not None:
            prepare(new, old)

    return run


def _with_table(rules: Rules, key: tuple[str, str]) -> Rules:
    """The rules of a kind that has a table, which is loaded when it is needed."""

    def validate(new: Object, old: Object | None) -> list[Cause]:
        return kind_rules(*key).validate(new, old)

    def validate_status(new: Object, old: Object) -> list[Cause]:
        return kind_rules(*key).validate_status(new, old)

    return replace(rules, validate=validate, validate_status=validate_status, complete=True)


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


def _prepare_volume_create(tree: Object) -> None:
    tree["status"] = {"phase": "Pending"}


def _prepare_quota_status(new: Object, _old: Object) -> None:
    for name in ("hard", "used"):
        normal_forms.set_canonical_list(map_member(new, "status").get(name))


def _prepare_autoscaler_create(tree: Object) -> None:
    is_v2 = tree.get("apiVersion") == "autoscaling/v2"
    tree["status"] = (
        {"currentMetrics": None, "desiredReplicas": 0} if is_v2 else {"currentReplicas": 0, "desiredReplicas": 0}
    )


def _prepare_csr_update(new: Object, old: Object) -> None:
    new["spec"] = map_member(old, "spec")


CHECKS: dict[tuple[str, str], Check] = {
    ("", "Event"): events_and_leases.check_core_event,
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
    ("", "Pod"): prepare_pod_create,
    (APPS, "DaemonSet"): workloads.prepare_daemon_set_create,
    (BATCH, "Job"): workloads.prepare_job_create,
    ("autoscaling", "HorizontalPodAutoscaler"): _prepare_autoscaler_create,
}
PREPARE_STATUS: dict[tuple[str, str], Callable[[Object, Object], None]] = {
    ("", "ResourceQuota"): _prepare_quota_status,
    ("", "Pod"): prepare_pod_status,
}
PREPARE_UPDATE: dict[tuple[str, str], Callable[[Object, Object], None]] = {
    ("", "Pod"): prepare_pod_update,
    ("", "Namespace"): namespaces.prepare_namespace_update,
    (APPS, "DaemonSet"): workloads.prepare_daemon_set_update,
    ("certificates.k8s.io", "CertificateSigningRequest"): _prepare_csr_update,
}


NAME_CHECKS: dict[tuple[str, str], Callable[[str], list[str]]] = {
    ("", "Namespace"): check_dns1123_label,
    (APPS, "StatefulSet"): check_dns1123_label,
    ("", "Service"): check_dns1123_label,
    ("apiregistration.k8s.io", "APIService"): check_path_segment,
    **{(RBAC, kind): check_path_segment for kind in ("ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding")},
}
