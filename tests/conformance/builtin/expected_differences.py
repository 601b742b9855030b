"""The recorded answers that ours differ from, each with the reason: area, base and case.

An answer in this list must differ: when it does not any more, its line has to go.
"""

__all__ = ["DIFFERENCES", "SEQUENCE_DIFFERENCES"]

_NO_OBJECT = "the schema wants an object, so it is 400"
_DANGLING = "no controller writes the condition Dangling"
_LOOPBACK = "pods that are processes of this machine have loopback addresses"
_NO_PROTECTION = "no controller would remove the finalizer vac-protection"
_EMPTY_MAP = "an empty map is dropped before the rules see it, so it is shown as null"

_EMPTIED: dict[str, dict[str, str]] = {
    "sweeps": {
        "daemon set swept": "create",
        "replica set swept": "create",
        "replication controller swept": "create",
        "deployment swept": "create",
        "stateful set swept": "create",
    },
    "updates": {
        "daemon set changed": "update",
        "replica set changed": "update",
        "deployment changed": "update",
        "stateful set changed": "update",
    },
    "workloads": {"deployment": "create", "stateful set": "create"},
}

DIFFERENCES: dict[tuple[str, str, str], str] = {
    ("workloads", "controller revision", 'create {"data": "text"}'): _NO_OBJECT,
    ("networking", "endpoints", 'create {"subsets.0.addresses.0.ip": "127.0.0.1"}'): _LOOPBACK,
    ("networking", "endpoint slice", 'create {"endpoints.0.addresses.0": "127.0.0.1"}'): _LOOPBACK,
    ("networking", "service", 'create {"spec.clusterIP": "192.168.0.1"}'): "the message has other words",
    ("flowcontrol", "flow schema", 'update {"spec.matchingPrecedence": 600}'): _DANGLING,
    ("flowcontrol", "flow schema", 'status {"spec.matchingPrecedence": 700}'): _DANGLING,
    ("drivers_and_devices", "attributes class", ""): _NO_PROTECTION,
    ("pods", "pod", 'update {"spec.nodeName": "n"}'): "a scheduler may set the node by an update",
    ("updates", "volume changed", 'update {"spec.capacity.storage": null}'): _EMPTY_MAP,
    ("updates", "storage class changed", 'update {"parameters.a": null}'): _EMPTY_MAP,
    ("updates", "service changed", 'update {"spec.loadBalancerClass": "Not_Valid!"}'): "a cause is reported once",
    ("updates", "endpoint slice changed", 'update {"endpoints.0.deprecatedTopology.a": "Not_Valid!"}'): (
        "a field that is dropped does not increment the generation"
    ),
    **{
        (area, base, f'{verb} {{"spec.template.metadata.labels.app": null}}'): _EMPTY_MAP
        for area, bases in _EMPTIED.items()
        for base, verb in bases.items()
    },
}

SEQUENCE_DIFFERENCES: dict[tuple[str, str], str] = {
    ("storage: attributes", "created"): _NO_PROTECTION,
    ("storage: default attributes", "created"): _NO_PROTECTION,
}
"""The same of sequences: sequence and request."""
