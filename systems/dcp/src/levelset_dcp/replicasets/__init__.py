"""ExecutableReplicaSets: as many programs of a kind as somebody wants."""

from levelset_dcp.replicasets.reconcile import replicasets_controller

__all__ = ["replicasets_controller"]
