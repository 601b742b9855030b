"""Executables: programs of this machine, from their start to their end."""

from levelset_dcp.executables.logs import executable_logs
from levelset_dcp.executables.reconcile import ExecutableKeeper, executables_controller
from levelset_dcp.executables.world import Executables

__all__ = ["ExecutableKeeper", "Executables", "executable_logs", "executables_controller"]
