"""Sends bodies to addresses and gives what comes back: the least of an HTTP client, for a server that must ask.

There is no redirect that is followed, no proxy and no credential; the answer is bounded in size, and in time by whoever
calls. A connection is kept for a moment after its answer, for the next body that goes to the same place.

A connection that sends one request after the other and gives the answer to each: the wire under `posting`.

It speaks HTTP/1.1 and waits for the whole answer, which is bounded in size. Whatever happens that should not, nothing
more is sent over it.
"""

import asyncio
import re
import ssl
from collections import OrderedDict
from typing import Final, NamedTuple, cast

import httptools

from levelset.errors import Unreachable

__all__ = ["Destination", "Posted", "Poster", "Wire"]

_LARGEST_HEAD: Final = 64 * 1024
_FIRST_FINAL: Final = 200
_TIMEOUT: Final = re.compile(rb"timeout\s*=\s*(\d{1,6})")


class Posted(NamedTuple):
    """An answer, read to its end."""

    status: int
    body: bytes


class Wire(asyncio.Protocol):
    """One connection; whoever asks has it for himself until the answer is there."""

    def __init__(self) -> None:
        self._transport: asyncio.Transport | None = None
        self._answer: _Answer | None = None
        self._given: asyncio.Future[Posted] | None = None
        self._largest = 0
        self.can_ask = True
        """Whether another request may be sent: the last answer came to its end, and nobody hung up."""
        self.kept_for: float | None = None
        """For how many seconds the other end said that it keeps the connection, if it said so."""

    @classmethod
    async def connect(cls, address: str, port: int, *, tls: ssl.SSLContext, name: str) -> "Wire":
        """A new connection to somebody with a certificate for the name; raises Unreachable."""
        loop = asyncio.get_running_loop()
        try:
            _, wire = await loop.create_connection(cls, address, port, ssl=tls, server_hostname=name)
        except ssl.SSLCertVerificationError as error:
            raise Unreachable(f"its certificate is not trusted: {error.verify_message}", is_sent=False) from error
        except OSError as error:
            raise Unreachable(_reason(error), is_sent=False) from error
        return wire

    async def ask(self, request: bytes, *, largest: int) -> Posted:
        """Sends the request and waits for the answer; Unreachable if there is none, or one of too many bytes."""
        assert self._transport is not None  # it is connected
        assert self.can_ask
        self.can_ask, self._largest = False, largest
        self._answer = _Answer()
        self._given = asyncio.get_running_loop().create_future()
        try:
            self._transport.write(request)
            return await self._given
        finally:
            self._given = self._answer = None
            if not self.can_ask:
                self.abort()  # nothing more is to be said, and a peer that does not listen must not hold us up

    def abort(self) -> None:
        """Ends the connection now."""
        self.can_ask = False
        if self._transport is not None:
            self._transport.abort()

    # --- what the connection says ---------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Somebody is there."""
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        """Reads on in the answer."""
        answer = self._answer
        if answer is None or self._given is None or self._given.done():
            self.abort()  # nobody asked
            return
        problem = answer.feed(data, self._largest)
        if problem is not None:
            self._fail(Unreachable(problem))
        elif answer.is_complete:
            self._give(answer)

    def connection_lost(self, exc: Exception | None) -> None:
        """Ends what was asked, with an answer only if this is how it says that it is complete."""
        self.can_ask = False
        answer = self._answer
        if exc is None and answer is not None and answer.has_head and not answer.is_measured:
            self._give(answer)  # an answer without a length ends with the connection
        elif isinstance(exc, OSError):
            self._fail(Unreachable(_reason(exc)))
        else:
            self._fail(Unreachable("it hung up before its answer was complete"))

    def _give(self, answer: "_Answer") -> None:
        unsent = 0 if self._transport is None else self._transport.get_write_buffer_size()
        # One that answers before it has read the whole request may not read the rest of it either.
        self.can_ask = answer.is_last_word_said and not unsent
        self.kept_for = answer.kept_for
        if self._given is not None and not self._given.done():
            self._given.set_result(Posted(answer.status, bytes(answer.body)))

    def _fail(self, problem: Unreachable) -> None:
        self.can_ask = False
        if self._given is not None and not self._given.done():
            self._given.set_exception(problem)


class _Answer:
    """What the parser has seen of an answer."""

    def __init__(self) -> None:
        self.body = bytearray()
        self.status = 0
        self.kept_for: float | None = None
        self.has_head = self.is_complete = self.is_measured = self.is_last_word_said = False
        self._received = 0
        self._parser = httptools.HttpResponseParser(self)

    def feed(self, data: bytes, largest: int) -> str | None:
        """Reads on; gives what is wrong with it, if something is."""
        self._received += len(data)
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            return "it wants to speak something else than HTTP/1.1"
        except httptools.HttpParserError as error:
            if not self.is_complete:
                return f"what it answered is not HTTP: {error}"
            self.is_last_word_said = False  # the answer is good, and then there was something more
        if self._received > largest + _LARGEST_HEAD or len(self.body) > largest:
            return f"its answer is larger than {largest} bytes"
        if not self.has_head and self._received > _LARGEST_HEAD:
            return "its answer does not come to an end of its headers"
        return None

    # --- what the parser says -------------------------------------------------------------------------------------

    def on_message_begin(self) -> None:
        self.is_last_word_said = False

    def on_header(self, name: bytes, value: bytes) -> None:
        match name.lower():
            case b"content-length" | b"transfer-encoding":
                self.is_measured = True
            case b"keep-alive" if found := _TIMEOUT.search(value):
                self.kept_for = float(found[1])
            case _:
                pass

    def on_headers_complete(self) -> None:
        self.has_head = True
        if not self.is_complete:
            self.status = self._parser.get_status_code()

    def on_body(self, piece: bytes) -> None:
        if not self.is_complete:
            self.body += piece

    def on_message_complete(self) -> None:
        # Something in between, such as early hints, is no answer: that follows.
        if not self.is_complete:
            self.is_complete = self.has_head = self.status >= _FIRST_FINAL
            self.is_last_word_said = self.is_complete and self._parser.should_keep_alive()


def _reason(error: OSError) -> str:
    """Why there is no connection, in the words of the system, without its numbers."""
    text = error.strerror or str(error) or type(error).__name__
    return text[0].lower() + text[1:]


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
