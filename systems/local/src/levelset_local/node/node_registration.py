"""Registers the Node object of this machine, and writes its status when it differs."""

import platform
import socket
from collections.abc import AsyncIterator
from datetime import datetime
from typing import Final

from levelset import Context, Controller, MergePatch, ObjectMeta, Ref, source
from levelset.errors import AlreadyExists
from levelset.kinds import core_v1
from levelset.kinds.core_v1 import NodeAddress, NodeCondition, NodeSpec, NodeStatus, NodeSystemInfo
from levelset.objects import replace, to_tree
from levelset_local.node.node import Node

__all__ = ["node_controller", "node_object", "node_status"]

_NOT_READY: Final = "node.kubernetes.io/not-ready"


def node_controller(node: Node) -> Controller[core_v1.Node]:
    """The controller that registers a node, and registers it again if it is deleted."""

    async def names() -> AsyncIterator[Ref[core_v1.Node]]:
        yield Ref(core_v1.Node, node.name)

    async def reconcile(found: core_v1.Node, ctx: Context) -> None:
        if found.name == node.name and found.metadata.deletion_timestamp is None:
            await ctx.set_status(found, node_status(node, found.status, ctx.now()))
            others = [to_tree(one) for one in found.spec.taints if one.key != _NOT_READY]
            if len(others) < len(found.spec.taints):  # the server taints a new node, and this one is ready
                await ctx.patch(found.ref, MergePatch({"spec": {"taints": others or None}}))

    async def gone(ref: Ref[core_v1.Node], ctx: Context) -> None:
        if ref.name != node.name:
            return
        try:
            await ctx.create(node_object(node))
        except AlreadyExists:
            ctx.log.debug("the node is registered already")

    return Controller(core_v1.Node, reconcile, source(names), gone=gone, name="node-registration", concurrency=1)


def node_object(node: Node) -> core_v1.Node:
    """The Node object to create; its status is written afterwards."""
    labels = {
        "kubernetes.io/hostname": node.name,
        "kubernetes.io/os": platform.system().lower() or "unknown",
        "kubernetes.io/arch": _architecture(),
    }
    metadata = ObjectMeta(name=node.name, labels=labels)
    return core_v1.Node(metadata=metadata, spec=NodeSpec(provider_id=f"levelset://{node.name}"))


def node_status(node: Node, before: NodeStatus | None, now: datetime) -> NodeStatus:
    """The status of a node: ready, with the resources of the machine. Without a change it equals `before`."""
    present = before or NodeStatus()
    return replace(
        present,
        addresses=(
            NodeAddress(type="InternalIP", address=node.host),
            NodeAddress(type="Hostname", address=node.name),
        ),
        capacity=dict(node.allocatable),
        allocatable=dict(node.allocatable),
        conditions=_conditions(present, now),
        node_info=_system_info(),
    )


def _conditions(before: NodeStatus, now: datetime) -> tuple[NodeCondition, ...]:
    wanted = (
        NodeCondition(
            type="MemoryPressure",
            status="False",
            reason="KubeletHasSufficientMemory",
            message="kubelet has sufficient memory available",
        ),
        NodeCondition(
            type="DiskPressure",
            status="False",
            reason="KubeletHasNoDiskPressure",
            message="kubelet has no disk pressure",
        ),
        NodeCondition(
            type="PIDPressure",
            status="False",
            reason="KubeletHasSufficientPID",
            message="kubelet has sufficient PID available",
        ),
        NodeCondition(
            type="Ready", status="True", reason="KubeletReady", message="levelset runs Pods as processes here"
        ),
    )
    present = {one.type: one for one in before.conditions}
    return tuple(_timed(one, present.get(one.type), now) for one in wanted)


def _timed(one: NodeCondition, before: NodeCondition | None, now: datetime) -> NodeCondition:
    if before is not None and before.status == one.status and before.last_transition_time is not None:
        return replace(
            one, last_transition_time=before.last_transition_time, last_heartbeat_time=before.last_heartbeat_time
        )
    moment = now.replace(microsecond=0)
    return replace(one, last_transition_time=moment, last_heartbeat_time=moment)


def _system_info() -> NodeSystemInfo:
    version = f"levelset://{platform.python_version()}"
    return NodeSystemInfo(
        architecture=_architecture(),
        boot_id="",
        container_runtime_version=version,
        kernel_version=platform.release(),
        kube_proxy_version="",
        kubelet_version="v1.34.0-levelset",
        machine_id=socket.gethostname(),
        operating_system=platform.system().lower() or "unknown",
        os_image=platform.system(),
        system_uuid="",
    )


def _architecture() -> str:
    found = platform.machine().lower()
    return {"x86_64": "amd64", "aarch64": "arm64"}.get(found, found)
