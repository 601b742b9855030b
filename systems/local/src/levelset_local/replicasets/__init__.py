"""ReplicaSets: as many equal Pods as somebody wants, no more and no fewer."""

from levelset_local.replicasets.plan import Plan, Trouble, make_status, plan_pods
from levelset_local.replicasets.ranking import rank_for_deletion
from levelset_local.replicasets.reconcile import replicasets_controller

__all__ = ["Plan", "Trouble", "make_status", "plan_pods", "rank_for_deletion", "replicasets_controller"]
