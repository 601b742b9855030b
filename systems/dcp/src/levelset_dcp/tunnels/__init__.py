"""The controller of tunnel proxies, through which containers of a network reach services of this machine."""

from levelset_dcp.tunnels.reconciler import tunnels_controller
from levelset_dcp.tunnels.relay import FakeRelay, Relay, SocketRelay

__all__ = ["FakeRelay", "Relay", "SocketRelay", "tunnels_controller"]
