"""The sending side of a connection: never more than one piece in the transport's own buffer."""

import asyncio
from collections import deque
from collections.abc import Callable

__all__ = ["Outlet"]

_PIECE = 256 * 1024


class Outlet:
    """Writes to a transport piece by piece, as fast as the client reads.

    A transport copies what the socket does not take at once, and some copy all of it again with every further write.
    So big data is handed over in pieces, and the next piece only when the one before has left.
    """

    __slots__ = ("_is_closing", "_is_paused", "_on_drained", "_rest", "_transport", "is_full")

    def __init__(self, transport: asyncio.Transport, on_drained: Callable[[], None]) -> None:
        self._transport = transport
        self._on_drained = on_drained
        self._rest: deque[memoryview] = deque()
        self._is_paused = False
        self._is_closing = False
        self.is_full = False

    def open(self) -> None:
        """Begins to listen to the transport, which may call `pause` at once."""
        # High 1, low 0: be told as soon as one byte has to wait, and again when the last of them has left.
        self._transport.set_write_buffer_limits(high=1, low=0)

    @property
    def size(self) -> int:
        """The number of bytes that wait for the client."""
        return sum(map(len, self._rest)) + self._transport.get_write_buffer_size()

    def write(self, data: bytes) -> None:
        """Sends `data` now or, in order, as soon as the client takes it; does nothing once closed."""
        # A transport that is closing still sends its own buffer, but must not be given more: on Python 3.12 and newer
        # it would wait for the socket with nobody to call, for ever and at full speed.
        transport = self._transport
        if self._is_closing or transport.is_closing():
            return
        if self._rest or len(data) > _PIECE:
            view = memoryview(data)
            self._rest.extend(view[start : start + _PIECE] for start in range(0, len(data), _PIECE))
            self._pump()
        else:
            transport.write(data)

    def pause(self) -> None:
        """The transport says that the client does not keep up."""
        self._is_paused = self.is_full = True

    def resume(self) -> None:
        """The transport says that everything has left."""
        self._is_paused = False
        self._pump()
        if not self.is_full:
            self._on_drained()

    def close(self) -> None:
        """Closes the connection after all that was written."""
        self._is_closing = True
        if not self._rest:
            self._transport.close()

    def abort(self) -> None:
        """Closes the connection now; what waits is lost."""
        self._is_closing = True
        self._rest.clear()
        self._transport.abort()

    def _pump(self) -> None:
        rest = self._rest
        if rest and self._transport.is_closing():
            rest.clear()
        while rest and not self._is_paused:
            self._transport.write(rest.popleft())
        self.is_full = self._is_paused or bool(rest)
        if self._is_closing and not rest:
            self._transport.close()
