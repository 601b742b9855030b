"""Reaches a server through an HTTP proxy: asks it for a tunnel with CONNECT, and says plainly what went wrong."""

import asyncio
import base64
from dataclasses import dataclass
from typing import Self, cast
from urllib.parse import unquote, urlsplit

from levelset.errors import ConfigError, Unreachable

__all__ = ["Proxy", "Tunnel", "authority"]

_MOST = 64 * 1024


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Proxy:
    """An HTTP proxy; over TLS if it `is_secure`. `login` is the value of Proxy-Authorization."""

    host: str
    port: int
    is_secure: bool = False
    login: str | None = None

    @classmethod
    def parse(cls, url: str) -> Self:
        """The proxy behind a `proxy-url`, with user and password if there are; ConfigError if it is none for HTTP."""
        try:
            parts = urlsplit(url)
            port, host = parts.port, parts.hostname
        except ValueError:
            parts, port, host = urlsplit(""), None, None
        if parts.scheme.startswith("socks"):
            raise ConfigError(f"The proxy is of the kind {parts.scheme}, which is not supported: use an http:// one.")
        if parts.scheme not in {"http", "https"} or not host:
            raise ConfigError("The proxy is no URL: write http://HOST:PORT or http://USER:PASSWORD@HOST:PORT.")
        is_secure = parts.scheme == "https"
        return cls(host=host, port=port or (443 if is_secure else 80), is_secure=is_secure, login=_login(parts.netloc))

    @property
    def url(self) -> str:
        """Where it is, without the password."""
        return f"http{'s' if self.is_secure else ''}://{authority(self.host, self.port)}"

    def __repr__(self) -> str:
        return f"Proxy({self.url!r})"

    def request(self, host: str, port: int) -> bytes:
        """What the proxy is sent first."""
        target = authority(host, port)
        login = f"Proxy-Authorization: {self.login}\r\n" if self.login else ""
        return f"CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n{login}\r\n".encode("ascii")

    def check(self, head: bytes, target: str) -> None:
        """Makes sure that the head of the proxy's answer says yes; Unreachable otherwise."""
        line = head.partition(b"\r\n")[0].decode("latin-1")
        version, _, rest = line.partition(" ")
        code = rest[:3]
        if not version.startswith("HTTP/1.") or not code.isdecimal():
            raise self.refuse(f"did not answer as an HTTP proxy does ({line[:80]!r}); is the address right?")
        if code == "407":
            hint = "did not accept the user and password" if self.login else "asks for a user and a password"
            raise self.refuse(f"{hint}: put them right in proxy-url (http://USER:PASSWORD@HOST:PORT).")
        if not code.startswith("2"):
            raise self.refuse(f"opens no way to {target}: {rest[:200]}")

    def refuse(self, what: str) -> Unreachable:
        """The error that tells what the proxy did."""
        return Unreachable(f"The proxy {self.url} {what}", is_sent=False)


class Tunnel(asyncio.Protocol):
    """A connection to a proxy until its answer is there; then the transport is given on to somebody else."""

    def __init__(self, proxy: Proxy, host: str, port: int) -> None:
        self._proxy = proxy
        self._host, self._port = host, port
        self._head = b""
        self._opened: asyncio.Future[asyncio.Transport] = asyncio.get_running_loop().create_future()
        self._transport: asyncio.Transport | None = None

    async def wait_open(self) -> asyncio.Transport:
        """The transport to the server behind the proxy; Unreachable if the proxy gives none."""
        try:
            return await self._opened
        except BaseException:
            if self._transport is not None:
                self._transport.abort()
            raise

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The proxy is there."""
        self._transport = cast("asyncio.Transport", transport)
        self._transport.write(self._proxy.request(self._host, self._port))

    def data_received(self, data: bytes) -> None:
        """The proxy answers."""
        self._head += data
        head, end, rest = self._head.partition(b"\r\n\r\n")
        if not end and len(self._head) <= _MOST:
            return
        try:
            self._proxy.check(head, authority(self._host, self._port))
            if not end or rest:
                raise self._proxy.refuse("sent more than the head of an answer; is it an HTTP proxy?")
        except Unreachable as error:
            self._fail(error)
        else:
            assert self._transport is not None
            # The server may speak only to whom this transport is given on to.
            self._transport.pause_reading()
            if not self._opened.done():
                self._opened.set_result(self._transport)

    def connection_lost(self, exc: Exception | None) -> None:
        """The proxy is gone; without an answer, that is a refusal."""
        self._fail(self._proxy.refuse(f"closed the connection before it answered{f' ({exc})' if exc else ''}."))

    def _fail(self, error: Unreachable) -> None:
        if not self._opened.done():
            self._opened.set_exception(error)


def authority(host: str, port: int) -> str:
    """A host and its port as in a URL."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _login(netloc: str) -> str | None:
    user, at, _ = netloc.rpartition("@")
    if not at:
        return None
    return f"Basic {base64.b64encode(unquote(user).encode()).decode('ascii')}"
