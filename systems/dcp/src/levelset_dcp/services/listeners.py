"""The listening side of Services: sockets with proxies behind them, or, in tests, a table."""

from collections.abc import Hashable, Iterable, Sequence
from typing import Protocol

from levelset_dcp.kinds.services import Protocol as Transport
from levelset_machine import CannotListen, TcpProxy, UdpProxy

__all__ = ["Listeners", "PretendListeners", "SocketListeners"]

Target = tuple[str, int]


class Listeners(Protocol):
    """Opens and closes what Services listen on."""

    async def open(self, key: Hashable, addresses: Sequence[str], port: int, transport: Transport) -> int:
        """Listens on the first address, and on the others if they can be had, with one port; raises CannotListen."""
        ...

    def lead(self, key: Hashable, targets: Iterable[Target]) -> None:
        """Leads what comes to these from now on."""
        ...

    async def close(self, key: Hashable) -> None:
        """Listens no longer."""
        ...


class SocketListeners:
    """Listens on real sockets; `close_all` when it is over."""

    def __init__(self) -> None:
        self._open: dict[Hashable, TcpProxy | UdpProxy] = {}

    async def open(self, key: Hashable, addresses: Sequence[str], port: int, transport: Transport) -> int:
        """Listens on the first address, and on the others if they can be had, with one port; raises CannotListen."""
        await self.close(key)
        proxy = TcpProxy() if transport == "TCP" else UdpProxy()
        try:
            found = await proxy.listen(addresses[0], port)
            for address in addresses[1:]:
                try:
                    await proxy.listen(address, found)
                except CannotListen:
                    continue  # there may be no such protocol on this machine; the first address is what counts
        except BaseException:
            await proxy.close()
            raise
        self._open[key] = proxy
        return found

    def lead(self, key: Hashable, targets: Iterable[Target]) -> None:
        """Leads what comes to these from now on."""
        proxy, wanted = self._open[key], tuple(targets)
        if proxy.endpoints != wanted:
            proxy.endpoints = wanted

    async def close(self, key: Hashable) -> None:
        """Listens no longer."""
        proxy = self._open.pop(key, None)
        if proxy is not None:
            await proxy.close()

    async def close_all(self) -> None:
        """Ends everything."""
        for key in tuple(self._open):
            await self.close(key)


class PretendListeners:
    """Remembers what is listened on; `taken` ports are refused, `fails` times each if it says so."""

    def __init__(self, *, taken: Iterable[int] = (), fails: int | None = None) -> None:
        self._taken = set(taken)
        self._fails = fails
        self._next = 40_001
        self.tries = 0
        self.open_ports: dict[Hashable, int] = {}
        self.targets: dict[Hashable, tuple[Target, ...]] = {}

    async def open(self, key: Hashable, addresses: Sequence[str], port: int, transport: Transport) -> int:
        """Takes the port, or another one for 0; raises CannotListen if it is taken."""
        self.tries += 1
        is_failing = self._fails is None or self.tries <= self._fails
        if (port in self._taken and is_failing) or (port and port in self.open_ports.values()):
            raise CannotListen(addresses[0], port, f"another program listens there over {transport}")
        if not port:
            port, self._next = self._next, self._next + 1
        self.open_ports[key] = port
        return port

    def lead(self, key: Hashable, targets: Iterable[Target]) -> None:
        """Remembers the targets."""
        self.targets[key] = tuple(targets)

    async def close(self, key: Hashable) -> None:
        """Gives the port back."""
        self.open_ports.pop(key, None)
        self.targets.pop(key, None)
