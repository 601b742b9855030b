"""The recorded answers that ours differ from, each with the reason: area, base and case.

An answer in this list must differ: when it does not any more, its line has to go.
"""

__all__ = ["DIFFERENCES"]

_NO_OBJECT = "the schema wants an object, so it is 400"
_EMPTY_MAP = "an empty map that a client sends stays"
_TERM = "spec.affinity.podAntiAffinity.requiredDuringSchedulingIgnoredDuringExecution.0.labelSelector.matchLabels.app"
_SPREAD = "spec.topologySpreadConstraints.0.labelSelector.matchLabels.app"

DIFFERENCES: dict[tuple[str, str, str], str] = {
    ("workloads", "controller revision", 'create {"data": "text"}'): _NO_OBJECT,
    ("pods", "pod", 'update {"spec.nodeName": "n"}'): "a scheduler may set the node by an update",
    ("pods", "pod full", f'create {{"{_TERM}": null}}'): _EMPTY_MAP,
    ("pods", "pod full", f'create {{"{_SPREAD}": null}}'): _EMPTY_MAP,
}
