"""The cells of the table columns of the built-in kinds, by resource and column name.

`Name`, `Age` and `Created At` need no entry here. Every function accepts any tree, also an empty one: the row of a
watch bookmark has no object. Pods and workloads have files of their own.
"""

from collections.abc import Callable, Iterable
from datetime import datetime
from typing import Any

from levelset.apiserver.printers import cell_values
from levelset.apiserver.printers.autoscalers import AUTOSCALER
from levelset.apiserver.printers.cell_values import at, count, joined, labels, listed, number, selector, text
from levelset.apiserver.printers.pods import POD
from levelset.apiserver.printers.workloads import (
    CRON_JOB,
    DAEMON_SET,
    DEPLOYMENT,
    JOB,
    POD_TEMPLATE,
    REPLICA_SET,
    STATEFUL_SET,
)
from levelset.apiserver.resources.served_resource import Object
from levelset.objects.json_tree import is_map

__all__ = ["NODE", "PRINTERS", "VOLUME", "VOLUME_CLAIM"]

Cell = Callable[[Object, datetime], Any]

_ROLE = "node-role.kubernetes.io/"
_MODES = {"ReadWriteOnce": "RWO", "ReadOnlyMany": "ROX", "ReadWriteMany": "RWX", "ReadWriteOncePod": "RWOP"}


def _node_status(tree: Object, _: datetime) -> str:
    ready = [text(one, "status") for one in listed(tree, "status", "conditions") if text(one, "type") == "Ready"]
    shown = "Unknown" if not ready else "Ready" if ready[0] == "True" else "NotReady"
    return f"{shown},SchedulingDisabled" if at(tree, "spec", "unschedulable") is True else shown


def _node_roles(tree: Object, _: datetime) -> str:
    labels = at(tree, "metadata", "labels")
    found: set[str] = set()
    for name, value in (labels if is_map(labels) else {}).items():
        if name.startswith(_ROLE):
            found.add(name.removeprefix(_ROLE))
        elif name == "kubernetes.io/role" and value:
            found.add(str(value))
    return joined(sorted(filter(None, found))) or "<none>"


def _node_address(kind: str) -> Cell:
    def find(tree: Object, _: datetime) -> str:
        every = listed(tree, "status", "addresses")
        return next((text(one, "address") for one in every if text(one, "type") == kind), "<none>")

    return find


def _node_info(name: str) -> Cell:
    return lambda tree, _: text(tree, "status", "nodeInfo", name) or "<unknown>"


NODE: dict[str, Cell] = {
    "Status": _node_status,
    "Roles": _node_roles,
    "Version": lambda tree, _: text(tree, "status", "nodeInfo", "kubeletVersion"),
    "Internal-IP": _node_address("InternalIP"),
    "External-IP": _node_address("ExternalIP"),
    "OS-Image": _node_info("osImage"),
    "Kernel-Version": _node_info("kernelVersion"),
    "Container-Runtime": _node_info("containerRuntimeVersion"),
}


def _phase(tree: Object, _: datetime) -> str:
    return "Terminating" if at(tree, "metadata", "deletionTimestamp") else text(tree, "status", "phase")


def _modes(values: Iterable[Any]) -> str:
    given = set(map(str, values))
    return joined(short for mode, short in _MODES.items() if mode in given)


def _claim_of(tree: Object, _: datetime) -> str:
    name = text(tree, "spec", "claimRef", "name")
    return f"{text(tree, 'spec', 'claimRef', 'namespace')}/{name}" if name else ""


