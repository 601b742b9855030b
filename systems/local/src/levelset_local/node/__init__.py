"""The node agent: runs Pods as processes of this machine, as a kubelet runs them as containers."""

from levelset_local.node.images import COMMAND_ANNOTATION, ENTRY_POINT_GROUP, Images, NoProgram
from levelset_local.node.namespaces import check_namespaces
from levelset_local.node.node import Node, inherited_environment, log_key, machine_size
from levelset_local.node.node_registration import node_controller, node_object, node_status
from levelset_local.node.plan import Plan, plan
from levelset_local.node.pod_addresses import PodAddressPool, SharedAddress
from levelset_local.node.pod_logs import pod_logs
from levelset_local.node.pod_reconciler import PodReconciler, pods_controller
from levelset_local.node.pod_record import PodRecord
from levelset_local.node.pod_status import pod_status
from levelset_local.node.pod_streams import pod_streams
from levelset_local.node.record_store import FileRecordStore, MemoryRecordStore, RecordStore
from levelset_local.node.restart_policy import RestartBackoff

__all__ = [
    "COMMAND_ANNOTATION",
    "ENTRY_POINT_GROUP",
    "FileRecordStore",
    "Images",
    "MemoryRecordStore",
    "NoProgram",
    "Node",
    "Plan",
    "PodAddressPool",
    "PodReconciler",
    "PodRecord",
    "RecordStore",
    "RestartBackoff",
    "SharedAddress",
    "check_namespaces",
    "inherited_environment",
    "log_key",
    "machine_size",
    "node_controller",
    "node_object",
    "node_status",
    "plan",
    "pod_logs",
    "pod_status",
    "pod_streams",
    "pods_controller",
]
