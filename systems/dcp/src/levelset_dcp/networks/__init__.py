"""Networks that containers are in, and who is in them."""

from levelset_dcp.networks.reconcile import networks_controller

__all__ = ["networks_controller"]
