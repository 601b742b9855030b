"""Deployments: a ReplicaSet for each template, and a step by step way from one to the next."""

from levelset_local.deployments.plan import Plan, make_plan
from levelset_local.deployments.reconcile import deployments_controller
from levelset_local.deployments.rolling import Limits, Size, limits_of, roll, spread
from levelset_local.deployments.templates import HASH_LABEL, hash_template

__all__ = [
    "HASH_LABEL",
    "Limits",
    "Plan",
    "Size",
    "deployments_controller",
    "hash_template",
    "limits_of",
    "make_plan",
    "roll",
    "spread",
]
