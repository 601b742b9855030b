"""Jobs: run Pods until enough of them have succeeded, and count each Pod once."""

from levelset_local.jobs.controller import jobs_controller
from levelset_local.jobs.plan import Plan, make_plan
from levelset_local.jobs.pod_tracking import FINALIZER, PodCounts, count_pods

__all__ = ["FINALIZER", "Plan", "PodCounts", "count_pods", "jobs_controller", "make_plan"]