VOLUME: dict[str, Cell] = {
    "Capacity": lambda tree, _: text(tree, "spec", "capacity", "storage"),
    "Access Modes": lambda tree, _: _modes(listed(tree, "spec", "accessModes")),
    "Reclaim Policy": lambda tree, _: text(tree, "spec", "persistentVolumeReclaimPolicy"),
    "Status": _phase,
    "Claim": _claim_of,
    "StorageClass": lambda tree, _: text(tree, "spec", "storageClassName"),
    "VolumeAttributesClass": lambda tree, _: text(tree, "spec", "volumeAttributesClassName") or "<unset>",
    "Reason": lambda tree, _: text(tree, "status", "reason"),
    "VolumeMode": lambda tree, _: text(tree, "spec", "volumeMode") or "<unset>",
}
VOLUME_CLAIM: dict[str, Cell] = {
    "Status": _phase,
    "Volume": lambda tree, _: text(tree, "spec", "volumeName"),
    "Capacity": lambda tree, _: _capacity(tree),
    "Access Modes": lambda tree, _: _modes(listed(tree, "status", "accessModes")),
    "StorageClass": lambda tree, _: text(tree, "spec", "storageClassName"),
    "VolumeAttributesClass": lambda tree, _: text(tree, "spec", "volumeAttributesClassName") or "<unset>",
    "VolumeMode": lambda tree, _: text(tree, "spec", "volumeMode") or "<unset>",
}


def _capacity(claim: Object) -> str:
    """The capacity of a claim that has a volume."""
    return (text(claim, "status", "capacity", "storage") or "0") if text(claim, "spec", "volumeName") else ""


def _service_addresses(tree: Object, _: datetime) -> str:
    kind = text(tree, "spec", "type")
    if kind == "ExternalName":
        return text(tree, "spec", "externalName")
    found = [one for one in listed(tree, "spec", "externalIPs") if isinstance(one, str)]
    if kind == "LoadBalancer":
        ingress = listed(tree, "status", "loadBalancer", "ingress")
        found = [text(one, "ip") or text(one, "hostname") for one in ingress] + found
        return joined(found) or "<pending>"
    return joined(found) or "<none>"


def _service_ports(tree: Object, _: datetime) -> str:
    return joined(map(_service_port, listed(tree, "spec", "ports"))) or "<none>"


def _service_port(port: Any) -> str:
    node = number(port, "nodePort")
    return f"{number(port, 'port')}{f':{node}' if node else ''}/{text(port, 'protocol')}"


def _event_object(tree: Object, _: datetime) -> str:
    subject: Object = at(tree, "involvedObject") or at(tree, "regarding") or {}
    name, kind = text(subject, "name"), text(subject, "kind").lower()
    return f"{kind}/{name}" if name else kind


def _event_part(tree: Object, _: datetime) -> str:
    return text(tree, "involvedObject", "fieldPath") or text(tree, "regarding", "fieldPath")


def _event_source(tree: Object, _: datetime) -> str:
    source: Object = at(tree, "source") or at(tree, "deprecatedSource") or {}
    reporter = text(tree, "reportingComponent") or text(tree, "reportingController")
    component, host = text(source, "component") or reporter, text(source, "host") or text(tree, "reportingInstance")
    return f"{component}, {host}" if host else component


def _event_message(tree: Object, _: datetime) -> str:
    return (text(tree, "message") or text(tree, "note")).strip()


def _event_first(tree: Object, now: datetime) -> str:
    first = text(tree, "firstTimestamp") or text(tree, "deprecatedFirstTimestamp") or text(tree, "eventTime")
    return cell_values.age(first, now)


def _event_last(tree: Object, now: datetime) -> str:
    series = text(tree, "series", "lastObservedTime")
    last = series or text(tree, "lastTimestamp") or text(tree, "deprecatedLastTimestamp")
    return cell_values.age(last, now) if last else _event_first(tree, now)


def _event_count(tree: Object, _: datetime) -> int:
    return number(tree, "series", "count") or number(tree, "count") or number(tree, "deprecatedCount") or 1


_EVENT: dict[str, Cell] = {
    "Last Seen": _event_last,
    "Type": lambda tree, _: text(tree, "type"),
    "Reason": lambda tree, _: text(tree, "reason"),
    "Object": _event_object,
    "Subobject": _event_part,
    "Source": _event_source,
    "Message": _event_message,
    "First Seen": _event_first,
    "Count": _event_count,
}


