"""Nodes: their pod networks, the taint of a new Node, and what is always in their status."""

from typing import Final

from levelset.apiserver.registry.builtin.normal_forms import set_canonical_list
from levelset.apiserver.resources.json_members import list_member, map_member
from levelset.apiserver.resources.served_resource import Object
from levelset.objects.json_tree import is_map

__all__ = ["prepare_node_create", "prepare_node_part", "set_node_defaults"]

NOT_READY: Final = "node.kubernetes.io/not-ready"
NODE_INFO: Final = (
    *("machineID", "systemUUID", "bootID", "kernelVersion", "osImage", "containerRuntimeVersion"),
    *("kubeletVersion", "kubeProxyVersion", "operatingSystem", "architecture"),
)


def set_node_defaults(tree: Object) -> None:
    """Makes the first pod network and the list of them agree; the single field wins."""
    spec = tree.setdefault("spec", {})
    if is_map(source := map_member(spec, "configSource").get("configMap")):
        source.setdefault("kubeletConfigKey", "")  # which is always written, before the feature is found to be off
    first, blocks = spec.get("podCIDR"), list_member(spec, "podCIDRs")
    if first and (not blocks or blocks[0] != first):
        spec["podCIDRs"] = [first]
    elif blocks and not first:
        spec["podCIDR"] = blocks[0]


def prepare_node_create(tree: Object) -> None:
    """Adds the taint that a Node has until it is ready, and completes its status."""
    spec = tree.setdefault("spec", {})
    taints = list_member(spec, "taints")
    if not any(one.get("key") == NOT_READY and one.get("effect") == "NoSchedule" for one in taints):
        spec["taints"] = [*taints, {"key": NOT_READY, "effect": "NoSchedule"}]
    _complete_status(tree)


def prepare_node_part(new: Object, _old: Object, _subresource: str, _now: str) -> None:
    """Completes the status of a Node."""
    _complete_status(new)


def _complete_status(tree: Object) -> None:
    status = tree["status"] = map_member(tree, "status")
    status.pop("config", None)
    for name in ("capacity", "allocatable"):
        set_canonical_list(status.get(name))
    if status.get("allocatable") is None and status.get("capacity"):
        status["allocatable"] = dict(status["capacity"])
    for condition in list_member(status, "conditions"):
        condition.setdefault("lastHeartbeatTime", None)
        condition.setdefault("lastTransitionTime", None)
    status.setdefault("daemonEndpoints", {}).setdefault("kubeletEndpoint", {}).setdefault("Port", 0)
    info = status.setdefault("nodeInfo", {})
    for name in NODE_INFO:
        info.setdefault(name, "")
