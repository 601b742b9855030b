"""A server's certificate from PEM files of the user, checked before it is served.

```python
loaded = CertificateFiles("server.crt", "server.key").load()
async with ApiServer(host=loaded.host, tls=loaded.context, ca=loaded.ca) as server:
    ...
```

The check is a TLS handshake in memory, so that OpenSSL decides what a client would: key, chain, dates, use and names.
"""

import hashlib
import os
import re
import ssl
from pathlib import Path
from typing import Final

import msgspec

from levelset.errors import ConfigError
from levelset.http.certificate_authority import Identity, server_context

__all__ = ["CertificateFiles", "LoadedCertificate"]

_HOSTS: Final = ("127.0.0.1", "::1", "localhost")
"""The names of this machine that a certificate may be for, in the order of preference."""
_BLOCK: Final = re.compile(rb"-----BEGIN CERTIFICATE-----.+?-----END CERTIFICATE-----", re.DOTALL)
_SHA1_DIGITS: Final = 40


class LoadedCertificate(msgspec.Struct, frozen=True):
    """The TLS context of a server, the loopback host that its certificate is for, and what clients have to trust."""

    context: ssl.SSLContext
    host: str
    ca: bytes


class CertificateFiles(msgspec.Struct, frozen=True):
    """The files of a server's certificate (with its chain), of its key, and of the CA unless the chain has its root."""

    certificate: str | os.PathLike[str]
    key: str | os.PathLike[str]
    ca: str | os.PathLike[str] | None = None
    thumbprint: str = ""
    """The SHA-1 fingerprint that the certificate must have, in any usual spelling; not checked if empty."""

    def load(self) -> LoadedCertificate:
        """Reads and checks the files; raises ConfigError, which names the file and the cause. Blocks."""
        chain, key = _read(self.certificate), _read(self.key)
        certificates = _certificates(chain, self.certificate)
        _check_thumbprint(certificates[0], self.thumbprint)
        context = server_context(Identity(b"\n".join(certificates) + b"\n", key))
        # A client is given one certificate to trust: that of the file, or the self-signed one that ends the chain.
        anchors = certificates[::-1] if self.ca is None else [b"\n".join(_certificates(_read(self.ca), self.ca))]
        causes = list[str]()
        for anchor in anchors:
            for host in _HOSTS:
                cause = _handshake_error(context, anchor, host)
                if cause is None:
                    return LoadedCertificate(context, host, anchor + b"\n")
                causes.append(cause)
        where = "give its CA certificate, too" if self.ca is None else f"the CA certificate is that of {self.ca}"
        raise ConfigError(
            f"The certificate {self.certificate} cannot be served to clients at one of {', '.join(_HOSTS)}: "
            f"{causes[0]} ({where})."
        )


def _read(path: str | os.PathLike[str]) -> bytes:
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise ConfigError(f"The file {path} cannot be read: {error.strerror or error}.") from error


def _certificates(pem: bytes, path: str | os.PathLike[str]) -> list[bytes]:
    """The certificates in PEM without anything else that is in it, such as a key; raises ConfigError without any."""
    found: list[bytes] = _BLOCK.findall(pem)
    if not found:
        raise ConfigError(f"The file {path} has no certificate: it must be PEM, with BEGIN CERTIFICATE.")
    return found


def _check_thumbprint(certificate: bytes, expected: str) -> None:
    """Raises ConfigError if a SHA-1 fingerprint is expected, and is another one."""
    digits = re.sub("[\\s:\u200e]", "", expected).lower().removeprefix("0x")
    if not digits:
        return
    if len(digits) != _SHA1_DIGITS or re.fullmatch("[0-9a-f]+", digits) is None:
        raise ConfigError(f"{expected!r} is no SHA-1 thumbprint: it has 40 hexadecimal digits.")
    try:
        der = ssl.PEM_cert_to_DER_cert(certificate.decode("ascii"))
    except ValueError as error:
        raise ConfigError(f"The certificate cannot be read: {error}.") from error
    actual = hashlib.sha1(der, usedforsecurity=False).hexdigest()
    if actual != digits:
        raise ConfigError(f"The certificate has the thumbprint {actual}, not {digits}: use the other file.")


def _handshake_error(server: ssl.SSLContext, anchor: bytes, host: str) -> str | None:
    """Why a client that trusts only `anchor` rejects this server at `host`; None if it does not."""
    client = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    client.verify_flags &= ~ssl.VERIFY_X509_PARTIAL_CHAIN  # many clients want the self-signed root
    try:
        client.load_verify_locations(cadata=anchor.decode("ascii"))
    except (ssl.SSLError, ValueError) as error:
        return str(getattr(error, "reason", None) or error)
    to_client, to_server = ssl.MemoryBIO(), ssl.MemoryBIO()
    sides = [
        client.wrap_bio(to_client, to_server, server_hostname=host),
        server.wrap_bio(to_server, to_client, server_side=True),
    ]
    while sides:
        for side in tuple(sides):
            try:
                side.do_handshake()
            except ssl.SSLWantReadError:
                continue
            except ssl.SSLError as error:
                return str(getattr(error, "verify_message", None) or error.reason or error)
            sides.remove(side)
    return None
