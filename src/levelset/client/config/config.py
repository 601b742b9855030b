"""How to reach a cluster, as one value: the server, whom to trust, who asks, and on whose behalf."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final
from urllib.parse import SplitResult, quote, urlsplit

from levelset.client.config.credentials import Anonymous, Credentials
from levelset.errors import ConfigError

__all__ = ["Config", "Impersonation"]

_HEADER_NAME: Final = "!#$&'*+^`|"  # beside letters, digits and -._~ what may stand in a header's name


@dataclass(frozen=True, slots=True, kw_only=True)
class Impersonation:
    """On whose behalf requests are made; the server checks that the real user may do that."""

    user: str
    uid: str | None = None
    groups: tuple[str, ...] = ()
    extra: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])

    def __post_init__(self) -> None:
        if not self.user:
            raise ConfigError("Impersonation needs a user: groups, uid and extra say more about one.")
        for name, value in self.headers():
            if any(ord(letter) < 32 or ord(letter) == 127 for letter in value):
                raise ConfigError(f"{name} has a control character (a newline?) in it: {value!r}.")

    def headers(self) -> tuple[tuple[str, str], ...]:
        """The header fields in the order to be sent; those for groups and extra may come several times."""
        uid = [("Impersonate-Uid", self.uid)] if self.uid else []
        groups = [("Impersonate-Group", group) for group in self.groups]
        extra = [
            (f"Impersonate-Extra-{quote(key.lower(), safe=_HEADER_NAME)}", value)
            for key, values in self.extra.items()
            for value in values
        ]
        return ("Impersonate-User", self.user), *uid, *groups, *extra


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Config:
    """How to reach one API server.

    `server` is its URL, possibly with a path in front of all others. Trust is in `ca` (PEM) or in the `ca_file`, in the
    system's authorities if there is neither, and in anybody if `insecure`. `namespace` is meant when none is given.
    `source` says where all this was found. What makes no sense is refused with ConfigError.
    """

    server: str
    namespace: str = "default"
    ca: bytes | None = None
    ca_file: Path | None = None
    insecure: bool = False
    tls_server_name: str | None = None
    proxy: str | None = None
    credentials: Credentials = field(default_factory=Anonymous)
    impersonate: Impersonation | None = None
    source: str = ""

    def __post_init__(self) -> None:
        parts = _split(self.server, "server", ("http", "https"))
        if parts.query or parts.fragment or "@" in parts.netloc:
            raise ConfigError("The server's URL must be scheme, host, port and path only: move the rest elsewhere.")
        object.__setattr__(self, "server", self.server.rstrip("/"))
        if self.proxy is not None:
            _split(self.proxy, "proxy", ("http", "https", "socks5", "socks5h"))
        if self.ca is not None and self.ca_file is not None:
            raise ConfigError("Trust one of ca and ca_file, not both: leave one out.")
        if self.insecure and (self.ca is not None or self.ca_file is not None):
            raise ConfigError(
                f"{self.server} is to be trusted by an authority and without any check: leave out ca or insecure."
            )

    @property
    def is_secure(self) -> bool:
        """Whether the server is spoken to over TLS."""
        return self.server[:6].lower() == "https:"

    @property
    def host(self) -> str:
        """The server's name or address, without brackets."""
        return urlsplit(self.server).hostname or ""

    @property
    def port(self) -> int:
        """The server's port."""
        return urlsplit(self.server).port or (443 if self.is_secure else 80)

    @property
    def path(self) -> str:
        """What stands before every path, without a slash at its end: usually nothing."""
        return urlsplit(self.server).path

    def __repr__(self) -> str:
        # The generated one would show the proxy's password.
        return f"Config({self.server!r}, namespace={self.namespace!r}, credentials={self.credentials!r})"


def _split(url: str, what: str, schemes: tuple[str, ...]) -> SplitResult:
    """The parts of a URL; ConfigError if it is none. Neither says a password that may be in it."""
    try:
        parts = urlsplit(url)
        # Asking for the port is what checks it.
        is_fine = parts.scheme in schemes and bool(parts.hostname) and parts.port != 0 and _is_plain(url)
    except ValueError:
        is_fine, parts = False, None
    if not is_fine or parts is None:
        shown = f"{url[:200]!r} " if "@" not in url else ""
        raise ConfigError(
            f"The {what} {shown}is no URL: write {' or '.join(f'{one}://' for one in schemes[:2])}HOST:PORT."
        )
    return parts


def _is_plain(url: str) -> bool:
    return url.isascii() and url.isprintable() and " " not in url
