"""Managers of other processes: found by their records, their Leases and their Pods, and read every few seconds."""

from levelset.dashboard.managers.other_managers import OtherManagers

__all__ = ["OtherManagers"]
