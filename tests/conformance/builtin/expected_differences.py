"""The recorded answers that ours differ from, each with the reason: area, base and case.

An answer in this list must differ: when it does not any more, its line has to go.
"""

__all__ = ["DIFFERENCES", "MANAGER_DIFFERENCES", "REQUEST_DIFFERENCES", "SEQUENCE_DIFFERENCES"]

_DANGLING = "no controller writes the condition Dangling"
_LOOPBACK = "pods that are processes of this machine have loopback addresses"
_NO_PROTECTION = "no controller would remove the finalizer vac-protection"

DIFFERENCES: dict[tuple[str, str, str], str] = {
    ("networking", "endpoints", 'create {"subsets.0.addresses.0.ip": "127.0.0.1"}'): _LOOPBACK,
    ("networking", "endpoint slice", 'create {"endpoints.0.addresses.0": "127.0.0.1"}'): _LOOPBACK,
    ("flowcontrol", "flow schema", 'update {"spec.matchingPrecedence": 600}'): _DANGLING,
    ("flowcontrol", "flow schema", 'status {"spec.matchingPrecedence": 700}'): _DANGLING,
    ("drivers_and_devices", "attributes class", ""): _NO_PROTECTION,
    ("drivers_and_devices", "attributes class more", ""): _NO_PROTECTION,
    ("pods", "pod", 'update {"spec.nodeName": "n"}'): "a scheduler may set the node by an update",
}

SEQUENCE_DIFFERENCES: dict[tuple[str, str], str] = {
    ("storage: attributes", "created"): _NO_PROTECTION,
    ("storage: default attributes", "created"): _NO_PROTECTION,
}
"""The same of sequences: sequence and request."""

REQUEST_DIFFERENCES: dict[str, str] = {}
"""The same of single requests, by their keys."""

_LOST_OWNERS = "kube-apiserver removes the bucket of merged entries, and with it the owners of these fields"

MANAGER_DIFFERENCES: dict[tuple[str, str], str] = {
    ("an entry before the bucket", "22 a22"): _LOST_OWNERS,
    ("an entry before the bucket", "at last"): _LOST_OWNERS,
}
"""The same of writes by many field managers: history and write."""