def _subjects(tree: Object, kind: str) -> str:
    found = (one for one in listed(tree, "subjects") if text(one, "kind") == kind)
    named = (
        f"{text(one, 'namespace')}/{text(one, 'name')}" if kind == "ServiceAccount" else text(one, "name")
        for one in found
    )
    return joined(named, ", ")


_BINDING: dict[str, Cell] = {
    "Role": lambda tree, _: f"{text(tree, 'roleRef', 'kind')}/{text(tree, 'roleRef', 'name')}",
    "Users": lambda tree, _: _subjects(tree, "User"),
    "Groups": lambda tree, _: _subjects(tree, "Group"),
    "ServiceAccounts": lambda tree, _: _subjects(tree, "ServiceAccount"),
}
_WEBHOOKS: dict[str, Cell] = {"Webhooks": lambda tree, _: count(tree, "webhooks")}
_VALIDATING: dict[str, Cell] = {
    "Validations": lambda tree, _: count(tree, "spec", "validations"),
    "ParamKind": lambda tree, _: _param_kind(tree),
}
_MUTATING: dict[str, Cell] = {
    "Mutations": lambda tree, _: count(tree, "spec", "mutations"),
    "ParamKind": lambda tree, _: _param_kind(tree),
}
_POLICY_BINDING: dict[str, Cell] = {
    "PolicyName": lambda tree, _: text(tree, "spec", "policyName"),
    "ParamRef": lambda tree, _: _param_ref(tree),
}


def _param_kind(tree: Object) -> str:
    kind = text(tree, "spec", "paramKind", "kind")
    return f"{text(tree, 'spec', 'paramKind', 'apiVersion')}/{kind}" if kind else "<unset>"


def _param_ref(tree: Object) -> str:
    reference = at(tree, "spec", "paramRef")
    if not reference:
        return "<unset>"
    namespace, name = text(reference, "namespace"), text(reference, "name")
    return (f"{namespace}/" if namespace else "*/") + (name or "*")


def _service_of(tree: Object, _: datetime) -> str:
    name = text(tree, "spec", "service", "name")
    return f"{text(tree, 'spec', 'service', 'namespace')}/{name}" if name else "Local"


def _is_available(tree: Object, _: datetime) -> str:
    for one in listed(tree, "status", "conditions"):
        if text(one, "type") == "Available":
            status = text(one, "status")
            return status if status == "True" else f"{status} ({text(one, 'reason')})"
    return "Unknown"


def _request_conditions(tree: Object, _: datetime) -> str:
    found = {text(one, "type") for one in listed(tree, "status", "conditions")}
    shown: list[str] = [name for name in ("Approved", "Denied", "Failed") if name in found] or ["Pending"]
    return joined([*shown, *(["Issued"] if text(tree, "status", "certificate") else [])])


def _quota(tree: Object, *, limits: bool) -> str:
    hard: Object = at(tree, "status", "hard") or {}
    used: Object = at(tree, "status", "used") or {}
    names = sorted(name for name in hard if name.startswith("limits.") == limits)
    return joined((f"{name}: {used.get(name, 0)}/{hard[name]}" for name in names), ", ")


def _endpoints(tree: Object, _: datetime) -> str:
    found: list[str] = []
    for subset in listed(tree, "subsets"):
        addresses = [text(one, "ip") for one in listed(subset, "addresses")]
        ports = [number(one, "port") for one in listed(subset, "ports")]
        found += [f"{ip}:{port}" for port in ports for ip in addresses] or addresses
    return _first_few(found)


def _slice_endpoints(tree: Object, _: datetime) -> str:
    return _first_few(
        [one for endpoint in listed(tree, "endpoints") for one in listed(endpoint, "addresses")], "<unset>"
    )


def _slice_ports(tree: Object, _: datetime) -> str:
    found = [one.get("port") if one.get("port") is not None else one.get("name", "*") for one in listed(tree, "ports")]
    return _first_few(found, "<unset>") or "<unset>"


