"""`Config`: how to reach an API server (URL, further URLs, trusted certificates, credentials, impersonation)."""

from collections.abc import Mapping
from pathlib import Path
from typing import Final
from urllib.parse import SplitResult, quote, urlsplit

import msgspec

from levelset.client.config.credentials import Anonymous, Credentials
from levelset.errors import ConfigError

__all__ = ["Config", "Impersonation"]

_HEADER_NAME: Final = "!#$&'*+^`|"  # allowed in a header's name, besides letters, digits and -._~


class Impersonation(msgspec.Struct, frozen=True, kw_only=True):
    """The user that requests impersonate; the server checks that the real user may do that."""

    user: str
    uid: str | None = None
    groups: tuple[str, ...] = ()
    extra: Mapping[str, tuple[str, ...]] = msgspec.field(default_factory=dict[str, tuple[str, ...]])

    def __post_init__(self) -> None:
        if not self.user:
            raise ConfigError("Impersonation needs a user: groups, uid and extra only add to it.")
        for name, value in self.headers():
            if any(ord(letter) < 32 or ord(letter) == 127 for letter in value):
                raise ConfigError(f"{name} contains a control character (a newline?): {value!r}.")

    def headers(self) -> tuple[tuple[str, str], ...]:
        """The header fields, in order; those for groups and extra may be repeated."""
        uid = [("Impersonate-Uid", self.uid)] if self.uid else []
        groups = [("Impersonate-Group", group) for group in self.groups]
        extra = [
            (f"Impersonate-Extra-{quote(key.lower(), safe=_HEADER_NAME)}", value)
            for key, values in self.extra.items()
            for value in values
        ]
        return ("Impersonate-User", self.user), *uid, *groups, *extra


class Config(msgspec.Struct, frozen=True, kw_only=True):
    """How to reach one API server.

    `server` is its URL, possibly with a path prefix. The server's certificate is verified with `ca` (PEM) or `ca_file`,
    with the system's authorities if there is neither, and not at all if `insecure`. `namespace` is the default
    namespace. `source` says where the config was found, for messages. Invalid values raise ConfigError.
    """

    server: str
    servers: tuple[str, ...] = ()
    """The URLs of further servers of the same cluster, which are tried when `server` cannot be reached."""
    namespace: str = "default"
    ca: bytes | None = None
    ca_file: Path | None = None
    insecure: bool = False
    tls_server_name: str | None = None
    """The name that the server's certificate must have, if it is not the host of `server`."""
    proxy: str | None = None
    """The URL of an HTTP, HTTPS or SOCKS5 proxy."""
    credentials: Credentials = msgspec.field(default_factory=Anonymous)
    """How requests are authenticated: Token, TokenFile, Basic, ClientCertificate, ExecPlugin or Anonymous."""
    impersonate: Impersonation | None = None
    """The user to act as, which the credentials must allow."""
    source: str = ""

    def __post_init__(self) -> None:
        parts = _split(self.server, "server", ("http", "https"))
        if parts.query or parts.fragment or "@" in parts.netloc:
            raise ConfigError("The server's URL must be scheme, host, port and path only: remove the rest.")
        msgspec.structs.force_setattr(self, "server", self.server.rstrip("/"))
        for one in self.servers:
            other = _split(one, "server", ("http", "https"))
            if (other.scheme, other.path.rstrip("/")) != (parts.scheme, parts.path.rstrip("/")) or "@" in other.netloc:
                raise ConfigError(f"The server {one!r} must differ from {self.server} only in its host and port.")
        if self.proxy is not None:
            _split(self.proxy, "proxy", ("http", "https", "socks5", "socks5h"))
        if self.ca is not None and self.ca_file is not None:
            raise ConfigError("ca and ca_file are both set: leave one out.")
        if self.insecure and (self.ca is not None or self.ca_file is not None):
            raise ConfigError(
                f"{self.server} has both a certificate authority and insecure=True: leave one of them out."
            )

    @property
    def is_secure(self) -> bool:
        """Whether the connection uses TLS."""
        return self.server[:6].lower() == "https:"

    @property
    def host(self) -> str:
        """The host name or address of the server, without brackets."""
        return urlsplit(self.server).hostname or ""

    @property
    def port(self) -> int:
        """The port of the server."""
        return urlsplit(self.server).port or (443 if self.is_secure else 80)

    @property
    def path(self) -> str:
        """The prefix of every path, without a trailing slash: usually empty."""
        return urlsplit(self.server).path

    def __repr__(self) -> str:
        # The generated repr would show the password in the proxy URL.
        return f"Config({self.server!r}, namespace={self.namespace!r}, credentials={self.credentials!r})"


def _split(url: str, what: str, schemes: tuple[str, ...]) -> SplitResult:
    """Splits a URL; ConfigError if it is invalid, without showing a password that may be in it."""
    try:
        parts = urlsplit(url)
        # Reading `port` validates it.
        is_valid = parts.scheme in schemes and bool(parts.hostname) and parts.port != 0 and _is_plain(url)
    except ValueError:
        is_valid, parts = False, None
    if not is_valid or parts is None:
        shown = f"{url[:200]!r} " if "@" not in url else ""
        raise ConfigError(
            f"The {what} {shown}is not a URL: write {' or '.join(f'{one}://' for one in schemes[:2])}HOST:PORT."
        )
    return parts


def _is_plain(url: str) -> bool:
    return url.isascii() and url.isprintable() and " " not in url
