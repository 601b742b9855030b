"""ReplicaSets and ReplicationControllers: maintain the desired number of Pods of a template."""

from levelset_local.replicasets.controller import replicasets_controller, replication_controllers_controller
from levelset_local.replicasets.plan import Plan, ReplicaFailure, make_status, plan_pods, rank_for_deletion

__all__ = [
    "Plan",
    "ReplicaFailure",
    "make_status",
    "plan_pods",
    "rank_for_deletion",
    "replicasets_controller",
    "replication_controllers_controller",
]
