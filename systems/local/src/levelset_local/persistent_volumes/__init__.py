"""Persistent volumes: claims are bound to folders of this machine, which outlive the Pods that use them."""

from levelset_local.persistent_volumes.controller import claims_controller, volumes_controller
from levelset_local.persistent_volumes.plan import ClaimPlan, new_volume, plan_claim, volume_phase

__all__ = ["ClaimPlan", "claims_controller", "new_volume", "plan_claim", "volume_phase", "volumes_controller"]
