"""The controller of Services and the proxies behind their addresses."""

from levelset_dcp.services.listeners import FakeListeners, Listeners, SocketListeners
from levelset_dcp.services.reconciler import services_controller

__all__ = ["FakeListeners", "Listeners", "SocketListeners", "services_controller"]
