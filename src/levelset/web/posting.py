"""Sends one body to one address and gives what comes back: the least of an HTTP client, for a server that must ask.

There is no pool, no redirect that is followed, no proxy and no credential; the answer is bounded in size, and in time
by whoever calls.
"""

import asyncio
import ssl
from typing import Final, NamedTuple

import httptools

from levelset.errors import Unreachable

__all__ = ["Destination", "Posted", "post"]

_LARGEST_HEAD: Final = 64 * 1024
_PIECE: Final = 64 * 1024
_FIRST_FINAL: Final = 200


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


class Posted(NamedTuple):
    """An answer, read to its end."""

    status: int
    body: bytes


async def post(to: Destination, body: bytes, *, tls: ssl.SSLContext, largest: int) -> Posted:
    """Sends JSON and waits for the answer; Unreachable if there is none, or one of more than `largest` bytes."""
    try:
        reader, writer = await asyncio.open_connection(to.address, to.port, ssl=tls, server_hostname=to.name)
    except ssl.SSLCertVerificationError as error:
        raise Unreachable(f"its certificate is not trusted: {error.verify_message}", is_sent=False) from error
    except OSError as error:
        raise Unreachable(_reason(error), is_sent=False) from error
    try:
        writer.write(_head(to, len(body)) + body)
        return await _read(reader, largest)
    except OSError as error:
        if isinstance(error, Unreachable):
            raise
        raise Unreachable(_reason(error)) from error
    finally:
        writer.transport.abort()  # nothing more is to be said, and a peer that does not listen must not hold us up


def _head(to: Destination, size: int) -> bytes:
    lines = [
        f"POST {to.path} HTTP/1.1",
        f"Host: {to.host}",
        "Accept: application/json",
        "Content-Type: application/json",
        f"Content-Length: {size}",
        "User-Agent: levelset",
        "Connection: close",
    ]
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")


async def _read(reader: asyncio.StreamReader, largest: int) -> Posted:
    answer = _Answer()
    answer.parser = parser = httptools.HttpResponseParser(answer)
    received = 0
    while not answer.is_complete:
        piece = await reader.read(_PIECE)
        if not piece:
            break
        received += len(piece)
        try:
            parser.feed_data(piece)
        except httptools.HttpParserError as error:
            raise Unreachable(f"what it answered is not HTTP: {error}") from error
        if received > largest + _LARGEST_HEAD or len(answer.body) > largest:
            raise Unreachable(f"its answer is larger than {largest} bytes")
        if not answer.has_head and received > _LARGEST_HEAD:
            raise Unreachable("its answer does not come to an end of its headers")
    if not answer.has_head or (not answer.is_complete and answer.is_measured):
        raise Unreachable("it hung up before its answer was complete")
    return Posted(parser.get_status_code(), bytes(answer.body))


class _Answer:
    """What the parser has seen of an answer."""

    parser: httptools.HttpResponseParser

    def __init__(self) -> None:
        self.body = bytearray()
        self.has_head = self.is_complete = self.is_measured = False

    def on_header(self, name: bytes, _value: bytes) -> None:
        self.is_measured = self.is_measured or name.lower() in (b"content-length", b"transfer-encoding")

    def on_headers_complete(self) -> None:
        self.has_head = True

    def on_body(self, piece: bytes) -> None:
        self.body += piece

    def on_message_complete(self) -> None:
        # Something in between, such as early hints: the answer itself follows.
        self.is_complete = self.parser.get_status_code() >= _FIRST_FINAL
        self.has_head = self.is_complete


def _reason(error: OSError) -> str:
    """Why there is no connection, in the words of the system, without its numbers."""
    text = error.strerror or str(error) or type(error).__name__
    return text[0].lower() + text[1:]
