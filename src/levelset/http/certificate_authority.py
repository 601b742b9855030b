"""A small certificate authority, made in a few milliseconds, for servers and clients that trust nobody else.

Keys are ECDSA P-256: an RSA key would take longer than everything else at the start of a server together.

Certificates as values: what one is asked to say, and the certificate with its key.
"""

import asyncio
import ssl
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum, auto
from pathlib import Path
from typing import IO, Self

from levelset.errors import ConfigError
from levelset.http.private_files import write_private

__all__ = ["Authority", "Identity", "Use", "Wish", "load_identity", "renew_identity"]


class Use(Enum):
    """What a certificate is for."""

    AUTHORITY = auto()
    SERVER = auto()
    CLIENT = auto()


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """What a certificate shall say; `within` is days."""

    use: Use
    name: str
    within: float
    organizations: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    addresses: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, repr=False)
class Identity:
    """A certificate (with those that vouch for it) and its private key, both as PEM."""

    certificate: bytes
    key: bytes

    def save(self, certificate: str | Path, key: str | Path) -> None:
        """Writes both as private files, each whole or not at all."""
        write_private(key, self.key)
        write_private(certificate, self.certificate)

    def __repr__(self) -> str:
        # The generated one would put the private key into logs.
        return f"Identity({len(self.certificate)} bytes of certificates)"


class Authority:
    """Signs certificates; whoever trusts its own certificate trusts all of them. Raises ConfigError where it cannot."""

    __slots__ = ("identity",)

    def __init__(self, identity: Identity) -> None:
        """Goes on with an authority that was made before; what is wrong with it shows when it has to sign."""
        self.identity = identity

    @classmethod
    def create(cls, name: str, *, within: float = 3650) -> Self:
        """Makes a new authority that is valid for `within` days."""
        return cls(_sign(Wish(use=Use.AUTHORITY, name=name, within=within)))

    @property
    def certificate(self) -> bytes:
        """What others have to trust, as PEM; no secret."""
        return self.identity.certificate

    def issue_server(
        self, names: Sequence[str] = ("localhost",), addresses: Sequence[str] = ("127.0.0.1",), *, within: float = 365
    ) -> Identity:
        """A certificate, valid for `within` days, for a server that is reached under `names` and IP `addresses`."""
        names, addresses = tuple(names), tuple(addresses)
        if not names and not addresses:
            raise ConfigError("A server's certificate needs a host name or an IP address: give at least one.")
        name = (names + addresses)[0]
        wish = Wish(use=Use.SERVER, name=name, within=within, names=names, addresses=addresses)
        return _sign(wish, self.identity)

    def issue_client(self, user: str, groups: Sequence[str] = (), *, within: float = 365) -> Identity:
        """A certificate, valid for `within` days: the common name is the user, the organizations are its groups."""
        wish = Wish(use=Use.CLIENT, name=user, within=within, organizations=tuple(groups))
        return _sign(wish, self.identity)

    def server_context(self, identity: Identity) -> ssl.SSLContext:
        """How a server speaks TLS; a client may show a certificate of this authority, and need not."""
        context = _context(ssl.PROTOCOL_TLS_SERVER, self.certificate)
        context.verify_mode = ssl.CERT_OPTIONAL
        load_identity(context, identity)
        return context

    def client_context(self, identity: Identity | None = None) -> ssl.SSLContext:
        """How a client speaks TLS that trusts this authority alone; with `identity` it says who it is."""
        context = _context(ssl.PROTOCOL_TLS_CLIENT, self.certificate)
        if identity is not None:
            load_identity(context, identity)
        return context


def load_identity(context: ssl.SSLContext, identity: Identity) -> None:
    """Gives a context its certificate. Raises ConfigError.

    It writes and reads a small file, so a coroutine calls it with `asyncio.to_thread`. Not for a context with which a
    server is running: see `renew_identity`.
    """
    with _written(identity) as file:
        _load(context, file.name)


async def renew_identity(context: ssl.SSLContext, identity: Identity) -> None:
    """Gives another certificate to the context of a server that runs on this event loop. Raises ConfigError.

    New connections use it, those that are open keep the old one. For a moment a context has the new certificate and no
    key; so this happens on the loop, where no handshake can come in between. It takes less than a millisecond: the file
    that is read was written just before.
    """
    file = await asyncio.to_thread(_written, identity)
    try:
        _load(context, file.name)
    finally:
        await asyncio.to_thread(file.close)


def _written(identity: Identity) -> IO[bytes]:
    """A private file, as ssl reads keys from files only; gone when it is closed."""
    file = tempfile.NamedTemporaryFile()  # noqa: SIM115 - the caller closes it
    file.write(identity.key + identity.certificate)
    file.flush()
    return file


def _load(context: ssl.SSLContext, name: str) -> None:
    try:
        context.load_cert_chain(name)
    except ssl.SSLError as error:
        raise ConfigError(f"The certificate and its key cannot be used: {error.reason or error}.") from error


def _context(role: int, trusted: bytes) -> ssl.SSLContext:
    context = ssl.SSLContext(role)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(["http/1.1"])
    context.load_verify_locations(cadata=trusted.decode("ascii"))
    return context


def _sign(wish: Wish, authority: Identity | None = None) -> Identity:
    try:
        # This half needs `cryptography`: optional, and slow to load for those who serve without TLS.
        from levelset.http import x509_signing as signing  # noqa: PLC0415
    except ImportError as error:
        raise ConfigError(
            "Certificates need the package `cryptography`: install levelset[tls], or serve without TLS."
        ) from error
    try:
        return signing.sign(wish, authority)
    except (ValueError, OverflowError) as error:
        raise ConfigError(f"No certificate can be made for {wish.name!r}: {error}.") from error
