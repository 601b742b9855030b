"""HorizontalPodAutoscalers: the number of Pods follows the processor time of their processes."""

from levelset_local.autoscalers.controller import autoscalers_controller
from levelset_local.autoscalers.plan import Plan, make_plan

__all__ = ["Plan", "autoscalers_controller", "make_plan"]
