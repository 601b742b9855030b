"""What the built-in kinds mean when they leave something out; clients rely on finding it filled in."""

from collections.abc import Callable, Mapping

from levelset.apiserver.registry.builtin import config_and_namespaces, events_and_leases, pods, workloads
from levelset.apiserver.resources.json_members import items, part
from levelset.apiserver.resources.served_resource import Object

__all__ = ["FILLERS"]

RBAC = "rbac.authorization.k8s.io"
ADMISSION = "admissionregistration.k8s.io"


def _fill_template(tree: Object) -> None:
    pods.fill_pod_spec(tree.setdefault("template", {}).setdefault("spec", {}))


def _fill_volume(tree: Object) -> None:
    spec = tree.setdefault("spec", {})
    spec.setdefault("persistentVolumeReclaimPolicy", "Retain")
    spec.setdefault("volumeMode", "Filesystem")


def _fill_claim(tree: Object) -> None:
    tree.setdefault("spec", {}).setdefault("volumeMode", "Filesystem")


def _fill_storage_class(tree: Object) -> None:
    tree.setdefault("reclaimPolicy", "Delete")
    tree.setdefault("volumeBindingMode", "Immediate")


def _fill_priority_class(tree: Object) -> None:
    tree.setdefault("preemptionPolicy", "PreemptLowerPriority")


def _fill_network_policy(tree: Object) -> None:
    spec = tree.setdefault("spec", {})
    spec.setdefault("podSelector", {})
    spec.setdefault("policyTypes", ["Ingress", "Egress"] if spec.get("egress") else ["Ingress"])
    for rule in [*items(spec, "ingress"), *items(spec, "egress")]:
        for port in items(rule, "ports"):
            port.setdefault("protocol", "TCP")


def _fill_autoscaler(tree: Object) -> None:
    # A new object, not a changed one: the v1 view has no metrics, and its own default means the same.
    spec = tree.setdefault("spec", {})
    spec.setdefault("minReplicas", 1)
    if tree.get("apiVersion") == "autoscaling/v2" and not spec.get("metrics"):
        target = {"type": "Utilization", "averageUtilization": 80}
        spec["metrics"] = [{"type": "Resource", "resource": {"name": "cpu", "target": target}}]


def _fill_binding(tree: Object) -> None:
    reference = tree.get("roleRef")
    if reference is not None:
        reference["apiGroup"] = reference.get("apiGroup") or RBAC
    for subject in items(tree, "subjects"):
        if subject.get("kind") in ("User", "Group"):
            subject["apiGroup"] = subject.get("apiGroup") or RBAC


def _fill_webhooks(tree: Object) -> None:
    for hook in items(tree, "webhooks"):
        hook.setdefault("failurePolicy", "Fail")
        hook.setdefault("matchPolicy", "Equivalent")
        hook.setdefault("timeoutSeconds", 10)
        hook.setdefault("namespaceSelector", {})
        hook.setdefault("objectSelector", {})
        for rule in items(hook, "rules"):
            rule.setdefault("scope", "*")
        service = part(hook, "clientConfig").get("service")
        if service is not None:
            service.setdefault("port", 443)


def _fill_mutating_webhooks(tree: Object) -> None:
    _fill_webhooks(tree)
    for hook in items(tree, "webhooks"):
        hook.setdefault("reinvocationPolicy", "Never")


def _fill_policy(tree: Object) -> None:
    spec = tree.setdefault("spec", {})
    spec.setdefault("failurePolicy", "Fail")
    if spec.get("matchConstraints") is not None:
        _fill_match(spec["matchConstraints"])


def _fill_policy_binding(tree: Object) -> None:
    spec = tree.setdefault("spec", {})
    if spec.get("matchResources") is not None:
        _fill_match(spec["matchResources"])


def _fill_match(match: Object) -> None:
    match.setdefault("matchPolicy", "Equivalent")
    match.setdefault("namespaceSelector", {})
    match.setdefault("objectSelector", {})
    for rule in [*items(match, "resourceRules"), *items(match, "excludeResourceRules")]:
        rule.setdefault("scope", "*")


def _fill_flow_schema(tree: Object) -> None:
    spec = tree.setdefault("spec", {})
    spec["matchingPrecedence"] = spec.get("matchingPrecedence") or 1000


def _fill_endpoint_slice(tree: Object) -> None:
    for port in items(tree, "ports"):
        port.setdefault("name", "")
        port.setdefault("protocol", "TCP")


FILLERS: Mapping[tuple[str, str], Callable[[Object], None]] = {
    ("", "Event"): events_and_leases.fill_core_event,
    ("", "Namespace"): config_and_namespaces.fill_namespace,
    ("", "PersistentVolume"): _fill_volume,
    ("", "PersistentVolumeClaim"): _fill_claim,
    ("", "Pod"): pods.fill_pod,
    ("", "PodTemplate"): _fill_template,
    ("", "ReplicationController"): workloads.fill_replication_controller,
    ("", "Secret"): config_and_namespaces.fill_secret,
    (ADMISSION, "MutatingAdmissionPolicy"): _fill_policy,
    (ADMISSION, "MutatingAdmissionPolicyBinding"): _fill_policy_binding,
    (ADMISSION, "MutatingWebhookConfiguration"): _fill_mutating_webhooks,
    (ADMISSION, "ValidatingAdmissionPolicy"): _fill_policy,
    (ADMISSION, "ValidatingAdmissionPolicyBinding"): _fill_policy_binding,
    (ADMISSION, "ValidatingWebhookConfiguration"): _fill_webhooks,
    ("apps", "DaemonSet"): workloads.fill_daemon_set,
    ("apps", "Deployment"): workloads.fill_deployment,
    ("apps", "ReplicaSet"): workloads.fill_replica_set,
    ("apps", "StatefulSet"): workloads.fill_stateful_set,
    ("autoscaling", "HorizontalPodAutoscaler"): _fill_autoscaler,
    ("batch", "CronJob"): workloads.fill_cron_job,
    ("batch", "Job"): workloads.fill_job,
    ("coordination.k8s.io", "Lease"): events_and_leases.fill_lease,
    ("discovery.k8s.io", "EndpointSlice"): _fill_endpoint_slice,
    ("events.k8s.io", "Event"): events_and_leases.fill_newer_event,
    ("flowcontrol.apiserver.k8s.io", "FlowSchema"): _fill_flow_schema,
    ("networking.k8s.io", "NetworkPolicy"): _fill_network_policy,
    (RBAC, "ClusterRoleBinding"): _fill_binding,
    (RBAC, "RoleBinding"): _fill_binding,
    ("scheduling.k8s.io", "PriorityClass"): _fill_priority_class,
    ("storage.k8s.io", "StorageClass"): _fill_storage_class,
}
