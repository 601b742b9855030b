"""PodDisruptionBudgets: how many of their Pods may be evicted at a time."""

from levelset_local.disruption_budgets.controller import disruption_budgets_controller
from levelset_local.disruption_budgets.plan import BudgetPlan, make_plan

__all__ = ["BudgetPlan", "disruption_budgets_controller", "make_plan"]
