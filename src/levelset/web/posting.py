"""Sends bodies to addresses and gives what comes back: the least of an HTTP client, for a server that must ask.

There is no redirect that is followed, no proxy and no credential; the answer is bounded in size, and in time by whoever
calls. A connection is kept for a moment after its answer, for the next body that goes to the same place.
"""

import asyncio
import ssl
from collections import OrderedDict
from typing import Final, NamedTuple

from levelset.web.wires import Posted, Wire

__all__ = ["Destination", "Poster"]

_IDLE: Final = 1.5
_MARGIN: Final = 1.0


class Destination(NamedTuple):
    """Where to send to: an address to connect to, and the names that are said there."""

    address: str
    port: int
    host: str
    """The Host header, with the port if it is not 443."""
    path: str
    """The path and the query."""
    name: str
    """Who the certificate must be for."""


_Place = tuple[asyncio.AbstractEventLoop, str, int, str, ssl.SSLContext]


class Poster:
    """Posts JSON, over connections that it keeps while they are idle.

    No request is ever sent twice, as the first may have taken effect. So a connection must not be one that the other
    end is about to close, and is kept for less time than any usual server keeps it: `idle` seconds, or less if the
    other end says so. It is used again only for the same address, name and trust. At most `most` are kept, and
    `most_each` for one place.
    """

    def __init__(self, *, idle: float = _IDLE, most: int = 64, most_each: int = 16) -> None:
        self._idle = idle
        self._most = most
        self._most_each = most_each
        self._kept: OrderedDict[Wire, tuple[_Place, asyncio.TimerHandle]] = OrderedDict()
        self._era = 0

    @property
    def kept(self) -> int:
        """How many connections wait for the next request, and can still be used."""
        return sum(wire.can_ask for wire in self._kept)

    async def post(self, to: Destination, body: bytes, *, tls: ssl.SSLContext, largest: int) -> Posted:
        """Sends JSON and waits for the answer; Unreachable if there is none, or one of more than `largest` bytes."""
        place: _Place = (asyncio.get_running_loop(), to.address, to.port, to.name, tls)
        era = self._era
        wire = self._take(place) or await Wire.connect(to.address, to.port, tls=tls, name=to.name)
        posted = await wire.ask(_head(to, len(body)) + body, largest=largest)
        self._keep(place, wire, is_old=era != self._era)
        return posted

    def close(self) -> None:
        """Ends the connections that are idle; those in use end with their answers."""
        self._era += 1
        while self._kept:
            self._drop(next(iter(self._kept)))

    def _take(self, place: _Place) -> Wire | None:
        """A connection to the place that can still be used: the one that was used last, so that the others go."""
        for wire in [one for one, (other, _) in reversed(self._kept.items()) if other == place]:
            _, timer = self._kept.pop(wire)
            timer.cancel()
            if wire.can_ask:
                return wire
            wire.abort()
        return None

    def _keep(self, place: _Place, wire: Wire, *, is_old: bool) -> None:
        seconds = self._idle if wire.kept_for is None else min(self._idle, wire.kept_for - _MARGIN)
        if not wire.can_ask:
            return
        if is_old or seconds <= 0 or self._most < 1:
            wire.abort()
            return
        self._kept[wire] = place, place[0].call_later(seconds, self._drop, wire)
        same = [one for one, (other, _) in self._kept.items() if other == place]
        if len(same) > self._most_each:
            self._drop(same[0])
        elif len(self._kept) > self._most:
            self._drop(next(iter(self._kept)))

    def _drop(self, wire: Wire) -> None:
        place, timer = self._kept.pop(wire)
        timer.cancel()
        if not place[0].is_closed():  # a loop that is gone took its connections along
            wire.abort()


def _head(to: Destination, size: int) -> bytes:
    lines = [
        f"POST {to.path} HTTP/1.1",
        f"Host: {to.host}",
        "Accept: application/json",
        "Content-Type: application/json",
        f"Content-Length: {size}",
        "User-Agent: levelset",
    ]
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")