def _first_few(found: list[Any], nothing: str = "<none>") -> str:
    more = f" + {len(found) - 3} more..." if len(found) > 3 else ""
    return joined(map(str, found[:3])) + more if found else nothing


def _ingress_hosts(tree: Object, _: datetime) -> str:
    return _first_few([host for one in listed(tree, "spec", "rules") if (host := text(one, "host"))], "*")


def _ingress_addresses(tree: Object, _: datetime) -> str:
    return joined(text(one, "ip") or text(one, "hostname") for one in listed(tree, "status", "loadBalancer", "ingress"))


def _number_or_percentage(tree: Object, name: str) -> str:
    value = at(tree, "spec", name)
    return "N/A" if value is None else str(value)


def _class_name(tree: Object, _: datetime) -> str:
    annotations: Object = at(tree, "metadata", "annotations") or {}
    is_default = any(annotations.get(name) == "true" for name in _DEFAULT_CLASS)
    return text(tree, "metadata", "name") + (" (default)" if is_default else "")


def _text_at(*path: str, default: str = "") -> Cell:
    return lambda tree, _: text(tree, *path) or default


def _value_at(*path: str, default: Any = None) -> Cell:
    def find(tree: Object, _: datetime) -> Any:
        value = at(tree, *path)
        return default if value is None else value

    return find


_DEFAULT_CLASS = ("storageclass.kubernetes.io/is-default-class", "storageclass.beta.kubernetes.io/is-default-class")
_QUEUING = ("spec", "limited", "limitResponse", "queuing")

