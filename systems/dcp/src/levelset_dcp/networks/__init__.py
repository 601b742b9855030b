"""The controller of ContainerNetworks and of the containers that are attached to them."""

from levelset_dcp.networks.reconciler import networks_controller

__all__ = ["networks_controller"]
