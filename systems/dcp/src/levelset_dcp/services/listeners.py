"""The listeners of Services: sockets with proxies behind them, or a fake for tests."""

from collections.abc import Hashable, Iterable, Sequence
from typing import Protocol

from levelset_dcp.kinds.services import Protocol as Transport
from levelset_machine import CannotListen, TcpProxy, UdpProxy

__all__ = ["FakeListeners", "Listeners", "SocketListeners"]

Target = tuple[str, int]


class Listeners(Protocol):
    """Opens and closes the listeners of Services."""

    async def open(self, key: Hashable, addresses: Sequence[str], port: int, transport: Transport) -> int:
        """Listens with one port on the first address, and on the others if possible; raises CannotListen."""
        ...

    def set_targets(self, key: Hashable, targets: Iterable[Target]) -> None:
        """Forwards new connections to these targets."""
        ...

    async def close(self, key: Hashable) -> None:
        """Closes a listener."""
        ...


class SocketListeners:
    """Listeners on real sockets; call `close_all` in the end."""

    def __init__(self) -> None:
        self._open: dict[Hashable, TcpProxy | UdpProxy] = {}

    async def open(self, key: Hashable, addresses: Sequence[str], port: int, transport: Transport) -> int:
        """Listens with one port on the first address, and on the others if possible; raises CannotListen."""
        await self.close(key)
        proxy = TcpProxy() if transport == "TCP" else UdpProxy()
        try:
            found = await proxy.listen(addresses[0], port)
            for address in addresses[1:]:
                try:
                    await proxy.listen(address, found)
                except CannotListen:
                    continue  # e.g. no IPv6 on this machine; only the first address is required
        except BaseException:
            await proxy.close()
            raise
        self._open[key] = proxy
        return found

    def set_targets(self, key: Hashable, targets: Iterable[Target]) -> None:
        """Forwards new connections to these targets."""
        proxy, wanted = self._open[key], tuple(targets)
        if proxy.endpoints != wanted:
            proxy.endpoints = wanted

    async def close(self, key: Hashable) -> None:
        """Closes a listener."""
        proxy = self._open.pop(key, None)
        if proxy is not None:
            await proxy.close()

    async def close_all(self) -> None:
        """Closes all listeners."""
        for key in tuple(self._open):
            await self.close(key)


class FakeListeners:
    """Listeners for tests that only record ports and targets; `taken` ports fail, at most `fails` times."""

    def __init__(self, *, taken: Iterable[int] = (), fails: int | None = None) -> None:
        self._taken = set(taken)
        self._fails = fails
        self._next = 40_001
        self.tries = 0
        self.open_ports: dict[Hashable, int] = {}
        self.targets: dict[Hashable, tuple[Target, ...]] = {}

    async def open(self, key: Hashable, addresses: Sequence[str], port: int, transport: Transport) -> int:
        """Opens the port, or another one for 0; raises CannotListen if it is taken."""
        self.tries += 1
        is_failing = self._fails is None or self.tries <= self._fails
        if (port in self._taken and is_failing) or (port and port in self.open_ports.values()):
            raise CannotListen(addresses[0], port, f"another program listens there over {transport}")
        if not port:
            port, self._next = self._next, self._next + 1
        self.open_ports[key] = port
        return port

    def set_targets(self, key: Hashable, targets: Iterable[Target]) -> None:
        """Records the targets."""
        self.targets[key] = tuple(targets)

    async def close(self, key: Hashable) -> None:
        """Closes the port."""
        self.open_ports.pop(key, None)
        self.targets.pop(key, None)
