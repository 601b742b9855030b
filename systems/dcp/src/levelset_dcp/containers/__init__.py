"""The controller of Containers, which a container engine on this machine runs."""

from levelset_dcp.containers.host import ContainerHost
from levelset_dcp.containers.logs import container_logs
from levelset_dcp.containers.reconciler import containers_controller

__all__ = ["ContainerHost", "container_logs", "containers_controller"]
