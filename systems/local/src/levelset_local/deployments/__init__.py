"""Deployments: a ReplicaSet for each template, and rollouts from one to the next."""

from levelset_local.deployments.controller import deployments_controller
from levelset_local.deployments.plan import Plan, make_plan
from levelset_local.deployments.revisions import HASH_LABEL, hash_template
from levelset_local.deployments.rollout import (
    ReplicaSetSize,
    RolloutLimits,
    rolling_sizes,
    rollout_limits,
    scale_proportionally,
)

__all__ = [
    "HASH_LABEL",
    "Plan",
    "ReplicaSetSize",
    "RolloutLimits",
    "deployments_controller",
    "hash_template",
    "make_plan",
    "rolling_sizes",
    "rollout_limits",
    "scale_proportionally",
]
