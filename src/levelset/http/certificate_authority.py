"""A small certificate authority for local servers and their clients, and TLS contexts that use it.

`Identity` and the TLS contexts need only the standard library. Certificates are issued and read in `x509_signing.py`,
with the `cryptography` package of the extra `tls`.
"""

import asyncio
import ssl
import threading
from collections.abc import Sequence
from contextlib import closing
from datetime import datetime
from enum import Enum, auto
from importlib.util import find_spec
from pathlib import Path
from typing import IO, NamedTuple, Self

import msgspec

from levelset.errors import ConfigError
from levelset.http.private_files import write_private

__all__ = [
    "CertificateAuthority",
    "CertificateRequest",
    "CertificateUse",
    "Identity",
    "Validity",
    "load_identity",
    "renew_identity",
    "server_context",
    "validity_of",
]


class CertificateUse(Enum):
    """What a certificate is for."""

    AUTHORITY = auto()
    SERVER = auto()
    CLIENT = auto()


class CertificateRequest(msgspec.Struct, frozen=True, kw_only=True):
    """The contents of a certificate to be issued; `within` is its lifetime in days.

    `at` is the time of the caller's clock where that is not the machine's, such as a virtual one: the certificate is
    valid by both, since clients use theirs.
    """

    use: CertificateUse
    name: str
    within: float
    at: datetime | None = None
    organizations: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    addresses: tuple[str, ...] = ()


class Identity(msgspec.Struct, frozen=True):
    """A certificate (with its chain) and its private key, both as PEM."""

    certificate: bytes
    key: bytes

    def save(self, certificate: str | Path, key: str | Path) -> None:
        """Writes both as private files, each atomically."""
        write_private(key, self.key)
        write_private(certificate, self.certificate)

    def __repr__(self) -> str:
        # The generated repr would put the private key into logs.
        return f"Identity({len(self.certificate)} bytes of certificates)"


class Validity(NamedTuple):
    """The validity period of a certificate."""

    begin: datetime
    end: datetime

    def is_due(self, now: datetime, *, last: float) -> bool:
        """Whether the last part of the period, such as a third, has begun."""
        return now >= self.end - (self.end - self.begin) * last


class CertificateAuthority:
    """Issues certificates; raises ConfigError if it cannot."""

    __slots__ = ("identity",)

    def __init__(self, identity: Identity) -> None:
        """Uses an existing authority; an invalid one fails when it has to sign."""
        self.identity = identity

    @classmethod
    def create(cls, name: str, *, within: float = 3650, at: datetime | None = None) -> Self:
        """Creates a new authority that is valid for `within` days, by the machine's clock and from the time `at`."""
        return cls(_sign(CertificateRequest(use=CertificateUse.AUTHORITY, name=name, within=within, at=at)))

    @property
    def certificate(self) -> bytes:
        """The CA certificate, which clients have to trust, as PEM; not secret."""
        return self.identity.certificate

    def issue_server(
        self,
        names: Sequence[str] = ("localhost",),
        addresses: Sequence[str] = ("127.0.0.1",),
        *,
        within: float = 365,
        at: datetime | None = None,
    ) -> Identity:
        """A server certificate, valid for `within` days, for host `names` and IP `addresses`."""
        names, addresses = tuple(names), tuple(addresses)
        if not names and not addresses:
            raise ConfigError("A server certificate needs a host name or an IP address: give at least one.")
        name = (names + addresses)[0]
        request = CertificateRequest(
            use=CertificateUse.SERVER, name=name, within=within, at=at, names=names, addresses=addresses
        )
        return _sign(request, self.identity)

    def issue_client(self, user: str, groups: Sequence[str] = (), *, within: float = 365) -> Identity:
        """A client certificate, valid for `within` days: its common name is the user, its organizations the groups."""
        request = CertificateRequest(use=CertificateUse.CLIENT, name=user, within=within, organizations=tuple(groups))
        return _sign(request, self.identity)

    def server_context(self, identity: Identity) -> ssl.SSLContext:
        """The TLS context of a server; client certificates of this authority are accepted, and optional."""
        return server_context(identity, self.certificate)

    def client_context(self, identity: Identity | None = None) -> ssl.SSLContext:
        """The TLS context of a client that trusts only this authority; `identity` is its client certificate."""
        context = _context(ssl.PROTOCOL_TLS_CLIENT, self.certificate)
        if identity is not None:
            load_identity(context, identity)
        return context


