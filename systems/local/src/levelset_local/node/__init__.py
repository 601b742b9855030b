"""The node agent: runs Pods as processes of this machine, as a kubelet runs them as containers."""

from levelset_local.node.agent import Node, Pool, inherited_environment, log_key, machine_size
from levelset_local.node.housing import OneAddress
from levelset_local.node.images import COMMAND, GROUP, Images, NoProgram
from levelset_local.node.known import PodKnown
from levelset_local.node.node import node_controller, node_object, node_status
from levelset_local.node.plan import Plan, plan
from levelset_local.node.pod_logs import pod_logs
from levelset_local.node.reconcile import PodKeeper, pods_controller
from levelset_local.node.records import FolderRecords, MemoryRecords, Records
from levelset_local.node.restarting import Restarts
from levelset_local.node.statuses import pod_status

__all__ = [
    "COMMAND",
    "GROUP",
    "FolderRecords",
    "Images",
    "MemoryRecords",
    "NoProgram",
    "Node",
    "OneAddress",
    "Plan",
    "PodKeeper",
    "PodKnown",
    "Pool",
    "Records",
    "Restarts",
    "inherited_environment",
    "log_key",
    "machine_size",
    "node_controller",
    "node_object",
    "node_status",
    "plan",
    "pod_logs",
    "pod_status",
    "pods_controller",
]
