"""The controller of Executables, which run as processes on this machine."""

from levelset_dcp.executables.host import ExecutableHost
from levelset_dcp.executables.logs import executable_logs
from levelset_dcp.executables.reconciler import ExecutableReconciler, executables_controller

__all__ = ["ExecutableHost", "ExecutableReconciler", "executable_logs", "executables_controller"]
