"""A watch over a WebSocket: every event, a line of JSON, goes out as one text frame."""

from collections.abc import Callable

from levelset.web import WebSocket

__all__ = ["FrameSink"]


class FrameSink:
    """Takes what a watch writes, as any sink does, and sends it line by line."""

    __slots__ = ("_socket",)

    def __init__(self, socket: WebSocket) -> None:
        self._socket = socket

    @property
    def is_closed(self) -> bool:
        """Whether the connection has ended."""
        return self._socket.sink.is_closed

    @property
    def is_backed_up(self) -> bool:
        """Whether the client does not keep up."""
        return self._socket.sink.is_backed_up

    @property
    def backlog(self) -> int:
        """The number of bytes that have not left yet."""
        return self._socket.sink.backlog

    def write(self, data: bytes, /) -> None:
        """Sends each line in a frame of its own."""
        for line in data.split(b"\n"):
            if line:
                self._socket.send_text(line)

    def close(self) -> None:
        """Says goodbye and ends the connection."""
        self._socket.close()

    def abort(self) -> None:
        """Cuts the connection."""
        self._socket.sink.abort()

    def when_closed(self, callback: Callable[[], None], /) -> None:
        """Has `callback` called once when the connection ends."""
        self._socket.sink.when_closed(callback)

    async def wait_drained(self) -> None:
        """Waits until all that was written has left, or the connection has ended."""
        await self._socket.sink.wait_drained()
