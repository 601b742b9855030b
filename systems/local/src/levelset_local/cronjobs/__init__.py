"""CronJobs: Jobs at the times of a schedule, with time zones, concurrency policies and limits of the history."""

from levelset_local.cronjobs.controller import cronjobs_controller
from levelset_local.cronjobs.plan import Note, Plan, make_plan

__all__ = ["Note", "Plan", "cronjobs_controller", "make_plan"]