PRINTERS: dict[tuple[str, str], dict[str, Cell]] = {
    ("", "configmaps"): {"Data": lambda tree, _: count(tree, "data") + count(tree, "binaryData")},
    ("", "secrets"): {"Type": _text_at("type"), "Data": lambda tree, _: count(tree, "data")},
    ("", "namespaces"): {"Status": _text_at("status", "phase")},
    ("", "events"): _EVENT,
    ("events.k8s.io", "events"): _EVENT,
    ("", "pods"): POD,
    ("", "services"): {
        "Type": _text_at("spec", "type"),
        "Cluster-IP": _text_at("spec", "clusterIP", default="<none>"),
        "External-IP": _service_addresses,
        "Port(s)": _service_ports,
        "Selector": lambda tree, _: labels(at(tree, "spec", "selector")),
    },
    ("", "endpoints"): {"Endpoints": _endpoints},
    ("", "resourcequotas"): {
        "Request": lambda tree, _: _quota(tree, limits=False),
        "Limit": lambda tree, _: _quota(tree, limits=True),
    },
    ("", "nodes"): NODE,
    ("", "persistentvolumes"): VOLUME,
    ("", "persistentvolumeclaims"): VOLUME_CLAIM,
    ("", "podtemplates"): POD_TEMPLATE,
    ("apps", "deployments"): DEPLOYMENT,
    ("apps", "replicasets"): REPLICA_SET,
    ("", "replicationcontrollers"): REPLICA_SET,
    ("apps", "statefulsets"): STATEFUL_SET,
    ("apps", "daemonsets"): DAEMON_SET,
    ("apps", "controllerrevisions"): {
        "Controller": lambda tree, _: _controller_of(tree),
        "Revision": _value_at("revision", default=0),
    },
    ("batch", "jobs"): JOB,
    ("batch", "cronjobs"): CRON_JOB,
    ("coordination.k8s.io", "leases"): {"Holder": _text_at("spec", "holderIdentity")},
    ("rbac.authorization.k8s.io", "rolebindings"): _BINDING,
    ("rbac.authorization.k8s.io", "clusterrolebindings"): _BINDING,
    ("admissionregistration.k8s.io", "validatingwebhookconfigurations"): _WEBHOOKS,
    ("admissionregistration.k8s.io", "mutatingwebhookconfigurations"): _WEBHOOKS,
    ("admissionregistration.k8s.io", "validatingadmissionpolicies"): _VALIDATING,
    ("admissionregistration.k8s.io", "mutatingadmissionpolicies"): _MUTATING,
    ("admissionregistration.k8s.io", "validatingadmissionpolicybindings"): _POLICY_BINDING,
    ("admissionregistration.k8s.io", "mutatingadmissionpolicybindings"): _POLICY_BINDING,
    ("apiregistration.k8s.io", "apiservices"): {"Service": _service_of, "Available": _is_available},
    ("certificates.k8s.io", "certificatesigningrequests"): {
        "SignerName": _text_at("spec", "signerName"),
        "Requestor": _text_at("spec", "username"),
        "RequestedDuration": lambda tree, _: _requested(tree),
        "Condition": _request_conditions,
    },
    ("discovery.k8s.io", "endpointslices"): {
        "AddressType": _text_at("addressType"),
        "Ports": _slice_ports,
        "Endpoints": _slice_endpoints,
    },
    ("networking.k8s.io", "ingresses"): {
        "Class": _text_at("spec", "ingressClassName", default="<none>"),
        "Hosts": _ingress_hosts,
        "Address": _ingress_addresses,
        "Ports": lambda tree, _: "80, 443" if listed(tree, "spec", "tls") else "80",
    },
    ("networking.k8s.io", "ingressclasses"): {
        "Controller": _text_at("spec", "controller"),
        "Parameters": lambda tree, _: _parameters(tree),
    },
    ("networking.k8s.io", "networkpolicies"): {
        "Pod-Selector": lambda tree, _: selector(at(tree, "spec", "podSelector")),
    },
    ("policy", "poddisruptionbudgets"): {
        "Min Available": lambda tree, _: _number_or_percentage(tree, "minAvailable"),
        "Max Unavailable": lambda tree, _: _number_or_percentage(tree, "maxUnavailable"),
        "Allowed Disruptions": _value_at("status", "disruptionsAllowed", default=0),
    },
    ("autoscaling", "horizontalpodautoscalers"): AUTOSCALER,
    ("storage.k8s.io", "storageclasses"): {
        "Name": _class_name,
        "Provisioner": _text_at("provisioner"),
        "ReclaimPolicy": _value_at("reclaimPolicy", default="Delete"),
        "VolumeBindingMode": _text_at("volumeBindingMode", default="Immediate"),
        "AllowVolumeExpansion": _value_at("allowVolumeExpansion", default=False),
    },
    ("scheduling.k8s.io", "priorityclasses"): {
        "Value": _value_at("value", default=0),
        "Global-Default": _value_at("globalDefault", default=False),
        "PreemptionPolicy": _text_at("preemptionPolicy"),
    },
    ("flowcontrol.apiserver.k8s.io", "flowschemas"): {
        "PriorityLevel": _text_at("spec", "priorityLevelConfiguration", "name"),
        "MatchingPrecedence": _value_at("spec", "matchingPrecedence", default=0),
        "DistinguisherMethod": _text_at("spec", "distinguisherMethod", "type", default="<none>"),
        "MissingPL": lambda tree, _: _condition(tree, "Dangling") or "?",
    },
    ("flowcontrol.apiserver.k8s.io", "prioritylevelconfigurations"): {
        "Type": _text_at("spec", "type"),
        "NominalConcurrencyShares": _value_at("spec", "limited", "nominalConcurrencyShares", default="<none>"),
        "Queues": _value_at(*_QUEUING, "queues", default="<none>"),
        "HandSize": _value_at(*_QUEUING, "handSize", default="<none>"),
        "QueueLengthLimit": _value_at(*_QUEUING, "queueLengthLimit", default="<none>"),
    },
    ("node.k8s.io", "runtimeclasses"): {"Handler": _text_at("handler")},
    ("", "componentstatuses"): {
        "Status": lambda tree, _: _component(tree),
        "Message": lambda tree, _: next((text(one, "message") for one in listed(tree, "conditions")), ""),
        "Error": lambda tree, _: next((text(one, "error") for one in listed(tree, "conditions")), ""),
    },
    ("networking.k8s.io", "ipaddresses"): {"ParentRef": lambda tree, _: _parent(tree)},
    ("networking.k8s.io", "servicecidrs"): {"CIDRs": lambda tree, _: joined(listed(tree, "spec", "cidrs"))},
    ("storage.k8s.io", "csidrivers"): {
        "AttachRequired": _value_at("spec", "attachRequired", default=True),
        "PodInfoOnMount": _value_at("spec", "podInfoOnMount", default=False),
        "StorageCapacity": _value_at("spec", "storageCapacity", default=False),
        "TokenRequests": lambda tree, _: (
            joined(text(one, "audience") for one in listed(tree, "spec", "tokenRequests"))
            if at(tree, "spec", "tokenRequests")
            else "<unset>"
        ),
        "RequiresRepublish": _value_at("spec", "requiresRepublish", default=False),
        "Modes": lambda tree, _: joined(listed(tree, "spec", "volumeLifecycleModes")) or "<none>",
    },
    ("storage.k8s.io", "csinodes"): {"Drivers": lambda tree, _: len(listed(tree, "spec", "drivers"))},
    ("storage.k8s.io", "volumeattachments"): {
        "Attacher": _text_at("spec", "attacher"),
        "PV": _text_at("spec", "source", "persistentVolumeName"),
        "Node": _text_at("spec", "nodeName"),
        "Attached": _value_at("status", "attached", default=False),
    },
    ("storage.k8s.io", "volumeattributesclasses"): {"DriverName": _text_at("driverName")},
    ("resource.k8s.io", "resourceclaims"): {"State": lambda tree, _: _claim_state(tree)},
    ("resource.k8s.io", "resourceslices"): {
        "Node": _text_at("spec", "nodeName"),
        "Driver": _text_at("spec", "driver"),
        "Pool": _text_at("spec", "pool", "name"),
    },
}


