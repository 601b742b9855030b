"""One connection through a proxy: what a client sends goes to the other side, and back, no faster than it is taken.

The end of what one side says is passed on as that: the other may still answer. What a client sends before there is
another side is held, up to a limit; then it is not read any further, and its system makes it wait.
"""

import asyncio
from collections.abc import Callable
from typing import Final, cast

__all__ = ["HELD_BYTES", "Link", "Side"]

HELD_BYTES: Final = 1024 * 1024
"""How much of what a client sends is held at most while there is nobody to pass it on to."""

_READ: Final = 256 * 1024
"""How much asyncio reads at once: reading is stopped while there is still room for that."""


class Link:
    """A client's connection, and the one to an endpoint once there is one.

    `on_came` is called when the client's is there, and `on_end` once, when everything is closed.
    """

    __slots__ = ("_end_held", "_held", "_size", "client", "is_over", "on_came", "on_end", "server", "task")

    def __init__(self, on_came: "Callable[[Link], None]", on_end: "Callable[[Link], None]") -> None:
        self.on_came = on_came
        self.on_end = on_end
        self.client = Side(self)
        self.server: Side | None = None
        self.task: asyncio.Task[None] | None = None
        """Looks for the other side."""
        self.is_over = False
        self._held: list[bytes] = []
        self._size = 0
        self._end_held = False

    def side(self) -> "Side":
        """The protocol for a connection to an endpoint."""
        return Side(self)

    @property
    def host(self) -> str:
        """Where the client is."""
        name = self.client.transport.get_extra_info("peername")
        return str(name[0]) if name else ""

    def hold(self, data: bytes) -> None:
        """Keeps what the client has sent."""
        self._held.append(data)
        self._size += len(data)
        if self._size > HELD_BYTES - _READ:
            self.client.transport.pause_reading()

    def hold_end(self) -> None:
        """Keeps in mind that the client has nothing more to say."""
        self._end_held = True

    def join(self, server: "Side") -> None:
        """Connects both sides, and passes on what was held."""
        if self.is_over or self.server is not None:
            server.transport.abort()
            return
        self.server = server
        self.client.other, server.other = server, self.client
        held, self._held = self._held, []
        for data in held:
            server.transport.write(data)
        if self._end_held:
            server.transport.write_eof()
        if not server.is_full:
            self.client.transport.resume_reading()

    def lost(self) -> None:
        """One side is closed."""
        if not self.is_over and self.client.is_lost and (self.server is None or self.server.is_lost):
            self.is_over = True
            self._held.clear()
            self.on_end(self)

    def abort(self) -> None:
        """Closes both sides at once."""
        for side in (self.client, self.server):
            if side is not None:
                side.transport.abort()


class Side(asyncio.Protocol):
    """One of the two connections."""

    __slots__ = ("has_ended", "is_full", "is_lost", "link", "other", "transport")

    transport: asyncio.Transport

    def __init__(self, link: Link) -> None:
        self.link = link
        self.other: Side | None = None
        self.has_ended = False
        self.is_full = False
        self.is_lost = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Tells the link that the client is there, or that the other side is."""
        self.transport = cast("asyncio.Transport", transport)
        self.transport.set_write_buffer_limits(high=_READ)
        if self is self.link.client:
            self.link.on_came(self.link)
        else:
            self.link.join(self)

    def data_received(self, data: bytes) -> None:
        """Passes on what came."""
        if self.other is None:
            self.link.hold(data)
        else:
            self.other.transport.write(data)

    def eof_received(self) -> bool:
        """Passes the end on; the connection stays open for the answer, and closes when both have ended."""
        self.has_ended = True
        other = self.other
        if other is None:
            self.link.hold_end()
            return True
        if other.has_ended:
            other.transport.close()
            return False
        if not other.transport.is_closing():
            other.transport.write_eof()
        return True

    def pause_writing(self) -> None:
        """Has the other side read no more until what it sent before is gone."""
        self.is_full = True
        if self.other is not None:
            self.other.transport.pause_reading()

    def resume_writing(self) -> None:
        """Has the other side read again."""
        self.is_full = False
        if self.other is not None:
            self.other.transport.resume_reading()

    def connection_lost(self, exc: Exception | None) -> None:
        """Closes the other side after what was sent to it; at once if this one has broken."""
        self.is_lost = True
        other = self.other
        if other is not None and not other.is_lost:
            if exc is None:
                other.transport.close()
            else:
                other.transport.abort()
        self.link.lost()
