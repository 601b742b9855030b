"""What stands in the columns of Nodes, PersistentVolumes and their claims."""

from collections.abc import Callable, Iterable
from datetime import datetime
from typing import Any

from levelset.apiserver.printing import at, joined, listed, text
from levelset.apiserver.served import Object
from levelset.objects.trees import is_map

__all__ = ["NODE", "VOLUME", "VOLUME_CLAIM"]

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
    "Capacity": lambda tree, _: text(tree, "status", "capacity", "storage"),
    "Access Modes": lambda tree, _: _modes(listed(tree, "status", "accessModes")),
    "StorageClass": lambda tree, _: text(tree, "spec", "storageClassName"),
    "VolumeAttributesClass": lambda tree, _: text(tree, "spec", "volumeAttributesClassName") or "<unset>",
    "VolumeMode": lambda tree, _: text(tree, "spec", "volumeMode") or "<unset>",
}
