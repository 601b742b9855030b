"""The rules of each built-in kind: name validation, defaults, preparation, validation and immutable fields."""

import functools
import importlib
import ipaddress
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, Literal

from msgspec.structs import replace

from levelset.apiserver.registry.builtin import (
    certificate_requests,
    namespaces,
    nodes,
    normal_forms,
    storage_and_devices,
    volumes,
    workloads,
)
from levelset.apiserver.registry.builtin.conversions import CURRENT_METRICS
from levelset.apiserver.registry.builtin.defaults import DEFAULTERS
from levelset.apiserver.registry.builtin.object_warnings import object_warnings
from levelset.apiserver.registry.builtin.pods import (
    SYSTEM_PRIORITIES,
    prepare_pod_create,
    prepare_pod_part,
    prepare_pod_update,
    warn_of_new_pod,
)
from levelset.apiserver.resources.json_members import list_member, map_member
from levelset.apiserver.resources.served_resource import MetadataChecks, Object, Rules
from levelset.errors import Cause
from levelset.objects.names import check_dns1123_label, check_dns1123_subdomain, check_path_segment

if TYPE_CHECKING:
    from levelset.apiserver.registry.builtin.rules.rule_tables import KindRules

__all__ = ["RULE_TABLES", "builtin_rules", "kind_rules"]

Defaulter = Callable[[Object], None]
PreparePart = Callable[[Object, Object, str, str], None]

