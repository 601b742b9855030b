"""Jobs: Pods that run until enough of them have succeeded, each counted once."""

from levelset_local.jobs.counting import FINALIZER, Tally, tally
from levelset_local.jobs.plan import Plan, make_plan
from levelset_local.jobs.reconcile import jobs_controller

__all__ = ["FINALIZER", "Plan", "Tally", "jobs_controller", "make_plan", "tally"]
