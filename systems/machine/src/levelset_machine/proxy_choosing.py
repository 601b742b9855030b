"""Which of several endpoints a proxy turns to: any of them, or the one that a client has had before."""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Final

from levelset.errors import LevelsetError

__all__ = ["CannotListen", "Choose", "Chooser", "Endpoint", "ProxyStats"]

Endpoint = tuple[str, int]
"""A host and a port."""

Choose = Callable[[Sequence[Endpoint]], Endpoint]
"""Chooses one of at least one endpoint: `random.choice`, or that of a `Random` with a seed."""

_REMEMBERED: Final = 10_000
"""How many clients are remembered; whoever was away for longest is forgotten first."""


class CannotListen(LevelsetError):
    """An address and port on which a proxy cannot listen; the reason says why, and what can be done."""

    def __init__(self, address: str, port: int, reason: str) -> None:
        super().__init__(f"cannot listen on {address}:{port}: {reason}")
        self.address = address
        self.port = port
        self.reason = reason


@dataclass(frozen=True, slots=True)
class ProxyStats:
    """What has become of the connections of a proxy; over UDP, of the clients whose packets it passes on.

    `open` are there now, `parked` of them wait for an endpoint; of all those that ever came, `opened` in number, some
    were `dropped` because too many waited, and some have `failed` because no endpoint answered.
    """

    open: int = 0
    parked: int = 0
    opened: int = 0
    dropped: int = 0
    failed: int = 0


class Chooser:
    """Chooses endpoints; with `sticky`, a client is led to the endpoint that it had within so many seconds."""

    def __init__(self, choose: Choose, *, sticky: float | None = None) -> None:
        self.sticky = sticky
        self._choose = choose
        self._had: dict[str, tuple[Endpoint, float]] = {}

    def pick(
        self, endpoints: Sequence[Endpoint], client: str, *, now: float, tried: Collection[Endpoint] = ()
    ) -> Endpoint | None:
        """An endpoint that was not tried yet, or None if all were."""
        left = [one for one in endpoints if one not in tried]
        if not left:
            return None
        had = self._had.get(client)
        if self.sticky is not None and had is not None and had[0] in left and now - had[1] <= self.sticky:
            return had[0]
        return self._choose(left)

    def note(self, client: str, endpoint: Endpoint, *, now: float) -> None:
        """Remembers that a client has reached an endpoint."""
        if self.sticky is None:
            return
        self._had.pop(client, None)
        self._had[client] = endpoint, now
        if len(self._had) > _REMEMBERED:
            del self._had[next(iter(self._had))]