def server_context(identity: Identity, client_authorities: bytes | None = None) -> ssl.SSLContext:
    """The TLS context of a server; client certificates are optional, and accepted from these authorities (PEM)."""
    context = _context(ssl.PROTOCOL_TLS_SERVER, client_authorities)
    context.verify_mode = ssl.CERT_NONE if client_authorities is None else ssl.CERT_OPTIONAL
    load_identity(context, identity)
    return context


def validity_of(pem: bytes) -> Validity:
    """The validity of the first certificate in PEM; ConfigError if there is none that can be read."""
    _check_cryptography()
    from levelset.http import x509_signing  # noqa: PLC0415 - optional, and slow to import

    if b"BEGIN CERTIFICATE" not in pem:
        raise ConfigError("There is no certificate: it must be PEM, with BEGIN CERTIFICATE.")
    try:
        return x509_signing.read_validity(pem)
    except ValueError as error:
        raise ConfigError(f"The certificate cannot be read: {error}.") from error


def load_identity(context: ssl.SSLContext, identity: Identity) -> None:
    """Loads a certificate into a context. Raises ConfigError.

    Writes and reads a temporary file: call it with `asyncio.to_thread` in a coroutine. Not for the context of a running
    server: see `renew_identity`.
    """
    with closing(_KeyFile()) as file:
        _load(context, file.write(identity))


async def renew_identity(context: ssl.SSLContext, identity: Identity) -> None:
    """Replaces the certificate in the context of a server that runs on this event loop. Raises ConfigError.

    New connections use it, open ones keep the old one. While loading, the context has the new certificate without its
    key, so this is done on the loop, where no handshake can run in between. It takes less than a millisecond: the file
    it reads was written just before.
    """
    file = _KeyFile()
    try:
        _load(context, await asyncio.to_thread(file.write, identity))
    finally:
        # Shielded, and not by `to_thread`: a cancellation takes back what no thread has started.
        await asyncio.shield(asyncio.get_running_loop().run_in_executor(None, file.close))


class _KeyFile:
    """A private temporary file, since ssl loads keys only from files; deleted when it is closed.

    A thread goes on writing when the task that waits for it was cancelled, so that `close` waits for it; nothing is
    written afterwards.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._file: IO[bytes] | None = None
        self._is_closed = False

    def write(self, identity: Identity) -> str:
        """Writes key and certificate; returns the path of the file, or "" if it was closed before."""
        import tempfile  # noqa: PLC0415  # it brings shutil and archives along, and a client with a token needs no file

        with self._lock:
            if self._is_closed:
                return ""
            self._file = file = tempfile.NamedTemporaryFile()  # noqa: SIM115 - `close` closes it
            file.write(identity.key + identity.certificate)
            file.flush()
            return file.name

    def close(self) -> None:
        """Deletes the file; not on an event loop, since it may wait for a thread."""
        with self._lock:
            self._is_closed = True
            if self._file is not None:
                self._file.close()


def _load(context: ssl.SSLContext, name: str) -> None:
    try:
        context.load_cert_chain(name)
    except ssl.SSLError as error:
        raise ConfigError(f"The certificate and its key cannot be used: {error.reason or error}.") from error


def _context(role: int, trusted: bytes | None) -> ssl.SSLContext:
    context = ssl.SSLContext(role)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(["http/1.1"])
    # As in Go: any certificate that is given is trusted, also an intermediate one.
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    if trusted is not None:
        context.load_verify_locations(cadata=trusted.decode("ascii"))
    return context


def _sign(request: CertificateRequest, authority: Identity | None = None) -> Identity:
    _check_cryptography()
    from levelset.http import x509_signing  # noqa: PLC0415 - optional, and slow to import

    try:
        return x509_signing.sign(request, authority)
    except (ValueError, OverflowError) as error:
        raise ConfigError(f"No certificate can be issued for {request.name!r}: {error}.") from error


def _check_cryptography() -> None:
    if find_spec("cryptography") is None:
        raise ConfigError("Certificates need the package `cryptography`: install levelset[tls], or serve without TLS.")
