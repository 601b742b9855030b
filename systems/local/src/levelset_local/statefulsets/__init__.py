"""StatefulSets: Pods with stable names and claims of their own, created, scaled and updated in order."""

from levelset_local.statefulsets.controller import statefulsets_controller
from levelset_local.statefulsets.plan import NewPod, Plan, make_plan

__all__ = ["NewPod", "Plan", "make_plan", "statefulsets_controller"]
