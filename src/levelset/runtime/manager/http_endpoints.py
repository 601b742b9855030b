"""The HTTP endpoints of a manager: health and metrics, each on its own address or both on one."""

from collections.abc import Mapping
from typing import Final

from levelset.errors import ConfigError
from levelset.http import Limits, Request, Response, Server
from levelset.runtime.manager.health import Health
from levelset.runtime.manager.prometheus_text import CONTENT_TYPE, Registry

__all__ = ["Address", "HttpEndpoints", "parse_address"]

Address = tuple[str, int] | int
"""A host and a port, or a port on the loopback interface; port 0 is any free one."""

_LOOPBACK: Final = "127.0.0.1"
# No credentials are needed, so nothing that is sent is kept in memory.
_LIMITS: Final = Limits(connections=1000, body_bytes=0)
_SHUTDOWN: Final = 1.0


class HttpEndpoints:
    """Serves health and metrics from `start` to `stop`; `urls` are their addresses by name.

    One address for both is one server. Each server serves all endpoints.
    """

    def __init__(self, health: Health, registry: Registry, addresses: Mapping[str, Address | None]) -> None:
        self._health = health
        self._registry = registry
        self._servers: dict[tuple[str, int], Server] = {}
        self._addresses: dict[str, tuple[str, int]] = {}
        for name, given in addresses.items():
            if given is not None:
                host, port = self._addresses[name] = parse_address(given)
                self._servers.setdefault((host, port), Server(self.handle, host=host, port=port, limits=_LIMITS))

    @property
    def urls(self) -> Mapping[str, str]:
        """The URLs by name: `health` and `metrics`."""
        return {name: self._servers[address].url for name, address in self._addresses.items()}

    async def start(self) -> None:
        """Starts all servers; ConfigError if an address is not available, and then none is left running."""
        try:
            for server in self._servers.values():
                await server.start()
        except BaseException:
            await self.stop()
            raise

    async def stop(self) -> None:
        """Stops all servers."""
        for server in self._servers.values():
            await server.stop(within=_SHUTDOWN)

    async def handle(self, request: Request) -> Response:
        """Handles `/metrics` and the health endpoints."""
        if request.segments != ("metrics",):
            return await self._health.handle(request)
        return Response(200, (("Content-Type", CONTENT_TYPE),), self._registry.render().encode())


def parse_address(given: Address) -> tuple[str, int]:
    """The host and the port of an address; ConfigError if it is not one."""
    match given:
        case int(port) if not isinstance(given, bool):
            return (_LOOPBACK, port)
        case (str(host), int(port)):
            return (host, port)
        case _:
            raise ConfigError(f"{given!r} is not an address: pass a port, or a host and a port as in ('0.0.0.0', 8081)")
