"""Services: where they listen, whom they lead to, and what they say of it."""

from levelset_dcp.services.listeners import Listeners, PretendListeners, SocketListeners
from levelset_dcp.services.reconcile import services_controller

__all__ = ["Listeners", "PretendListeners", "SocketListeners", "services_controller"]
