"""The TLS contexts of a client: trusted authorities and client certificate, reloaded for every new connection.

A context is reused as long as its inputs have not changed. Once there was a valid one it stays in use while a file is
missing, half written or broken: certificates are rotated by replacing files, which is not atomic for several files.
"""

import asyncio
import logging
import ssl
from typing import Final

from levelset.client.config.config import Config
from levelset.errors import ConfigError
from levelset.http.certificate_authority import Identity, load_identity

__all__ = ["ClientTls"]

log: Final = logging.getLogger("levelset.client")

_Loaded = tuple[bytes | None, Identity | None, ssl.SSLContext]


class ClientTls:
    """Makes the TLS contexts for the connections to one server."""

    __slots__ = ("_config", "_last", "_lock")

    def __init__(self, config: Config) -> None:
        self._config = config
        self._last: _Loaded | None = None
        self._lock = asyncio.Lock()

    @property
    def server_name(self) -> str:
        """The name or address that the server certificate must be for; a name is also sent as SNI."""
        return self._config.tls_server_name or self._config.host

    async def context(self) -> ssl.SSLContext:
        """The context for a new connection; ConfigError if there never was a valid one."""
        async with self._lock:
            last = self._last
            try:
                loaded = await self._make(last)
            except ConfigError as error:
                if last is None:
                    raise
                log.warning("certificates not usable, keeping the last ones", extra={"cause": str(error)})
                return last[2]
            self._last = loaded
            return loaded[2]

    async def _make(self, last: _Loaded | None) -> _Loaded:
        identity = await self._config.credentials.certificate()
        if last is not None and self._config.ca_file is None and identity == last[1]:
            return last
        return await asyncio.to_thread(_make, self._config, identity, last)


def _make(config: Config, identity: Identity | None, last: _Loaded | None) -> _Loaded:
    """Reads files and loads keys; slow, so not on the event loop."""
    trusted = _trusted(config)
    if last is not None and (trusted, identity) == last[:2]:
        return last
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(["http/1.1"])
    # As in client-go: any certificate of the bundle is trusted, also an intermediate one or the server's own.
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    if config.insecure:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    elif trusted is None:
        context.load_default_certs()
    else:
        _trust(context, trusted, config)
    if identity is not None:
        _load_identity(context, identity)
    return trusted, identity, context


def _trusted(config: Config) -> bytes | None:
    if config.insecure or config.ca_file is None:
        return config.ca
    try:
        return config.ca_file.read_bytes()
    except OSError as error:
        raise ConfigError(
            f"The certificate authority of {config.server} cannot be read: {error.strerror} ({config.ca_file})."
        ) from error


def _trust(context: ssl.SSLContext, trusted: bytes, config: Config) -> None:
    # As in other Kubernetes clients: a trusted certificate need not be the root of its chain.
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    try:
        # Text around the certificates is allowed, in any encoding.
        context.load_verify_locations(cadata=trusted.decode("ascii", "ignore"))
    except (ssl.SSLError, ValueError) as error:
        where = config.ca_file or "certificate-authority-data"
        raise ConfigError(f"The certificate authority of {config.server} is not PEM: check {where}.") from error


def _load_identity(context: ssl.SSLContext, identity: Identity) -> None:
    if b"ENCRYPTED" in identity.key:
        # OpenSSL would ask for the password on the terminal.
        raise ConfigError("The key of the client certificate is encrypted: decrypt it, or use an exec plugin.")
    try:
        load_identity(context, identity)
    except OSError as error:
        raise ConfigError(
            f"The client certificate needs a temporary file, which cannot be written: {error}."
        ) from error
