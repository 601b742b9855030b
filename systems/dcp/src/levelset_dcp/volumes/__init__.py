"""Volumes that containers keep data in."""

from levelset_dcp.volumes.reconcile import volumes_controller

__all__ = ["volumes_controller"]
