"""Defaults of the built-in kinds: the fields that the server fills in when a client leaves them out."""

import base64
from collections.abc import Callable, Mapping

from levelset.apiserver.registry.builtin import (
    events_and_leases,
    namespaces,
    nodes,
    pods,
    storage_and_devices,
    volumes,
    workloads,
)
from levelset.apiserver.registry.builtin.autoscaler_status import CURRENT_CPU
from levelset.apiserver.registry.builtin.conversions import CURRENT_METRICS
from levelset.apiserver.registry.builtin.normal_forms import set_canonical, set_canonical_list
from levelset.apiserver.resources.json_members import list_member, map_member
from levelset.apiserver.resources.served_resource import Object

__all__ = ["DEFAULTERS"]

RBAC = "rbac.authorization.k8s.io"
ADMISSION = "admissionregistration.k8s.io"
METRICS = "autoscaling.alpha.kubernetes.io/metrics"  # an annotation of v1, which has no field for them


def _set_template_defaults(tree: Object) -> None:
    pods.set_pod_spec_defaults(tree.setdefault("template", {}).setdefault("spec", {}))


def _set_quota_defaults(tree: Object) -> None:
    set_canonical_list(tree.setdefault("spec", {}).get("hard"))


def _set_limit_range_defaults(tree: Object) -> None:
    for limit in list_member(tree.setdefault("spec", {}), "limits"):
        for name in ("max", "min", "default", "defaultRequest", "maxLimitRequestRatio"):
            set_canonical_list(limit.get(name))
        if limit.get("type") == "Container":
            default, request = dict(map_member(limit, "default")), dict(map_member(limit, "defaultRequest"))
            default = {**map_member(limit, "max"), **default}
            request = {**map_member(limit, "min"), **default, **request}
            for name, value in (("default", default), ("defaultRequest", request)):
                if value:
                    limit[name] = value


def _set_runtime_class_defaults(tree: Object) -> None:
    amounts = map_member(map_member(tree, "overhead"), "podFixed")
    for name in amounts:
        set_canonical(amounts, name)  # which is not rounded to thousandths


def _set_ingress_class_defaults(tree: Object) -> None:
    parameters = tree.setdefault("spec", {}).get("parameters")
    if parameters is not None:
        parameters.setdefault("scope", "Cluster")


def _set_endpoints_defaults(tree: Object) -> None:
    for subset in list_member(tree, "subsets"):
        for port in list_member(subset, "ports"):
            port["protocol"] = port.get("protocol") or "TCP"


def _set_storage_class_defaults(tree: Object) -> None:
    tree.setdefault("reclaimPolicy", "Delete")
    tree.setdefault("volumeBindingMode", "Immediate")


def _set_priority_class_defaults(tree: Object) -> None:
    tree.setdefault("preemptionPolicy", "PreemptLowerPriority")
    tree.setdefault("value", 0)
    if tree.get("globalDefault") is False:
        del tree["globalDefault"]


def _set_network_policy_defaults(tree: Object) -> None:
    spec = tree.setdefault("spec", {})
    spec.setdefault("podSelector", {})
    if not spec.get("policyTypes"):
        spec["policyTypes"] = ["Ingress", "Egress"] if spec.get("egress") else ["Ingress"]
    for rule in [*list_member(spec, "ingress"), *list_member(spec, "egress")]:
        for port in list_member(rule, "ports"):
            port.setdefault("protocol", "TCP")


def _set_autoscaler_defaults(tree: Object) -> None:
    spec = tree.setdefault("spec", {})
    spec.setdefault("minReplicas", 1)
    if tree.get("apiVersion") == "autoscaling/v2" and not spec.get("metrics"):
        target = {"type": "Utilization", "averageUtilization": 80}
        spec["metrics"] = [{"type": "Resource", "resource": {"name": "cpu", "target": target}}]
    elif tree.get("apiVersion") == "autoscaling/v1" and METRICS not in map_member(tree["metadata"], "annotations"):
        spec.setdefault("targetCPUUtilizationPercentage", 80)
    is_new = "resourceVersion" not in tree["metadata"]
    if is_new and map_member(tree, "status").get(CURRENT_CPU) is not None:
        # As upstream, where the writer owns the annotation that it is converted to, although no new one has it.
        annotations = map_member(tree["metadata"], "annotations")
        tree["metadata"]["annotations"] = {**annotations, CURRENT_METRICS: ""}
    for metric in list_member(spec, "metrics"):
        for name in metric:
            target = map_member(map_member(metric, name), "target")
            set_canonical(target, "value")
            set_canonical(target, "averageValue")
    if spec.get("behavior") is not None:
        _set_behavior_defaults(spec["behavior"])


def _set_behavior_defaults(behavior: Object) -> None:
    percent = {"type": "Percent", "value": 100, "periodSeconds": 15}
    pods = {"type": "Pods", "value": 4, "periodSeconds": 15}
    defaults: Object = {
        "scaleUp": {"stabilizationWindowSeconds": 0, "selectPolicy": "Max", "policies": [pods, percent]},
        "scaleDown": {"selectPolicy": "Max", "policies": [percent]},
    }
    for name, rules in defaults.items():
        given = {one: value for one, value in map_member(behavior, name).items() if value is not None}
        behavior[name] = {**rules, **given}
        set_canonical(behavior[name], "tolerance")