def _component(tree: Object) -> str:
    found = next((text(one, "status") for one in listed(tree, "conditions") if text(one, "type") == "Healthy"), "")
    return {"True": "Healthy", "": "Unknown"}.get(found, "Unhealthy")


def _parent(tree: Object) -> str:
    found: Object = at(tree, "spec", "parentRef") or {}
    if not found:
        return "<none>"
    group, namespace = text(found, "group"), text(found, "namespace")
    resource = f"{text(found, 'resource')}{f'.{group}' if group else ''}".lower()
    return f"{resource}{f'/{namespace}' if namespace else ''}/{text(found, 'name')}"


def _claim_state(tree: Object) -> str:
    is_deleted = at(tree, "metadata", "deletionTimestamp") is not None
    if at(tree, "status", "allocation") is None:
        return "deleted" if is_deleted else "pending"
    states = ["deleted"] if is_deleted else []
    return ",".join([*states, "allocated", *(["reserved"] if listed(tree, "status", "reservedFor") else [])])


def _controller_of(tree: Object) -> str:
    for one in listed(tree, "metadata", "ownerReferences"):
        if at(one, "controller") is True:
            group = text(one, "apiVersion").rpartition("/")[0]
            return f"{text(one, 'kind').lower()}{f'.{group}' if group else ''}/{text(one, 'name')}"
    return "<none>"


def _requested(tree: Object) -> str:
    seconds = number(tree, "spec", "expirationSeconds")
    return cell_values.human_duration(seconds) if seconds else "<none>"


def _condition(tree: Object, kind: str) -> str:
    return next((text(one, "status") for one in listed(tree, "status", "conditions") if text(one, "type") == kind), "")


def _parameters(tree: Object) -> str:
    found: Object = at(tree, "spec", "parameters") or {}
    if not found:
        return "<none>"
    group = text(found, "apiGroup")
    return f"{text(found, 'kind')}{f'.{group}' if group else ''}/{text(found, 'name')}"
