"""DaemonSets: a Pod on every node that should have one, of which this machine is the only one."""

from levelset_local.daemonsets.controller import daemonsets_controller
from levelset_local.daemonsets.plan import Plan, make_plan

__all__ = ["Plan", "daemonsets_controller", "make_plan"]
