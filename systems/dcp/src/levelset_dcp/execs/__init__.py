"""Commands that are run inside of containers."""

from levelset_dcp.execs.logs import exec_logs
from levelset_dcp.execs.reconcile import container_execs_controller

__all__ = ["container_execs_controller", "exec_logs"]
