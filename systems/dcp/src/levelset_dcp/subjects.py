"""The name under which OpenSSL looks for a certificate: eight hexadecimal digits that follow from its subject; pure."""

import hashlib
import ssl
from collections.abc import Iterator
from typing import Final

__all__ = ["NoCertificate", "subject_hash"]

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
    """Something that is no certificate in PEM; the words say why."""


def subject_hash(pem: str) -> str:
    """The hash of the subject of a certificate, as `openssl x509 -hash` shows it; NoCertificate if it is none."""
    try:
        certificate = ssl.PEM_cert_to_DER_cert(pem.strip())
        (_, whole), *_ = _parts(certificate)
        (_, content), *_ = _parts(whole)
        fields = [one for one in _parts(content) if one[0] != _VERSION]
        subject = fields[4][1]  # after the number, the algorithm, the issuer and the validity
        canonical = b"".join(_tagged(_SET, _canonical_set(one)) for _, one in _parts(subject))
    except (ValueError, IndexError) as error:
        raise NoCertificate(f"it is no certificate in PEM: {error}") from error
    digest = hashlib.sha1(canonical, usedforsecurity=False).digest()
    return f"{int.from_bytes(digest[:4], 'little'):08x}"


def _canonical_set(content: bytes) -> bytes:
    """The attributes of one set in the form that OpenSSL compares."""
    made: list[bytes] = []
    for _, attribute in _parts(content):
        (_, oid), (tag, value), *_ = _parts(attribute)
        pair = _tagged(_OID, oid) + _canonical_value(tag, value)
        made.append(_tagged(_SEQUENCE, pair))
    return b"".join(sorted(made))


def _canonical_value(tag: int, value: bytes) -> bytes:
    """A text in small letters, with single spaces; what is no text stays as it is."""
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
    """The tags and contents of what stands in DER one after the other."""
    place = 0
    while place < len(data):
        tag, length, place = data[place], data[place + 1], place + 2
        if length & 0x80:
            count = length & 0x7F
            length, place = int.from_bytes(data[place : place + count], "big"), place + count
        if place + length > len(data):
            raise ValueError("it is cut short")
        yield tag, data[place : place + length]
        place += length


def _tagged(tag: int, content: bytes) -> bytes:
    size = len(content)
    if size < 0x80:
        return bytes((tag, size)) + content
    length = size.to_bytes((size.bit_length() + 7) // 8, "big")
    return bytes((tag, 0x80 | len(length))) + length + content
