"""Server-side TLS between a connection and its socket: a transport to the protocol above, a protocol to the socket.

asyncio has a general one, for any protocol and either side. This one serves only the connections of `connection.py`,
with a third of the calls, which were a fifth of the cost of a request over TLS. The TLS itself is OpenSSL's.
"""

import asyncio
import ssl
from collections.abc import Callable
from typing import Any, cast

__all__ = ["TlsTransport"]

_WANTS_IO = (ssl.SSLWantReadError, ssl.SSLWantWriteError)


class TlsTransport(asyncio.Transport, asyncio.BufferedProtocol):
    """One TLS connection, on the server side.

    `make` creates the protocol above after the handshake. A client that does not complete the handshake `within` so
    many seconds is aborted, and so is one that does not respond to close_notify within `linger` seconds.

    Encrypted bytes are received into the first of the `buffers` and decrypted into the second, from which the protocol
    above reads. All connections of a loop share both: their content is consumed before the next read.
    """

    __slots__ = (
        "_above",
        "_below",
        "_capacity",
        "_context",
        "_decrypted",
        "_encrypted",
        "_incoming",
        "_is_closing",
        "_is_open",
        "_is_paused",
        "_linger",
        "_make",
        "_outgoing",
        "_ssl",
        "_timer",
        "_within",
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
        # `SSLObject.read` is typed for bytearray, but takes any buffer.
        self._encrypted, self._decrypted = buffers[0], cast("bytearray", buffers[1])
        self._capacity = len(self._decrypted)
        self._within, self._linger = within, linger
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._ssl = context.wrap_bio(self._incoming, self._outgoing, server_side=True)
        self._is_open = False
        self._is_paused = False
        self._is_closing = False
        self._timer: asyncio.TimerHandle | None = None

    # --- what the transport below calls ---------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """A client has connected."""
        self._below = cast("asyncio.Transport", transport)
        self._timer = asyncio.get_running_loop().call_later(self._within, self._below.abort)

    def get_buffer(self, sizehint: int) -> memoryview:  # noqa: ARG002 - the signature is asyncio's
        """The buffer for encrypted bytes."""
        return self._encrypted

    def buffer_updated(self, nbytes: int) -> None:
        """Encrypted bytes have arrived."""
        self._incoming.write(self._encrypted[:nbytes])
        if self._is_closing:
            self._shut_down()
        elif self._is_open:
            self._read()
        else:
            self._handshake()

    def eof_received(self) -> bool:
        """The client has closed its side; with TLS that ends both directions."""
        if self._is_open and not self._is_closing:
            self._above.eof_received()
        return False

    def pause_writing(self) -> None:
        """The client reads too slowly."""
        if self._is_open:
            self._above.pause_writing()

    def resume_writing(self) -> None:
        """The client has caught up."""
        if self._is_open:
            self._above.resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        """The connection is closed, by either side."""
        self._is_closing = True
        if self._timer is not None:
            self._timer.cancel()
        if self._is_open:
            self._above.connection_lost(exc)

    # --- what the protocol above calls ----------------------------------------------------------------------------

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Encrypts the data and sends it."""
        if self._is_closing:
            return
        try:
            self._ssl.write(data)
        except ssl.SSLError:
            # A server that never renegotiates never has to wait here: TLS has failed.
            self.abort()
            return
        self._below.write(self._outgoing.read())

    def close(self) -> None:
        """Sends close_notify after all that was written, and waits up to `linger` seconds for that of the client."""
        if self._is_closing:
            return
        self._is_closing = True
        if self._is_paused:
            self._below.resume_reading()
        self._start_linger_timer()
        self._shut_down()

    def abort(self) -> None:
        """Aborts the connection."""
        self._is_closing = True
        self._below.abort()

    def is_closing(self) -> bool:
        """Whether closing has begun."""
        return self._is_closing or self._below.is_closing()

    def pause_reading(self) -> None:
        """Stops passing data to the protocol above."""
        self._is_paused = True
        self._below.pause_reading()

    def resume_reading(self) -> None:
        """Passes data on again, first what was received already."""
        self._is_paused = False
        self._below.resume_reading()
        if self._incoming.pending or self._ssl.pending():
            asyncio.get_running_loop().call_soon(self._read_unless_paused)

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """The limits of the transport below, in encrypted bytes."""
        self._below.set_write_buffer_limits(high, low)

    def get_write_buffer_size(self) -> int:
        """The number of encrypted bytes that are not sent yet."""
        return self._below.get_write_buffer_size()

    def can_write_eof(self) -> bool:
        """TLS has no half-open state."""
        return False

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        """The extra info of the transport below, and the TLS entries that asyncio has."""
        if name == "peercert":
            return self._ssl.getpeercert() or default
        if name == "sslcontext":
            return self._context
        return self._below.get_extra_info(name, default)

    # --- TLS ------------------------------------------------------------------------------------------------------

    def _handshake(self) -> None:
        try:
            self._ssl.do_handshake()
        except _WANTS_IO:
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
        self._read_unless_paused()

    def _read_unless_paused(self) -> None:
        if not self._is_paused and not self._is_closing:
            self._read()

    def _read(self) -> None:
        incoming, above, tls = self._incoming, self._above, self._ssl
        size: Any = 1
        try:
            # Reading more than there is would cost an exception per request.
            while incoming.pending or tls.pending():
                size = tls.read(self._capacity, self._decrypted)  # bytes read, 0 after the client's close_notify
                if not size:
                    break
                above.buffer_updated(size)
                if self._is_paused or self._is_closing:
                    break
        except _WANTS_IO:
            pass
        except ssl.SSLError:
            self._fail()
            return
        if self._outgoing.pending:
            self._flush()
        if not size and not self._is_closing:
            above.eof_received()
            self.close()

    def _shut_down(self) -> None:
        """Sends our close_notify if it was not sent yet, and closes if the client's has arrived."""
        try:
            # Discards what the client still sends: its close_notify is behind it.
            while self._incoming.pending and self._ssl.read(self._capacity, self._decrypted):
                pass
        except ssl.SSLError:
            pass
        try:
            self._ssl.unwrap()
        except _WANTS_IO:
            self._flush()
            return
        except ssl.SSLError:
            pass
        self._flush()
        self._below.close()

    def _start_linger_timer(self) -> None:
        """Starts the `linger` timer, again while bytes are unsent: the protocol has a timeout for slow clients."""
        self._timer = asyncio.get_running_loop().call_later(self._linger, self._linger_expired)

    def _linger_expired(self) -> None:
        if self._below.get_write_buffer_size():
            self._start_linger_timer()
        else:
            self._below.abort()

    def _fail(self) -> None:
        """TLS has failed: sends the alert, and closes."""
        self._is_closing = True
        self._flush()
        self._below.close()

    def _flush(self) -> None:
        if self._outgoing.pending:
            self._below.write(self._outgoing.read())
