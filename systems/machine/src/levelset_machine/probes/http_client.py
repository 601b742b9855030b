"""A minimal HTTP/1.1 client for health checks: one request, its status, and a bounded part of the body."""

import asyncio
import ssl
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from typing import Final
from urllib.parse import SplitResult, urlsplit

from levelset.errors import LevelsetError

__all__ = ["BODY_LIMIT", "NoAnswer", "connect", "fetch_status", "request_bytes"]

BODY_LIMIT: Final = 10 * 1024
"""How many bytes of a body are read at most."""

_HEAD_LIMIT: Final = 32 * 1024
_DEFAULTS: Final = (("User-Agent", "levelset-probe"), ("Accept", "*/*"))
_PORTS: Final = {"http": 80, "https": 443}


class NoAnswer(LevelsetError):
    """The request cannot be sent, or the response is not valid HTTP."""


async def connect(host: str, port: int) -> None:
    """Opens a TCP connection and closes it; raises OSError if it cannot be opened."""
    _, writer = await asyncio.open_connection(host, port)
    writer.transport.abort()


async def fetch_status(url: str, *, headers: Sequence[tuple[str, str]] = (), method: str = "GET") -> int:
    """The status of the response, once its body, or the first 10 KB of it, has arrived.

    Raises OSError if there is no connection, and NoAnswer if the response is not HTTP. It has no timeout of its own:
    the caller sets one.
    """
    target = _split(url)
    request = request_bytes(target, headers, method)
    async with _connection(target) as (reader, writer):
        writer.write(request)
        await writer.drain()
        try:
            status, fields = await _read_head(reader)
            while 100 <= status < 200 and status != 101:
                status, fields = await _read_head(reader)
            if method != "HEAD" and status not in {101, 204, 304}:
                await _read_body(reader, fields)
        except (asyncio.IncompleteReadError, ConnectionResetError):
            raise NoAnswer("the connection was closed in the middle of the response") from None
        except (asyncio.LimitOverrunError, ValueError) as error:
            raise NoAnswer(f"the response is not valid HTTP: {error}") from None
        return status


def request_bytes(target: SplitResult, headers: Sequence[tuple[str, str]], method: str) -> bytes:
    """The encoded request; raises NoAnswer if a value contains a line break, which could inject headers."""
    given = {name.lower() for name, _ in headers}
    own = (("Host", target.netloc.rpartition("@")[2]), *_DEFAULTS, ("Connection", "close"))
    fields = [*(one for one in own if one[0].lower() not in given), *headers]
    path = (target.path or "/") + (f"?{target.query}" if target.query else "")
    lines = [f"{method} {path} HTTP/1.1", *(f"{name}: {value}" for name, value in fields)]
    for line in lines:
        if any(letter in line for letter in "\r\n\0"):
            raise NoAnswer(f"{line!r} cannot be sent: remove the line breaks")
    if " " in path or not method.isalpha():
        raise NoAnswer(f"{lines[0]!r} cannot be sent: spaces in a path are written as %20")
    return ("\r\n".join(lines) + "\r\n\r\n").encode("utf-8", "replace")


def _split(url: str) -> SplitResult:
    try:
        target = urlsplit(url)
        usable = target.scheme in _PORTS and bool(target.hostname) and target.port != 0
    except ValueError as error:
        raise NoAnswer(f"{url!r} is not a URL: {error}") from None
    if not usable:
        raise NoAnswer(f"{url!r} cannot be probed; write http://host:port/path or https://host:port/path")
    return target


@asynccontextmanager
async def _connection(target: SplitResult) -> AsyncGenerator[tuple[asyncio.StreamReader, asyncio.StreamWriter], None]:
    port = target.port or _PORTS[target.scheme]
    secure = _unverified() if target.scheme == "https" else None
    reader, writer = await asyncio.open_connection(target.hostname, port, ssl=secure, limit=_HEAD_LIMIT)
    try:
        yield reader, writer
    finally:
        # Aborted, because a graceful close could wait for the other side, and the status is known.
        writer.transport.abort()


def _unverified() -> ssl.SSLContext:
    """TLS without verification: a check is about the health of a program, not about its identity."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


async def _read_head(reader: asyncio.StreamReader) -> tuple[int, dict[str, str]]:
    head = await reader.readuntil(b"\r\n\r\n")
    first, *lines = head.decode("latin-1").split("\r\n")
    version, _, rest = first.partition(" ")
    code = rest[:3]
    if not version.startswith("HTTP/1.") or not (code.isascii() and code.isdigit()):
        raise ValueError(f"it begins with {first[:60]!r}")
    pairs = (line.partition(":") for line in lines if line)
    return int(code), {name.strip().lower(): value.strip() for name, _, value in pairs}


async def _read_body(reader: asyncio.StreamReader, fields: dict[str, str]) -> None:
    if "chunked" in fields.get("transfer-encoding", "").lower():
        await _read_chunks(reader)
    elif "content-length" in fields:
        await reader.readexactly(min(int(fields["content-length"]), BODY_LIMIT))
    else:
        left = BODY_LIMIT
        while left > 0 and (found := await reader.read(left)):
            left -= len(found)


async def _read_chunks(reader: asyncio.StreamReader) -> None:
    left = BODY_LIMIT
    while left > 0:
        line = await reader.readuntil(b"\r\n")
        size = int(line.partition(b";")[0].strip(), 16)
        if size <= 0:
            return
        if size >= left:
            await reader.readexactly(left)
            return
        await reader.readexactly(size + 2)
        left -= size
