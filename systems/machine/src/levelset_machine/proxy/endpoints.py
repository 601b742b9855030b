"""The endpoints of a proxy: choosing one for a client, with session affinity, and statistics of the connections."""

import errno
from collections.abc import Callable, Collection, Sequence
from typing import Final

from msgspec import Struct

from levelset.errors import LevelsetError

__all__ = ["CannotListen", "Choose", "Endpoint", "EndpointPicker", "ProxyStats", "check_port"]

Endpoint = tuple[str, int]
"""A host and a port."""

Choose = Callable[[Sequence[Endpoint]], Endpoint]
"""Chooses one of at least one endpoint: `random.choice`, or that of a `Random` with a seed."""

_MAX_CLIENTS: Final = 10_000
"""How many clients are remembered for session affinity; the least recently connected is evicted first."""


class CannotListen(LevelsetError):
    """A proxy cannot listen on an address and port; `reason` says why, and what can be done."""

    def __init__(self, address: str, port: int, reason: str) -> None:
        super().__init__(f"cannot listen on {address}:{port}: {reason}")
        self.address = address
        self.port = port
        self.reason = reason

    @classmethod
    def of(cls, address: str, port: int, error: Exception) -> "CannotListen":
        """The error for what binding a socket has raised."""
        return cls(address, port, _reason(error))


class ProxyStats(Struct, frozen=True):
    """Counts of the connections of a proxy; over UDP, of the clients whose packets it forwards.

    `open` connections exist now, of which `parked` wait for an endpoint. Of the `opened` ones since the start, some
    were `dropped` because too many were waiting, and some have `failed` because no endpoint answered.
    """

    open: int = 0
    parked: int = 0
    opened: int = 0
    dropped: int = 0
    failed: int = 0


class EndpointPicker:
    """Picks endpoints; with `sticky`, a client gets the endpoint that it had within so many seconds."""

    def __init__(self, choose: Choose, *, sticky: float | None = None) -> None:
        self.sticky = sticky
        self._choose = choose
        self._used: dict[str, tuple[Endpoint, float]] = {}

    def pick(
        self, endpoints: Sequence[Endpoint], client: str, *, now: float, tried: Collection[Endpoint] = ()
    ) -> Endpoint | None:
        """An endpoint that was not tried yet, or None if all were."""
        left = [one for one in endpoints if one not in tried]
        if not left:
            return None
        used = self._used.get(client)
        if self.sticky is not None and used is not None and used[0] in left and now - used[1] <= self.sticky:
            return used[0]
        return self._choose(left)

    def note(self, client: str, endpoint: Endpoint, *, now: float) -> None:
        """Remembers that a client is connected to an endpoint, if affinity is on."""
        if self.sticky is None:
            return
        self._used.pop(client, None)
        self._used[client] = endpoint, now
        if len(self._used) > _MAX_CLIENTS:
            del self._used[next(iter(self._used))]


def check_port(address: str, port: int) -> None:
    """CannotListen for a number that is not a port: uvloop would take the remainder, and listen elsewhere."""
    if not 0 <= port <= 65535:
        raise CannotListen(address, port, "the port is not between 0 and 65535")


def _reason(error: Exception) -> str:
    match getattr(error, "errno", None):
        case errno.EADDRINUSE:
            return "the address is already in use; stop the program that listens there, or use another port"
        case errno.EACCES:
            return "permission denied; use a port above 1023"
        case errno.EADDRNOTAVAIL:
            return "this machine does not have the address; use one of 127.0.0.0/8"
        case _:
            return str(error)
