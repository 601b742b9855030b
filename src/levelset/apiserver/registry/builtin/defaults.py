"""Defaults of the built-in kinds: the fields that the server fills in when a client leaves them out."""

from collections.abc import Callable, Mapping

from levelset.apiserver.registry.builtin import config_maps_and_secrets, events_and_leases, namespaces, pods, workloads
from levelset.apiserver.resources.json_members import list_member, map_member
from levelset.apiserver.resources.served_resource import Object

__all__ = ["DEFAULTERS"]

RBAC = "rbac.authorization.k8s.io"
ADMISSION = "admissionregistration.k8s.io"


def _set_template_defaults(tree: Object) -> None:
    pods.set_pod_spec_defaults(tree.setdefault("template", {}).setdefault("spec", {}))


def _set_volume_defaults(tree: Object) -> None:
    spec = tree.setdefault("spec", {})
    spec.setdefault("persistentVolumeReclaimPolicy", "Retain")
    spec.setdefault("volumeMode", "Filesystem")


def _set_claim_defaults(tree: Object) -> None:
    tree.setdefault("spec", {}).setdefault("volumeMode", "Filesystem")


def _set_storage_class_defaults(tree: Object) -> None:
    tree.setdefault("reclaimPolicy", "Delete")
    tree.setdefault("volumeBindingMode", "Immediate")


def _set_priority_class_defaults(tree: Object) -> None:
    tree.setdefault("preemptionPolicy", "PreemptLowerPriority")


def _set_network_policy_defaults(tree: Object) -> None:
    spec = tree.setdefault("spec", {})
    spec.setdefault("podSelector", {})
    spec.setdefault("policyTypes", ["Ingress", "Egress"] if spec.get("egress") else ["Ingress"])
    for rule in [*list_member(spec, "ingress"), *list_member(spec, "egress")]:
        for port in list_member(rule, "ports"):
            port.setdefault("protocol", "TCP")


def _set_autoscaler_defaults(tree: Object) -> None:
    # Only for v2: v1 has no metrics, and no CPU target means the same 80 % there.
    spec = tree.setdefault("spec", {})
    spec.setdefault("minReplicas", 1)
    if tree.get("apiVersion") == "autoscaling/v2" and not spec.get("metrics"):
        target = {"type": "Utilization", "averageUtilization": 80}
        spec["metrics"] = [{"type": "Resource", "resource": {"name": "cpu", "target": target}}]


def _set_binding_defaults(tree: Object) -> None:
    reference = tree.get("roleRef")
    if reference is not None:
        reference["apiGroup"] = reference.get("apiGroup") or RBAC
    for subject in list_member(tree, "subjects"):
        if subject.get("kind") in ("User", "Group"):
            subject["apiGroup"] = subject.get("apiGroup") or RBAC


def _set_webhooks_defaults(tree: Object) -> None:
    for hook in list_member(tree, "webhooks"):
        hook.setdefault("failurePolicy", "Fail")
        hook.setdefault("matchPolicy", "Equivalent")
        hook.setdefault("timeoutSeconds", 10)
        hook.setdefault("namespaceSelector", {})
        hook.setdefault("objectSelector", {})
        for rule in list_member(hook, "rules"):
            rule.setdefault("scope", "*")
        service = map_member(hook, "clientConfig").get("service")
        if service is not None:
            service.setdefault("port", 443)


def _set_mutating_webhooks_defaults(tree: Object) -> None:
    _set_webhooks_defaults(tree)
    for hook in list_member(tree, "webhooks"):
        hook.setdefault("reinvocationPolicy", "Never")


def _set_policy_defaults(tree: Object) -> None:
    spec = tree.setdefault("spec", {})
    spec.setdefault("failurePolicy", "Fail")
    if spec.get("matchConstraints") is not None:
        _set_match_defaults(spec["matchConstraints"])


def _set_policy_binding_defaults(tree: Object) -> None:
    spec = tree.setdefault("spec", {})
    if spec.get("matchResources") is not None:
        _set_match_defaults(spec["matchResources"])


def _set_match_defaults(match: Object) -> None:
    match.setdefault("matchPolicy", "Equivalent")
    match.setdefault("namespaceSelector", {})
    match.setdefault("objectSelector", {})
    for rule in [*list_member(match, "resourceRules"), *list_member(match, "excludeResourceRules")]:
        rule.setdefault("scope", "*")


def _set_flow_schema_defaults(tree: Object) -> None:
    spec = tree.setdefault("spec", {})
    spec["matchingPrecedence"] = spec.get("matchingPrecedence") or 1000


def _set_endpoint_slice_defaults(tree: Object) -> None:
    for port in list_member(tree, "ports"):
        port.setdefault("name", "")
        port.setdefault("protocol", "TCP")


DEFAULTERS: Mapping[tuple[str, str], Callable[[Object], None]] = {
    ("", "Event"): events_and_leases.set_core_event_defaults,
    ("", "Namespace"): namespaces.set_namespace_defaults,
    ("", "PersistentVolume"): _set_volume_defaults,
    ("", "PersistentVolumeClaim"): _set_claim_defaults,
    ("", "Pod"): pods.set_pod_defaults,
    ("", "PodTemplate"): _set_template_defaults,
    ("", "ReplicationController"): workloads.set_replication_controller_defaults,
    ("", "Secret"): config_maps_and_secrets.set_secret_defaults,
    (ADMISSION, "MutatingAdmissionPolicy"): _set_policy_defaults,
    (ADMISSION, "MutatingAdmissionPolicyBinding"): _set_policy_binding_defaults,
    (ADMISSION, "MutatingWebhookConfiguration"): _set_mutating_webhooks_defaults,
    (ADMISSION, "ValidatingAdmissionPolicy"): _set_policy_defaults,
    (ADMISSION, "ValidatingAdmissionPolicyBinding"): _set_policy_binding_defaults,
    (ADMISSION, "ValidatingWebhookConfiguration"): _set_webhooks_defaults,
    ("apps", "DaemonSet"): workloads.set_daemon_set_defaults,
    ("apps", "Deployment"): workloads.set_deployment_defaults,
    ("apps", "ReplicaSet"): workloads.set_replica_set_defaults,
    ("apps", "StatefulSet"): workloads.set_stateful_set_defaults,
    ("autoscaling", "HorizontalPodAutoscaler"): _set_autoscaler_defaults,
    ("batch", "CronJob"): workloads.set_cron_job_defaults,
    ("batch", "Job"): workloads.set_job_defaults,
    ("coordination.k8s.io", "Lease"): events_and_leases.set_lease_defaults,
    ("discovery.k8s.io", "EndpointSlice"): _set_endpoint_slice_defaults,
    ("events.k8s.io", "Event"): events_and_leases.set_events_v1_defaults,
    ("flowcontrol.apiserver.k8s.io", "FlowSchema"): _set_flow_schema_defaults,
    ("networking.k8s.io", "NetworkPolicy"): _set_network_policy_defaults,
    (RBAC, "ClusterRoleBinding"): _set_binding_defaults,
    (RBAC, "RoleBinding"): _set_binding_defaults,
    ("scheduling.k8s.io", "PriorityClass"): _set_priority_class_defaults,
    ("storage.k8s.io", "StorageClass"): _set_storage_class_defaults,
}
