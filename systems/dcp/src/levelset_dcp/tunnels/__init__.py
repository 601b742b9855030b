"""Tunnels by which containers of a network reach services of this machine."""

from levelset_dcp.tunnels.reconcile import tunnels_controller
from levelset_dcp.tunnels.relay import PretendRelay, Relay, SocketRelay

__all__ = ["PretendRelay", "Relay", "SocketRelay", "tunnels_controller"]
