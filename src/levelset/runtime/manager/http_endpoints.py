"""The pages that a manager serves: health and metrics, each on an address of its own, or both on one."""

from collections.abc import Mapping
from typing import Final

from levelset.errors import ConfigError
from levelset.http import Request, Response, Server
from levelset.runtime.manager.health import Health
from levelset.runtime.manager.prometheus_text import CONTENT_TYPE, Registry

__all__ = ["Address", "Pages", "address_of"]

Address = tuple[str, int] | int
"""A host and a port, or a port of the loopback interface; port 0 is any free one."""

_LOOPBACK: Final = "127.0.0.1"
_SHUTDOWN: Final = 1.0


class Pages:
    """The servers of a manager, from `start` to `stop`; `urls` says where they are, by what they show.

    Whoever gives one address for both gets one server. All of them answer all pages: nothing is gained by refusing.
    """

    def __init__(self, health: Health, registry: Registry, addresses: Mapping[str, Address | None]) -> None:
        self._health = health
        self._registry = registry
        self._servers: dict[tuple[str, int], Server] = {}
        self._where: dict[str, tuple[str, int]] = {}
        for name, given in addresses.items():
            if given is not None:
                host, port = self._where[name] = address_of(given)
                self._servers.setdefault((host, port), Server(self.handle, host=host, port=port))

    @property
    def urls(self) -> Mapping[str, str]:
        """Where to look for what."""
        return {name: self._servers[address].url for name, address in self._where.items()}

    async def start(self) -> None:
        """Begins to serve; ConfigError if an address cannot be had, and then nothing is left behind."""
        try:
            for server in self._servers.values():
                await server.start()
        except BaseException:
            await self.stop()
            raise

    async def stop(self) -> None:
        """Ends all servers."""
        for server in self._servers.values():
            await server.stop(within=_SHUTDOWN)

    async def handle(self, request: Request) -> Response:
        """Answers `/metrics` and the pages of health."""
        if request.segments != ("metrics",):
            return await self._health.handle(request)
        return Response(200, (("Content-Type", CONTENT_TYPE),), self._registry.render().encode())


def address_of(given: Address) -> tuple[str, int]:
    """The host and the port; ConfigError for what is no address."""
    match given:
        case int(port) if not isinstance(given, bool):
            return (_LOOPBACK, port)
        case (str(host), int(port)):
            return (host, port)
        case _:
            raise ConfigError(f"{given!r} is no address: give a port, or a host and a port as in ('0.0.0.0', 8081)")
