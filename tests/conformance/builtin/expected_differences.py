"""The recorded answers that ours differ from, each with the reason: area, base and case.

An answer in this list must differ: when it does not any more, its line has to go.
"""

__all__ = ["DIFFERENCES"]

_NO_OBJECT = "the schema wants an object, so it is 400"
_DANGLING = "no controller writes the condition Dangling"
_LOOPBACK = "pods that are processes of this machine have loopback addresses"
_EMPTY_MAP = "an empty map that a client sends stays"
_TERM = "spec.affinity.podAntiAffinity.requiredDuringSchedulingIgnoredDuringExecution.0.labelSelector.matchLabels.app"
_SPREAD = "spec.topologySpreadConstraints.0.labelSelector.matchLabels.app"

_EMPTIED: dict[str, tuple[str, ...]] = {
    "cron job swept": ("spec.jobTemplate.metadata.labels.a", "spec.jobTemplate.spec.template.metadata.labels.a"),
    "daemon set swept": ("spec.selector.matchLabels.app",),
    "deployment swept": ("spec.selector.matchLabels.app",),
    "pod template swept": (
        "template.metadata.labels.app",
        "template.metadata.annotations.a",
        "template.spec.nodeSelector.a",
    ),
    "service swept": ("spec.selector.app",),
    "runtime class swept": ("scheduling.nodeSelector.a",),
}

DIFFERENCES: dict[tuple[str, str, str], str] = {
    ("workloads", "controller revision", 'create {"data": "text"}'): _NO_OBJECT,
    ("networking", "endpoints", 'create {"subsets.0.addresses.0.ip": "127.0.0.1"}'): _LOOPBACK,
    ("networking", "endpoint slice", 'create {"endpoints.0.addresses.0": "127.0.0.1"}'): _LOOPBACK,
    ("networking", "service", 'create {"spec.clusterIP": "192.168.0.1"}'): "the message has other words",
    ("flowcontrol", "flow schema", 'update {"spec.matchingPrecedence": 600}'): _DANGLING,
    ("flowcontrol", "flow schema", 'status {"spec.matchingPrecedence": 700}'): _DANGLING,
    ("drivers_and_devices", "attributes class", ""): "no controller would remove the finalizer vac-protection",
    ("pods", "pod", 'update {"spec.nodeName": "n"}'): "a scheduler may set the node by an update",
    ("pods", "pod full", f'create {{"{_TERM}": null}}'): _EMPTY_MAP,
    ("pods", "pod full", f'create {{"{_SPREAD}": null}}'): _EMPTY_MAP,
    **{
        ("sweeps", base, f'create {{"{path}": null}}'): _EMPTY_MAP for base, paths in _EMPTIED.items() for path in paths
    },
}
