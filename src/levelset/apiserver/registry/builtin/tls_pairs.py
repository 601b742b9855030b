"""Whether the certificate and the key of a TLS Secret are a pair, in the words of Go, which kube-apiserver warns with.

A module of its own, because it loads `cryptography`, which few servers need for anything else.
"""

import binascii
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import dropwhile
from warnings import catch_warnings, simplefilter

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat, load_der_private_key
from cryptography.utils import CryptographyDeprecationWarning

__all__ = ["pair_problem"]

_BEGIN, _END, _DASHES = b"-----BEGIN ", b"-----END ", b"-----"


def pair_problem(certificate: bytes, key: bytes) -> str:
    """Why they cannot be loaded as a pair; empty if they can."""
    leaf, others = _first(certificate, _is_certificate)
    if leaf is None:
        return _no_certificate(others)
    secret, others = _first(key, _is_key)
    if secret is None:
        return _no_key(others)
    try:
        with catch_warnings():  # of a serial number that is not positive, of which Go refuses the negative ones
            simplefilter("ignore", CryptographyDeprecationWarning)
            parsed = x509.load_der_x509_certificate(leaf)
            public, serial = parsed.public_key(), parsed.serial_number
    except (ValueError, UnsupportedAlgorithm):
        return "x509: malformed certificate"
    if serial < 0:
        return "x509: negative serial number"
    try:
        private = load_der_private_key(secret, None, unsafe_skip_rsa_key_validation=True)  # which takes long
    except (ValueError, TypeError, UnsupportedAlgorithm):
        return "tls: failed to parse private key"
    if type(private.public_key()) is not type(public):
        return "tls: private key type does not match public key type"
    form = (Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    if private.public_key().public_bytes(*form) != public.public_bytes(*form):
        return "tls: private key does not match public key"
    return ""


def _is_certificate(kind: str) -> bool:
    return kind == "CERTIFICATE"


def _is_key(kind: str) -> bool:
    return kind == "PRIVATE KEY" or kind.endswith(" PRIVATE KEY")


def _first(text: bytes, is_wanted: Callable[[str], bool]) -> tuple[bytes | None, list[str]]:
    """The content of the first wanted block, and the kinds of the blocks before it."""
    others: list[str] = []
    for kind, content in _blocks(text):
        if is_wanted(kind):
            return content, others
        others.append(kind)
    return None, others


def _blocks(text: bytes) -> Iterator[tuple[str, bytes]]:
    """The PEM blocks of a text, in one pass over its lines; those that cannot be decoded are left out, as by Go."""
    kind: bytes | None = None
    lines: list[bytes] = []
    for line in text.split(b"\n"):
        end = line.rstrip()
        if line.startswith(_BEGIN) and end.endswith(_DASHES):
            kind, lines = end[len(_BEGIN) : -len(_DASHES)], []
        elif kind is not None and end == _END + kind + _DASHES:
            with suppress(binascii.Error):
                body = dropwhile(lambda one: b":" in one, lines)
                yield kind.decode(errors="replace"), binascii.a2b_base64(b"".join(body), strict_mode=True)
            kind = None
        elif kind is not None:
            lines.append(b"".join(line.split()))


def _no_certificate(others: list[str]) -> str:
    if not others:
        return "tls: failed to find any PEM data in certificate input"
    if len(others) == 1 and others[0].endswith("PRIVATE KEY"):
        problem = "tls: failed to find certificate PEM data in certificate input, but did find a private key"
        return f"{problem}; PEM inputs may have been switched"
    problem = 'tls: failed to find "CERTIFICATE" PEM block in certificate input'
    return f"{problem} after skipping PEM blocks of the following types: [{' '.join(others)}]"


def _no_key(others: list[str]) -> str:
    if not others:
        return "tls: failed to find any PEM data in key input"
    if others == ["CERTIFICATE"]:
        return "tls: found a certificate rather than a key in the PEM for the private key"
    problem = 'tls: failed to find PEM block with type ending in "PRIVATE KEY" in key input'
    return f"{problem} after skipping PEM blocks of the following types: [{' '.join(others)}]"
