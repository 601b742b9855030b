"""The recorded answers that ours differ from, each with the reason: area, base and case.

An answer in this list must differ: when it does not any more, its line has to go.
"""

__all__ = ["DIFFERENCES"]

_NO_OBJECT = "the schema wants an object, so it is 400"
_NULL = "a null in the status is dropped when it is stored"
_DANGLING = "no controller writes the condition Dangling"
_LOOPBACK = "pods that are processes of this machine have loopback addresses"
_EMPTY_MAP = "an empty map that a client sends stays"
_TERM = "spec.affinity.podAntiAffinity.requiredDuringSchedulingIgnoredDuringExecution.0.labelSelector.matchLabels.app"
_SPREAD = "spec.topologySpreadConstraints.0.labelSelector.matchLabels.app"

DIFFERENCES: dict[tuple[str, str, str], str] = {
    ("workloads", "controller revision", 'create {"data": "text"}'): _NO_OBJECT,
    ("networking", "endpoints", 'create {"subsets.0.addresses.0.ip": "127.0.0.1"}'): _LOOPBACK,
    ("networking", "endpoint slice", 'create {"endpoints.0.addresses.0": "127.0.0.1"}'): _LOOPBACK,
    ("networking", "service", 'create {"spec.clusterIP": "192.168.0.1"}'): "the message has other words",
    ("scaling", "autoscaler", 'update {"spec.maxReplicas": 7}'): _NULL,
    ("scaling", "autoscaler", 'status {"status.currentReplicas": 1, "status.desiredReplicas": 2}'): _NULL,
    ("config", "priority class", 'update {"description": "text"}'): "every change increments the generation",
    ("flowcontrol", "flow schema", 'update {"spec.matchingPrecedence": 600}'): _DANGLING,
    ("flowcontrol", "flow schema", 'status {"spec.matchingPrecedence": 700}'): _DANGLING,
    ("drivers_and_devices", "attributes class", ""): "no controller would remove the finalizer vac-protection",
    ("pods", "pod", 'update {"spec.nodeName": "n"}'): "a scheduler may set the node by an update",
    ("pods", "pod full", f'create {{"{_TERM}": null}}'): _EMPTY_MAP,
    ("pods", "pod full", f'create {{"{_SPREAD}": null}}'): _EMPTY_MAP,
}
