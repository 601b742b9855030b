"""Tunnels through an HTTP proxy with CONNECT (`proxy-url` of a kubeconfig)."""

import asyncio
import base64
from typing import Self, cast
from urllib.parse import unquote, urlsplit

import msgspec

from levelset.errors import ConfigError, Unreachable

__all__ = ["Proxy", "Tunnel", "authority"]

_MAX_HEAD = 64 * 1024


class Proxy(msgspec.Struct, frozen=True, kw_only=True):
    """An HTTP proxy, spoken to over TLS if `is_secure`; `login` is the value of Proxy-Authorization."""

    host: str
    port: int
    is_secure: bool = False
    login: str | None = None

    @classmethod
    def parse(cls, url: str) -> Self:
        """Parses a `proxy-url`, with user and password if it has them; ConfigError if it is not an HTTP proxy."""
        try:
            parts = urlsplit(url)
            port, host = parts.port, parts.hostname
        except ValueError:
            parts, port, host = urlsplit(""), None, None
        if parts.scheme.startswith("socks"):
            raise ConfigError(f"proxy-url has the scheme {parts.scheme}, which is not supported: use an http:// proxy.")
        if parts.scheme not in {"http", "https"} or not host:
            raise ConfigError("proxy-url is not a URL: write http://HOST:PORT or http://USER:PASSWORD@HOST:PORT.")
        is_secure = parts.scheme == "https"
        return cls(host=host, port=port or (443 if is_secure else 80), is_secure=is_secure, login=_login(parts.netloc))

    @property
    def url(self) -> str:
        """The URL of the proxy, without user and password."""
        return f"http{'s' if self.is_secure else ''}://{authority(self.host, self.port)}"

    def __repr__(self) -> str:
        return f"Proxy({self.url!r})"

    def request(self, host: str, port: int) -> bytes:
        """The CONNECT request."""
        target = authority(host, port)
        login = f"Proxy-Authorization: {self.login}\r\n" if self.login else ""
        return f"CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n{login}\r\n".encode("ascii")

    def check(self, head: bytes, target: str) -> None:
        """Checks that the proxy has opened the tunnel; Unreachable otherwise."""
        line = head.partition(b"\r\n")[0].decode("latin-1")
        version, _, rest = line.partition(" ")
        code = rest[:3]
        if not version.startswith("HTTP/1.") or not code.isdecimal():
            raise self.refuse(f"did not respond like an HTTP proxy ({line[:80]!r}); is the address right?")
        if code == "407":
            hint = "rejected the user and password" if self.login else "requires a user and a password"
            raise self.refuse(f"{hint}: set them in proxy-url (http://USER:PASSWORD@HOST:PORT).")
        if not code.startswith("2"):
            raise self.refuse(f"did not open a tunnel to {target}: {rest[:200]}")

    def refuse(self, what: str) -> Unreachable:
        """The error for what the proxy did."""
        return Unreachable(f"The proxy {self.url} {what}", is_sent=False)


class Tunnel(asyncio.Protocol):
    """The protocol of a connection to a proxy until the tunnel is open; then the transport gets another protocol."""

    def __init__(self, proxy: Proxy, host: str, port: int) -> None:
        self._proxy = proxy
        self._host, self._port = host, port
        self._head = b""
        self._opened: asyncio.Future[asyncio.Transport] = asyncio.get_running_loop().create_future()
        self._transport: asyncio.Transport | None = None

    async def wait_open(self) -> asyncio.Transport:
        """The transport to the server behind the proxy; Unreachable if the proxy refuses."""
        try:
            return await self._opened
        except BaseException:
            if self._transport is not None:
                self._transport.abort()
            raise

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The proxy is connected: sends CONNECT."""
        self._transport = cast("asyncio.Transport", transport)
        self._transport.write(self._proxy.request(self._host, self._port))

    def data_received(self, data: bytes) -> None:
        """Reads the response of the proxy."""
        self._head += data
        head, end, rest = self._head.partition(b"\r\n\r\n")
        if not end and len(self._head) <= _MAX_HEAD:
            return
        try:
            self._proxy.check(head, authority(self._host, self._port))
            if not end or rest:
                raise self._proxy.refuse("sent more than the head of a response; is it an HTTP proxy?")
        except Unreachable as error:
            self._fail(error)
        else:
            assert self._transport is not None
            # Bytes of the server belong to the next protocol of this transport.
            self._transport.pause_reading()
            if not self._opened.done():
                self._opened.set_result(self._transport)

    def connection_lost(self, exc: Exception | None) -> None:
        """The proxy has closed the connection; before its response that is a refusal."""
        self._fail(self._proxy.refuse(f"closed the connection before it responded{f' ({exc})' if exc else ''}."))

    def _fail(self, error: Unreachable) -> None:
        if not self._opened.done():
            self._opened.set_exception(error)


def authority(host: str, port: int) -> str:
    """Host and port as in a URL."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _login(netloc: str) -> str | None:
    user, at, _ = netloc.rpartition("@")
    if not at:
        return None
    return f"Basic {base64.b64encode(unquote(user).encode()).decode('ascii')}"