APPS = "apps"
BATCH = "batch"
ADMISSION = "admissionregistration.k8s.io"
RBAC = "rbac.authorization.k8s.io"
NETWORK = "networking.k8s.io"
FLOW_CONTROL = "flowcontrol.apiserver.k8s.io"
STORAGE = "storage.k8s.io"
CERTIFICATE_REQUEST = ("certificates.k8s.io", "CertificateSigningRequest")

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
        *((FLOW_CONTROL, kind) for kind in ("FlowSchema", "PriorityLevelConfiguration")),
        *((NETWORK, kind) for kind in ("Ingress", "IngressClass", "NetworkPolicy")),
        ("policy", "PodDisruptionBudget"),
        *(("resource.k8s.io", kind) for kind in ("DeviceClass", "ResourceSlice")),
        ("scheduling.k8s.io", "PriorityClass"),
    }
)
# Metadata whose changes increment the generation, too.
GENERATION_METADATA: dict[tuple[str, str], tuple[str, ...]] = {
    (APPS, "Deployment"): ("annotations",),
    ("discovery.k8s.io", "EndpointSlice"): ("labels",),
}
# Kinds whose content upstream compares by its memory.
COMPARED_BY_MEMORY = frozenset(
    {
        (NETWORK, "NetworkPolicy"),
        *((ADMISSION, kind) for kind in ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration")),
    }
)
# Lists that are replaced as a whole, and have quantities.
QUANTITY_LISTS: dict[tuple[str, str], tuple[str, ...]] = {
    (APPS, "StatefulSet"): ("spec.volumeClaimTemplates",),
    ("", "LimitRange"): ("spec.limits",),
    ("autoscaling", "HorizontalPodAutoscaler"): ("spec.metrics",),
    ("resource.k8s.io", "ResourceSlice"): ("spec.devices", "spec.sharedCounters"),
}
# Kinds that have the labels of their template if they have none.
LABELLED = frozenset({("", "ReplicationController"), (BATCH, "Job")})
# Kinds whose updates must have a resourceVersion, as those of custom resources.
REQUIRES_RESOURCE_VERSION = frozenset(
    {
        *((ADMISSION, kind) for group, kind in GENERATION if group == ADMISSION),
        ("apiextensions.k8s.io", "CustomResourceDefinition"),
        ("apiregistration.k8s.io", "APIService"),
        ("coordination.k8s.io", "Lease"),
        ("node.k8s.io", "RuntimeClass"),
        ("policy", "PodDisruptionBudget"),
        *(("storage.k8s.io", kind) for kind in ("CSIDriver", "CSINode", "CSIStorageCapacity", "VolumeAttachment")),
    }
)
CREATE_ON_UPDATE = frozenset(
    {
        *(("", kind) for kind in ("Endpoints", "Event", "LimitRange", "Service")),
        ("coordination.k8s.io", "Lease"),
        ("events.k8s.io", "Event"),
        ("node.k8s.io", "RuntimeClass"),
        *((RBAC, kind) for kind in ("ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding")),
    }
)
# Kinds whose new objects have something of the status that was sent, or own something because of it.
STATUS_ON_CREATE = frozenset({("", "Node"), ("", "Pod"), ("autoscaling", "HorizontalPodAutoscaler")})
# How often a kind checks metadata, where it is not as most do it: recorded.
METADATA_CHECKS: dict[tuple[str, str], MetadataChecks] = {
    **dict.fromkeys(
        [
            *(("", kind) for kind in ("ConfigMap", "Endpoints", "Namespace", "Node")),
            *(("", kind) for kind in ("PersistentVolumeClaim", "Pod", "Secret", "ServiceAccount")),
            *((RBAC, kind) for kind in ("ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding")),
            *((NETWORK, kind) for kind in ("Ingress", "IngressClass")),
            *(("resource.k8s.io", kind) for kind in ("DeviceClass", "ResourceClaim", "ResourceClaimTemplate")),
            *((STORAGE, kind) for kind in ("CSIStorageCapacity", "StorageClass", "VolumeAttributesClass")),
            *((APPS, "ControllerRevision"), (BATCH, "Job"), ("node.k8s.io", "RuntimeClass"), CERTIFICATE_REQUEST),
            ("apiregistration.k8s.io", "APIService"),
        ],
        MetadataChecks(own=1),
    ),
    **dict.fromkeys(
        [
            *((STORAGE, kind) for kind in ("CSINode", "VolumeAttachment")),
            *((FLOW_CONTROL, kind) for kind in ("FlowSchema", "PriorityLevelConfiguration")),
            *(("discovery.k8s.io", "EndpointSlice"), ("", "LimitRange")),
        ],
        MetadataChecks(own=1, update=0),
    ),
    ("", "PersistentVolume"): MetadataChecks(own=2, update=0),
    **dict.fromkeys([("", "Event"), ("policy", "PodDisruptionBudget")], MetadataChecks(update=0, create=False)),
}
STATUS_METADATA_CHECKS: dict[tuple[str, str], MetadataChecks] = {
    CERTIFICATE_REQUEST: MetadataChecks(own=1),
    (STORAGE, "VolumeAttachment"): MetadataChecks(own=1, update=0),
    **dict.fromkeys([(BATCH, "CronJob"), ("policy", "PodDisruptionBudget")], MetadataChecks(update=0)),
}
# Kinds whose finalizers need no domain.
PLAIN_FINALIZERS = frozenset(
    {
        *((ADMISSION, kind) for group, kind in GENERATION if group == ADMISSION),
        ("apiextensions.k8s.io", "CustomResourceDefinition"),
        ("apiregistration.k8s.io", "APIService"),
        ("coordination.k8s.io", "Lease"),
        ("node.k8s.io", "RuntimeClass"),
        ("", "Event"),
        ("policy", "PodDisruptionBudget"),
    }
)
# Kinds that do not check a `generateName` beside a name.
FREE_PREFIXES = frozenset({("", "ReplicationController"), ("resource.k8s.io", "DeviceClass"), CERTIFICATE_REQUEST})
# The module and the name of the rule table of a kind, imported when the first object of the kind is validated.
RULE_TABLES: dict[tuple[str, str], str] = {
    (NETWORK, "IPAddress"): "driver_rules.IP_ADDRESS",
    (NETWORK, "ServiceCIDR"): "driver_rules.SERVICE_RANGE",
    ("resource.k8s.io", "DeviceClass"): "device_rules.DEVICE_CLASS",
    ("resource.k8s.io", "ResourceClaim"): "device_rules.CLAIM",
    ("resource.k8s.io", "ResourceClaimTemplate"): "device_rules.CLAIM_TEMPLATE",
    ("resource.k8s.io", "ResourceSlice"): "resource_slice_rules.SLICE",
    ("storage.k8s.io", "CSIDriver"): "driver_rules.DRIVER",
    ("storage.k8s.io", "CSINode"): "driver_rules.NODE_DRIVERS",
    ("storage.k8s.io", "CSIStorageCapacity"): "driver_rules.CAPACITY",
    ("storage.k8s.io", "VolumeAttachment"): "driver_rules.ATTACHMENT",
    ("storage.k8s.io", "VolumeAttributesClass"): "driver_rules.ATTRIBUTES_CLASS",
    ("", "ConfigMap"): "config_rules.CONFIG_MAP",
    ("", "Endpoints"): "networking_rules.ENDPOINTS",
    ("", "Event"): "event_rules.CORE_EVENT",
    ("", "LimitRange"): "config_rules.LIMIT_RANGE",
    ("", "Namespace"): "cluster_rules.NAMESPACE",
    ("", "Node"): "cluster_rules.NODE",
    ("", "PersistentVolume"): "volume_rules.VOLUME",
    ("", "PersistentVolumeClaim"): "volume_rules.CLAIM",
    ("", "Pod"): "pods.pod_rules.POD",
    ("", "PodTemplate"): "pods.pod_rules.POD_TEMPLATE",
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
    (ADMISSION, "MutatingAdmissionPolicy"): "policy_rules.MUTATING_POLICY",
    (ADMISSION, "MutatingAdmissionPolicyBinding"): "policy_rules.MUTATING_BINDING",
    (ADMISSION, "MutatingWebhookConfiguration"): "webhook_rules.MUTATING_WEBHOOKS",
    (ADMISSION, "ValidatingAdmissionPolicy"): "policy_rules.VALIDATING_POLICY",
    (ADMISSION, "ValidatingAdmissionPolicyBinding"): "policy_rules.VALIDATING_BINDING",
    (ADMISSION, "ValidatingWebhookConfiguration"): "webhook_rules.VALIDATING_WEBHOOKS",
    ("apiregistration.k8s.io", "APIService"): "cluster_rules.API_SERVICE",
    ("autoscaling", "HorizontalPodAutoscaler"): "scaling_rules.AUTOSCALER",
    CERTIFICATE_REQUEST: "certificate_rules.SIGNING_REQUEST",
    ("coordination.k8s.io", "Lease"): "event_rules.LEASE",
    ("discovery.k8s.io", "EndpointSlice"): "networking_rules.ENDPOINT_SLICE",
    ("events.k8s.io", "Event"): "event_rules.EVENT",
    (FLOW_CONTROL, "FlowSchema"): "flow_control_rules.FLOW_SCHEMA",
    (FLOW_CONTROL, "PriorityLevelConfiguration"): "flow_control_rules.PRIORITY_LEVEL",
    (NETWORK, "Ingress"): "networking_rules.INGRESS",
    (NETWORK, "IngressClass"): "networking_rules.INGRESS_CLASS",
    (NETWORK, "NetworkPolicy"): "networking_rules.NETWORK_POLICY",
    ("node.k8s.io", "RuntimeClass"): "config_rules.RUNTIME_CLASS",
    ("policy", "PodDisruptionBudget"): "scaling_rules.BUDGET",
    (RBAC, "ClusterRole"): "rbac_rules.CLUSTER_ROLE",
    (RBAC, "ClusterRoleBinding"): "rbac_rules.CLUSTER_ROLE_BINDING",
    (RBAC, "Role"): "rbac_rules.ROLE",
    (RBAC, "RoleBinding"): "rbac_rules.ROLE_BINDING",
    ("scheduling.k8s.io", "PriorityClass"): "config_rules.PRIORITY_CLASS",
    ("storage.k8s.io", "StorageClass"): "volume_rules.STORAGE_CLASS",
}


@functools.cache
def builtin_rules(group: str, kind: str) -> Rules:
    """The stateless rules of a built-in kind; Services and CRDs add rules that depend on the server."""
    key = (group, kind)
    rules = _rules(key)
    return _with_table(rules, key) if key in RULE_TABLES else rules


@functools.cache
def kind_rules(group: str, kind: str) -> "KindRules":
    """The rule table of a kind; its module is imported on first use."""
    module, _, name = RULE_TABLES[group, kind].rpartition(".")
    found: KindRules = getattr(importlib.import_module(f"{__package__}.rules.{module}"), name)
    return found


def _rules(key: tuple[str, str]) -> Rules:
    return Rules(
        generation=key in GENERATION,
        increments=key != ("scheduling.k8s.io", "PriorityClass"),
        increments_by=GENERATION_METADATA.get(key, ()),
        increments_by_memory=key in COMPARED_BY_MEMORY,
        increments_by_disabled=key == ("resource.k8s.io", "ResourceSlice"),
        quantity_lists=QUANTITY_LISTS.get(key, ()),
        complete_sent=workloads.set_labels_of_template if key in LABELLED else None,
        unconditional_update=key not in REQUIRES_RESOURCE_VERSION,
        create_on_update=key in CREATE_ON_UPDATE,
        name_check=NAME_CHECKS.get(key, check_dns1123_subdomain),
        names_prefixes=key not in FREE_PREFIXES,
        default=DEFAULTERS.get(key),
        default_times=storage_and_devices.set_slice_times if key == ("resource.k8s.io", "ResourceSlice") else None,
        drop_disabled=normal_forms.DISABLED.get(key),
        prepare_create=_prepare_create(key),
        complete_update=_complete_update(key),
        prepare_update=PREPARE_UPDATE.get(key),
        prepare_part=_prepare_part(key),
        preserve=_preserve(key),
        record_user=certificate_requests.record_user if key == CERTIFICATE_REQUEST else None,
        preserved_by_status=PRESERVED_BY_STATUS.get(key, ""),
        unowned=("spec",) if key == CERTIFICATE_REQUEST else (),
        prepare_delete=namespaces.prepare_namespace_delete if key == ("", "Namespace") else None,
        undeletable=UNDELETABLE.get(key, {}),
        held=namespaces.has_namespace_finalizers if key == ("", "Namespace") else None,
        stored_again=STORED_AGAIN.get(key),
        warnings=object_warnings(*key),
        early_warnings=warn_of_new_pod if key == ("", "Pod") else None,
        graceful=key == ("", "Pod"),
        orphans=key in (("", "ReplicationController"), (BATCH, "Job")),
        has_dependents=key[1] != "Event",
        status_on_create=key in STATUS_ON_CREATE,
        finalizers_need_slash=key not in PLAIN_FINALIZERS,
        metadata_checks=METADATA_CHECKS.get(key, MetadataChecks()),
        part_metadata_checks=STATUS_METADATA_CHECKS.get(key, MetadataChecks()),
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


def _complete_update(key: tuple[str, str]) -> Callable[[Object], None] | None:
    has_times = key in normal_forms.CONDITION_TIMES
    if key not in normal_forms.ZEROS and not has_times:
        return None

    def run(new: Object) -> None:
        normal_forms.set_zeros(key, new)
        if has_times and "status" in new:
            normal_forms.set_status_zeros(key, new)  # decoding has dropped null

    return run


def _prepare_part(key: tuple[str, str]) -> PreparePart | None:
    prepare = PREPARE_PART.get(key)
    if key not in normal_forms.STATUS and key not in normal_forms.CONDITION_TIMES:
        return prepare

    def run(new: Object, old: Object, subresource: str, now: str) -> None:
        if subresource in ("status", "approval"):
            normal_forms.set_status_zeros(key, new)
        if prepare is not None:
            prepare(new, old, subresource, now)

    return run


def _preserve(key: tuple[str, str]) -> Callable[[Object, Object], None] | None:
    if key in LABELLED:
        return workloads.read_labels_of_template
    return workloads.preserve_template_generation if key == (APPS, "DaemonSet") else None


def _with_table(rules: Rules, key: tuple[str, str]) -> Rules:
    """The rules of a kind that has a table, which is loaded when it is needed."""

    def validate(new: Object, old: Object | None) -> list[Cause]:
        return kind_rules(*key).validate(new, old)

    def validate_part(new: Object, old: Object, subresource: str) -> list[Cause]:
        return kind_rules(*key).validate_part(new, old, subresource)

    return replace(rules, validate=validate, validate_part=validate_part, complete=True)


def _prepare_quota_status(new: Object, _old: Object, _subresource: str, _now: str) -> None:
    for name in ("hard", "used"):
        normal_forms.set_canonical_list(map_member(new, "status").get(name))


def _prepare_api_service_create(tree: Object) -> None:
    """A group of this server is available; another server has to be found first."""
    if map_member(tree, "spec").get("service") is None:
        condition = {
            "type": "Available",
            "status": "True",
            "lastTransitionTime": tree["metadata"]["creationTimestamp"],
            "reason": "Local",
            "message": "Local APIServices are always available",
        }
        tree["status"] = {"conditions": [condition]}


def _name_limit_range(tree: Object) -> None:
    """A LimitRange without a name gets one that nothing else has."""
    tree["metadata"].setdefault("name", tree["metadata"]["uid"])


def _drop_topology(tree: Object) -> None:
    for endpoint in list_member(tree, "endpoints"):
        endpoint.pop("deprecatedTopology", None)


def _prepare_endpoint_slice_update(new: Object, old: Object) -> None:
    """Drops the old topology, which counts as a change nevertheless."""
    if any(endpoint.get("deprecatedTopology") for endpoint in list_member(new, "endpoints")):
        new["metadata"]["generation"] = old["metadata"].get("generation", 0) + 1
    _drop_topology(new)


def _prepare_autoscaler_create(tree: Object) -> None:
    is_v2 = tree.get("apiVersion") == "autoscaling/v2"
    tree["status"] = dict(AUTOSCALER_STATUS[is_v2])
    annotations = map_member(tree["metadata"], "annotations")
    if not is_v2 and CURRENT_METRICS in annotations:  # of the status, which a new one does not have
        del annotations[CURRENT_METRICS]
        if not annotations:
            del tree["metadata"]["annotations"]


def _prepare_autoscaler_update(new: Object, _old: Object) -> None:
    # Decoding has dropped null.
    zeros = AUTOSCALER_STATUS[new.get("apiVersion") == "autoscaling/v2"]
    status = new["status"] = {**zeros, **map_member(new, "status")}
    for condition in list_member(status, "conditions"):
        condition.setdefault("lastTransitionTime", None)
    for metric in list_member(status, "currentMetrics"):
        for source in metric:
            current = map_member(map_member(metric, source), "current")
            for name in ("value", "averageValue"):
                normal_forms.set_canonical(current, name)


def _prepare_autoscaler_part(new: Object, old: Object, _subresource: str, _now: str) -> None:
    _prepare_autoscaler_update(new, old)


# What is always in the status of an autoscaler of v1 and of v2.
AUTOSCALER_STATUS: dict[bool, Object] = {
    False: {"currentReplicas": 0, "desiredReplicas": 0},
    True: {"currentMetrics": None, "desiredReplicas": 0},
}
PREPARE_CREATE: dict[tuple[str, str], Defaulter] = {
    ("", "LimitRange"): _name_limit_range,
    ("discovery.k8s.io", "EndpointSlice"): _drop_topology,
    ("", "Namespace"): namespaces.prepare_namespace_create,
    ("", "Node"): nodes.prepare_node_create,
    ("", "PersistentVolume"): volumes.prepare_volume_create,
    ("", "PersistentVolumeClaim"): volumes.prepare_claim_create,
    ("", "Pod"): prepare_pod_create,
    ("apiregistration.k8s.io", "APIService"): _prepare_api_service_create,
    (APPS, "DaemonSet"): workloads.prepare_daemon_set_create,
    (BATCH, "Job"): workloads.prepare_job_create,
    ("autoscaling", "HorizontalPodAutoscaler"): _prepare_autoscaler_create,
    ("storage.k8s.io", "VolumeAttachment"): storage_and_devices.prepare_attachment_create,
}
PREPARE_PART: dict[tuple[str, str], PreparePart] = {
    ("", "Namespace"): namespaces.prepare_namespace_part,
    ("", "Node"): nodes.prepare_node_part,
    ("", "PersistentVolume"): volumes.prepare_volume_part,
    ("", "PersistentVolumeClaim"): volumes.prepare_claim_part,
    ("", "Pod"): prepare_pod_part,
    ("", "ResourceQuota"): _prepare_quota_status,
    (APPS, "DaemonSet"): workloads.prepare_daemon_set_part,
    ("autoscaling", "HorizontalPodAutoscaler"): _prepare_autoscaler_part,
    CERTIFICATE_REQUEST: certificate_requests.prepare_part,
}
# What of the metadata an update of the status leaves as it is; nothing for most kinds.
UNDELETABLE: dict[tuple[str, str], dict[str, str]] = {
    ("scheduling.k8s.io", "PriorityClass"): dict.fromkeys(
        SYSTEM_PRIORITIES, "this is a system priority class and cannot be deleted"
    ),
}
STORED_AGAIN: Final[dict[tuple[str, str], Callable[[Object], bool]]] = {
    ("", "PersistentVolumeClaim"): lambda _claim: True,
    (BATCH, "Job"): workloads.has_labels_of_template,
}
"""Which new objects are stored again by the first write, even if it changes nothing, as upstream."""

PRESERVED_BY_STATUS: dict[tuple[str, str], Literal["metadata", "content", "labels", ""]] = {
    **dict.fromkeys([("resource.k8s.io", "ResourceClaim"), (STORAGE, "VolumeAttachment")], "content"),
    (NETWORK, "ServiceCIDR"): "content",
    (ADMISSION, "ValidatingAdmissionPolicy"): "metadata",
    ("apiregistration.k8s.io", "APIService"): "metadata",
    (APPS, "Deployment"): "labels",
    (FLOW_CONTROL, "FlowSchema"): "metadata",
    (FLOW_CONTROL, "PriorityLevelConfiguration"): "metadata",
}
PREPARE_UPDATE: dict[tuple[str, str], Callable[[Object, Object], None]] = {
    ("discovery.k8s.io", "EndpointSlice"): _prepare_endpoint_slice_update,
    ("", "Pod"): prepare_pod_update,
    ("", "Namespace"): namespaces.prepare_namespace_update,
    ("", "PersistentVolumeClaim"): volumes.prepare_claim_update,
    (APPS, "DaemonSet"): workloads.prepare_daemon_set_update,
    ("autoscaling", "HorizontalPodAutoscaler"): _prepare_autoscaler_update,
    CERTIFICATE_REQUEST: certificate_requests.prepare_update,
    ("storage.k8s.io", "CSIDriver"): storage_and_devices.prepare_driver_update,
}


def _check_address_name(name: str) -> list[str]:
    """Why a name is not an IP address in its canonical form; empty if it is one."""
    if "." in name and ":" not in name and any(part[0] == "0" for part in name.split(".") if part[1:]):
        return ["must not have leading 0s"]
    try:
        canonical = str(ipaddress.ip_address(name))
    except ValueError:
        return ["must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"]
    return [] if name == canonical else [f'must be in canonical form ("{canonical}")']


def _check_long_name(name: str) -> list[str]:
    """Why a name is not a subdomain, in the words of upstream's newer check."""
    return [
        one.replace("characters", "bytes") if "no more than" in one else one for one in check_dns1123_subdomain(name)
    ]


NAME_CHECKS: dict[tuple[str, str], Callable[[str], list[str]]] = {
    (NETWORK, "IPAddress"): _check_address_name,
    ("", "Event"): check_path_segment,
    ("", "Namespace"): check_dns1123_label,
    ("", "ReplicationController"): _check_long_name,
    ("resource.k8s.io", "DeviceClass"): _check_long_name,
    CERTIFICATE_REQUEST: check_path_segment,
    (APPS, "StatefulSet"): check_dns1123_label,
    ("", "Service"): check_dns1123_label,
    ("apiregistration.k8s.io", "APIService"): check_path_segment,
    **{(RBAC, kind): check_path_segment for kind in ("ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding")},
}
