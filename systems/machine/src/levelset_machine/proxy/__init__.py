"""TCP and UDP proxies to endpoints that change."""

from levelset_machine.proxy.endpoints import CannotListen, Choose, Endpoint, ProxyStats
from levelset_machine.proxy.tcp import TcpProxy
from levelset_machine.proxy.udp import UdpProxy

__all__ = ["CannotListen", "Choose", "Endpoint", "ProxyStats", "TcpProxy", "UdpProxy"]
