"""Containers of an engine on this machine: made, watched, stopped and removed."""

from levelset_dcp.containers.logs import container_logs
from levelset_dcp.containers.reconcile import containers_controller
from levelset_dcp.containers.world import Containers

__all__ = ["Containers", "container_logs", "containers_controller"]
