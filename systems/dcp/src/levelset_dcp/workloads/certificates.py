"""Certificates of workloads: files and OpenSSL subject hashes."""

import hashlib
import os
import shutil
import ssl
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from levelset.errors import LevelsetError
from levelset_dcp.kinds import Certificate, Certificates

__all__ = [
    "BadCertificate",
    "NoCertificate",
    "certificate_folder",
    "remove_certificates",
    "subject_hash",
    "write_certificates",
]

_SEQUENCE: Final = 0x30
_SET: Final = 0x31
_OID: Final = 0x06
_UTF8: Final = 0x0C
_VERSION: Final = 0xA0
_CODECS: Final = {
    0x0C: "utf-8",
    0x13: "ascii",
    0x14: "latin-1",
    0x16: "ascii",
    0x1A: "ascii",
    0x1C: "utf-32-be",
    0x1E: "utf-16-be",
}
_SPACES: Final = " \t\n\v\f\r"


class NoCertificate(ValueError):
    """A text that is not a PEM certificate; the message says why."""


def subject_hash(pem: str) -> str:
    """The subject hash of a certificate, as `openssl x509 -hash` prints it; raises NoCertificate."""
    try:
        certificate = ssl.PEM_cert_to_DER_cert(pem.strip())
        (_, whole), *_ = _parts(certificate)
        (_, content), *_ = _parts(whole)
        fields = [one for one in _parts(content) if one[0] != _VERSION]
        subject = fields[4][1]  # after the number, the algorithm, the issuer and the validity
        canonical = b"".join(_tagged(_SET, _canonical_set(one)) for _, one in _parts(subject))
    except (ValueError, IndexError) as error:
        raise NoCertificate(f"not a PEM certificate: {error}") from error
    digest = hashlib.sha1(canonical, usedforsecurity=False).digest()
    return f"{int.from_bytes(digest[:4], 'little'):08x}"


def _canonical_set(content: bytes) -> bytes:
    """The attributes of one RDN set in OpenSSL's canonical form."""
    made: list[bytes] = []
    for _, attribute in _parts(content):
        (_, oid), (tag, value), *_ = _parts(attribute)
        pair = _tagged(_OID, oid) + _canonical_value(tag, value)
        made.append(_tagged(_SEQUENCE, pair))
    return b"".join(sorted(made))


def _canonical_value(tag: int, value: bytes) -> bytes:
    """A string in lower case with single spaces; values of other types are unchanged."""
    if tag not in _CODECS:
        return _tagged(tag, value)
    text = value.decode(_CODECS[tag]).strip(_SPACES)
    words: list[str] = []
    for letter in text:
        if letter not in _SPACES:
            words.append(letter.lower() if letter.isascii() else letter)
        elif words and words[-1] != " ":
            words.append(" ")
    return _tagged(_UTF8, "".join(words).encode())


def _parts(data: bytes) -> Iterator[tuple[int, bytes]]:
    """The tags and contents of consecutive DER values."""
    position = 0
    while position < len(data):
        tag, length, position = data[position], data[position + 1], position + 2
        if length & 0x80:
            count = length & 0x7F
            length, position = int.from_bytes(data[position : position + count], "big"), position + count
        if position + length > len(data):
            raise ValueError("the DER data is truncated")
        yield tag, data[position : position + length]
        position += length


def _tagged(tag: int, content: bytes) -> bytes:
    size = len(content)
    if size < 0x80:
        return bytes((tag, size)) + content
    length = size.to_bytes((size.bit_length() + 7) // 8, "big")
    return bytes((tag, 0x80 | len(length))) + length + content


class BadCertificate(LevelsetError):
    """A certificate that cannot be parsed or written; the message names it."""


def certificate_folder(folder: Path, uid: str) -> Path:
    """The directory of an Executable's certificates."""
    return folder / uid / "certs"


def write_certificates(folder: Path, certificates: Certificates) -> Mapping[str, str]:
    """Writes each certificate and a bundle of all; returns the environment variables that name them. Blocks."""
    try:
        # An earlier attempt may have written other certificates.
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(mode=0o700, parents=True)
        written = [one for one in certificates.certificates if _write(folder, one, certificates.continue_on_error)]
        bundle = folder / "cert.pem"
        _save(bundle, "".join(f"{one.contents.strip()}\n" for one in written))
    except OSError as error:
        raise BadCertificate(f"cannot write the certificates to {folder}: {error}") from error
    # The system's certificates stay trusted.
    usual = ssl.get_default_verify_paths().openssl_capath
    return {"SSL_CERT_DIR": f"{folder}{os.pathsep}{usual}", "DCP_CERT_BUNDLE": str(bundle)}


def _write(folder: Path, one: Certificate, may_fail: bool) -> bool:
    """Writes one certificate and its OpenSSL hash link; False if it is invalid and `may_fail`."""
    try:
        subject = subject_hash(one.contents)
    except NoCertificate as error:
        if may_fail:
            return False
        raise BadCertificate(f"certificate {one.thumbprint}: {error}") from error
    path = folder / f"{one.thumbprint}.pem"
    _save(path, f"{one.contents.strip()}\n")
    # Certificates with the same subject hash are numbered.
    number = sum(1 for _ in folder.glob(f"{subject}.*"))
    (folder / f"{subject}.{number}").symlink_to(path.name)
    return True


def _save(path: Path, text: str) -> None:
    path.write_text(text, encoding="utf-8")
    path.chmod(0o600)


def remove_certificates(folder: Path) -> None:
    """Removes the certificates, if there are any. Blocks."""
    shutil.rmtree(folder.parent, ignore_errors=True)