def _set_binding_defaults(tree: Object) -> None:
    reference = tree["roleRef"] = map_member(tree, "roleRef")
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


def _set_secret_defaults(tree: Object) -> None:
    """Sets the type of a Secret, and converts `stringData` to `data`."""
    texts = tree.pop("stringData", None)
    if texts:
        encoded = {key: base64.b64encode(text.encode()).decode() for key, text in texts.items()}
        tree["data"] = {**map_member(tree, "data"), **encoded}
    tree["type"] = tree.get("type") or "Opaque"


def _set_api_service_defaults(tree: Object) -> None:
    service = map_member(tree, "spec").get("service")
    if service is not None:
        service.setdefault("port", 443)


def _set_priority_level_defaults(tree: Object) -> None:
    spec = tree.setdefault("spec", {})
    limited, exempt = spec.get("limited"), spec.get("exempt")
    if exempt is not None:
        exempt.setdefault("nominalConcurrencyShares", 0)
        exempt.setdefault("lendablePercent", 0)
    if limited is None:
        return
    limited.setdefault("nominalConcurrencyShares", 30)
    limited.setdefault("lendablePercent", 0)
    queuing = limited.setdefault("limitResponse", {}).get("queuing")
    if queuing is not None:
        for name, value in (("handSize", 8), ("queues", 64), ("queueLengthLimit", 50)):
            queuing[name] = queuing.get(name) or value


def _set_flow_schema_defaults(tree: Object) -> None:
    spec = tree.setdefault("spec", {})
    spec["matchingPrecedence"] = spec.get("matchingPrecedence") or 1000


def _set_endpoint_slice_defaults(tree: Object) -> None:
    for endpoint in list_member(tree, "endpoints"):
        endpoint.setdefault("conditions", {})
        for zone in list_member(endpoint.get("hints"), "forZones"):
            zone.setdefault("name", "")
    for port in list_member(tree, "ports"):
        port.setdefault("name", "")
        port.setdefault("protocol", "TCP")


DEFAULTERS: Mapping[tuple[str, str], Callable[[Object], None]] = {
    ("resource.k8s.io", "ResourceClaim"): storage_and_devices.set_claim_defaults,
    ("resource.k8s.io", "ResourceClaimTemplate"): storage_and_devices.set_claim_template_defaults,
    ("storage.k8s.io", "CSIStorageCapacity"): storage_and_devices.set_capacity_defaults,
    ("storage.k8s.io", "CSIDriver"): storage_and_devices.set_driver_defaults,
    ("", "Endpoints"): _set_endpoints_defaults,
    ("", "Event"): events_and_leases.set_core_event_defaults,
    ("", "LimitRange"): _set_limit_range_defaults,
    ("", "Namespace"): namespaces.set_namespace_defaults,
    ("", "Node"): nodes.set_node_defaults,
    ("", "PersistentVolume"): volumes.set_volume_defaults,
    ("", "PersistentVolumeClaim"): volumes.set_claim_defaults,
    ("", "Pod"): pods.set_pod_defaults,
    ("", "PodTemplate"): _set_template_defaults,
    ("", "ReplicationController"): workloads.set_replication_controller_defaults,
    ("", "ResourceQuota"): _set_quota_defaults,
    ("", "Secret"): _set_secret_defaults,
    (ADMISSION, "MutatingAdmissionPolicy"): _set_policy_defaults,
    (ADMISSION, "MutatingAdmissionPolicyBinding"): _set_policy_binding_defaults,
    (ADMISSION, "MutatingWebhookConfiguration"): _set_mutating_webhooks_defaults,
    (ADMISSION, "ValidatingAdmissionPolicy"): _set_policy_defaults,
    (ADMISSION, "ValidatingAdmissionPolicyBinding"): _set_policy_binding_defaults,
    (ADMISSION, "ValidatingWebhookConfiguration"): _set_webhooks_defaults,
    ("apiregistration.k8s.io", "APIService"): _set_api_service_defaults,
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
    ("flowcontrol.apiserver.k8s.io", "PriorityLevelConfiguration"): _set_priority_level_defaults,
    ("networking.k8s.io", "IngressClass"): _set_ingress_class_defaults,
    ("networking.k8s.io", "NetworkPolicy"): _set_network_policy_defaults,
    ("node.k8s.io", "RuntimeClass"): _set_runtime_class_defaults,
    (RBAC, "ClusterRoleBinding"): _set_binding_defaults,
    (RBAC, "RoleBinding"): _set_binding_defaults,
    ("resource.k8s.io", "ResourceSlice"): storage_and_devices.set_slice_defaults,
    ("scheduling.k8s.io", "PriorityClass"): _set_priority_class_defaults,
    ("storage.k8s.io", "StorageClass"): _set_storage_class_defaults,
}
