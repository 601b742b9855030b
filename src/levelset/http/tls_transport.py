"""TLS between a connection and its socket: a transport to the one above, a protocol to the one below.

asyncio has the same for any protocol, either side and any pattern of use. This one serves only our own connections and
does so with a third of the calls; over TLS those were a fifth of what a request costs.
"""

import asyncio
import ssl
from collections.abc import Callable
from typing import Any, cast

__all__ = ["SecureTransport"]

_WAITING = (ssl.SSLWantReadError, ssl.SSLWantWriteError)


class SecureTransport(asyncio.Transport, asyncio.BufferedProtocol):
    """One connection with TLS, on the side of the server.

    `make` gives the protocol above once hands are shaken. A client that has not done that `within` seconds is cut, and
    so is one that does not answer a proper end within `linger` seconds.

    Sealed bytes come into the first of the `buffers` and are opened into the second, out of which the protocol above
    reads. All connections of a loop share both: what is in them is used up before anybody reads again.
    """

    __slots__ = (
        "_above", "_below", "_context", "_incoming", "_is_closing", "_is_open", "_is_paused", "_linger", "_make",
        "_opened", "_outgoing", "_room", "_sealed", "_ssl", "_timer", "_within",
    )  # fmt: skip

    _below: asyncio.Transport
    _above: asyncio.BufferedProtocol

    def __init__(
        self,
        context: ssl.SSLContext,
        make: Callable[[], asyncio.BufferedProtocol],
        buffers: tuple[memoryview, memoryview],
        *,
        within: float,
        linger: float,
    ) -> None:
        super().__init__()
        self._context = context
        self._make = make
        # Where opened bytes go, as `SSLObject.read` has it in its types: it takes any buffer.
        self._sealed, self._opened = buffers[0], cast("bytearray", buffers[1])
        self._room = len(self._opened)
        self._within, self._linger = within, linger
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._ssl = context.wrap_bio(self._incoming, self._outgoing, server_side=True)
        self._is_open = False
        self._is_paused = False
        self._is_closing = False
        self._timer: asyncio.TimerHandle | None = None

    # --- what the transport below calls ---------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """A client connected."""
        self._below = cast("asyncio.Transport", transport)
        self._timer = asyncio.get_running_loop().call_later(self._within, self._below.abort)

    def get_buffer(self, sizehint: int) -> memoryview:  # noqa: ARG002 - the signature is asyncio's
        """Where sealed bytes go."""
        return self._sealed

    def buffer_updated(self, nbytes: int) -> None:
        """Sealed bytes came in."""
        self._incoming.write(self._sealed[:nbytes])
        if self._is_closing:
            self._shake_off()
        elif self._is_open:
            self._read()
        else:
            self._shake_hands()

    def eof_received(self) -> bool:
        """The client will say no more; over TLS that ends both directions."""
        if self._is_open and not self._is_closing:
            self._above.eof_received()
        return False

    def pause_writing(self) -> None:
        """The client does not keep up."""
        if self._is_open:
            self._above.pause_writing()

    def resume_writing(self) -> None:
        """The client has caught up."""
        if self._is_open:
            self._above.resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        """The connection is closed, by whomever."""
        self._is_closing = True
        if self._timer is not None:
            self._timer.cancel()
        if self._is_open:
            self._above.connection_lost(exc)

    # --- what the protocol above calls ----------------------------------------------------------------------------

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Seals the data and sends it."""
        if self._is_closing:
            return
        try:
            self._ssl.write(data)
        except ssl.SSLError:
            # A server that never renegotiates has no reason to wait in here: what is left is that TLS has failed.
            self.abort()
            return
        self._below.write(self._outgoing.read())

    def close(self) -> None:
        """Says goodbye after all that was written, and waits a little for the client to do so too."""
        if self._is_closing:
            return
        self._is_closing = True
        if self._is_paused:
            self._below.resume_reading()
        self._watch_end()
        self._shake_off()

    def abort(self) -> None:
        """Cuts the connection."""
        self._is_closing = True
        self._below.abort()

    def is_closing(self) -> bool:
        """Whether the end has begun."""
        return self._is_closing or self._below.is_closing()

    def pause_reading(self) -> None:
        """Feeds no more until told to."""
        self._is_paused = True
        self._below.pause_reading()

    def resume_reading(self) -> None:
        """Feeds again, first what was opened already."""
        self._is_paused = False
        self._below.resume_reading()
        if self._incoming.pending or self._ssl.pending():
            asyncio.get_running_loop().call_soon(self._read_on)

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """As the transport below, in sealed bytes."""
        self._below.set_write_buffer_limits(high, low)

    def get_write_buffer_size(self) -> int:
        """The number of sealed bytes that wait for the client."""
        return self._below.get_write_buffer_size()

    def can_write_eof(self) -> bool:
        """TLS has no half-open state."""
        return False

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        """As every transport, and what asyncio tells of TLS."""
        if name == "peercert":
            return self._ssl.getpeercert() or default
        if name == "sslcontext":
            return self._context
        return self._below.get_extra_info(name, default)

    # --- the machine ----------------------------------------------------------------------------------------------

    def _shake_hands(self) -> None:
        try:
            self._ssl.do_handshake()
        except _WAITING:
            self._flush()
            return
        except (ssl.SSLError, ssl.CertificateError):
            self._fail()
            return
        self._flush()
        assert self._timer is not None
        self._timer.cancel()
        self._timer = None
        self._is_open = True
        self._above = self._make()
        self._above.connection_made(self)
        self._read_on()

    def _read_on(self) -> None:
        if not self._is_paused and not self._is_closing:
            self._read()

    def _read(self) -> None:
        incoming, above, tls = self._incoming, self._above, self._ssl
        size: Any = 1
        try:
            # Asking for more than there is would cost an exception with every request.
            while incoming.pending or tls.pending():
                size = tls.read(self._room, self._opened)  # the number of bytes, 0 if the client has said goodbye
                if not size:
                    break
                above.buffer_updated(size)
                if self._is_paused or self._is_closing:
                    break
        except _WAITING:
            pass
        except ssl.SSLError:
            self._fail()
            return
        if self._outgoing.pending:
            self._flush()
        if not size and not self._is_closing:
            above.eof_received()
            self.close()

    def _shake_off(self) -> None:
        """Sends our goodbye if it is not sent yet, and closes if the client's is there."""
        try:
            # What the client still says is of no interest, but its goodbye comes behind it.
            while self._incoming.pending and self._ssl.read(self._room, self._opened):
                pass
        except ssl.SSLError:
            pass
        try:
            self._ssl.unwrap()
        except _WAITING:
            self._flush()
            return
        except ssl.SSLError:
            pass
        self._flush()
        self._below.close()

    def _watch_end(self) -> None:
        """Cuts a client that does not answer the end; one that still takes its bytes is the protocol's affair."""
        self._timer = asyncio.get_running_loop().call_later(self._linger, self._end)

    def _end(self) -> None:
        if self._below.get_write_buffer_size():
            self._watch_end()
        else:
            self._below.abort()

    def _fail(self) -> None:
        """TLS has failed: tells the client why, as far as TLS does, and closes."""
        self._is_closing = True
        self._flush()
        self._below.close()

    def _flush(self) -> None:
        if self._outgoing.pending:
            self._below.write(self._outgoing.read())
