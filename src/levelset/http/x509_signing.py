"""Issues X.509 certificates, with keys and signatures of the `cryptography` package; imported only when needed.

The certificates themselves are encoded here (a page of DER): importing the package's x509 module takes three times as
long as creating an authority and its first certificate.
"""

import secrets
from datetime import UTC, datetime, timedelta
from hashlib import sha1
from ipaddress import ip_address
from typing import NamedTuple

from cryptography import exceptions
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec

from levelset.http import der
from levelset.http.certificate_authority import CertificateRequest, CertificateUse, Identity

__all__ = ["Signer", "load_signer", "sign"]

# Clocks differ a little between machines that talk to each other.
_SKEW = timedelta(minutes=5)
_CURVE = ec.SECP256R1()
_COMMON_NAME, _ORGANIZATION = der.oid("2.5.4.3"), der.oid("2.5.4.10")
_MAX_COMMON_NAME = 64
_ECDSA = der.tagged(der.SEQUENCE, der.oid("1.2.840.10045.4.3.2"))
_P256 = der.tagged(der.SEQUENCE, der.oid("1.2.840.10045.2.1"), der.oid("1.2.840.10045.3.1.7"))
_PURPOSES = {CertificateUse.SERVER: der.oid("1.3.6.1.5.5.7.3.1"), CertificateUse.CLIENT: der.oid("1.3.6.1.5.5.7.3.2")}
_VERSION = 0xA0
_TRUE = der.tagged(der.BOOLEAN, b"\xff")


class Signer(NamedTuple):
    """The issuer: its DER name, its key, and its public key as an EC point."""

    name: bytes
    key: ec.EllipticCurvePrivateKey
    point: bytes


def sign(request: CertificateRequest, authority: Identity | None = None) -> Identity:
    """Issues a certificate with a new private key; self-signed without an authority. Raises ValueError."""
    key = ec.generate_private_key(_CURVE)
    subject, point = _name(request), _point(key)
    signer = Signer(subject, key, point) if authority is None else load_signer(authority)
    now = datetime.now(UTC)
    begin, end = now - _SKEW, now + timedelta(days=request.within)
    if end < begin:
        raise ValueError("its lifetime is negative")
    body = der.tagged(
        der.SEQUENCE,
        der.tagged(_VERSION, der.number(2)),  # v3
        der.number(secrets.randbits(158) | 1),
        _ECDSA,
        signer.name,
        der.tagged(der.SEQUENCE, der.time(begin), der.time(end)),
        subject,
        _public(point),
        der.tagged(0xA3, der.tagged(der.SEQUENCE, *_extensions(request, point, signer))),
    )
    signature = signer.key.sign(body, ec.ECDSA(hashes.SHA256()))
    certificate = der.tagged(der.SEQUENCE, body, _ECDSA, der.tagged(der.BITS, b"\0", signature))
    return Identity(der.to_pem("CERTIFICATE", certificate), der.to_pem("PRIVATE KEY", _private(key, point)))


def load_signer(identity: Identity) -> Signer:
    """The name and key of an authority; raises ValueError if it is invalid."""
    certificate = der.from_pem("CERTIFICATE", identity.certificate)
    if certificate is None:
        raise ValueError("it contains no certificate")
    name, public = _subject(certificate)
    key = _load_key(identity.key)
    point = _point(key)
    if not public.endswith(point):
        raise ValueError("the key does not belong to the certificate")
    return Signer(name, key, point)


def _subject(certificate: bytes) -> tuple[bytes, bytes]:
    """The subject of a certificate, and its public key."""
    body = der.value_of(certificate)
    fields = der.parts(der.value_of(der.parts(body)[0])) if body else []
    if fields and fields[0][0] == _VERSION:  # v1 certificates have no version
        del fields[0]
    if len(fields) < 6:
        raise ValueError("the certificate is truncated")
    return fields[4], fields[5]


def _load_key(pem: bytes) -> ec.EllipticCurvePrivateKey:
    own = der.from_pem("PRIVATE KEY", pem) or b""
    frame = _frame(own[36:68], own[-65:])
    if own == frame:  # as `_frame` encodes it: everything but key and point is fixed
        return ec.derive_private_key(int.from_bytes(own[36:68], "big"), _CURVE)
    # Imported late: slow, and only needed for keys of other programs.
    from cryptography.hazmat.primitives.serialization import load_pem_private_key  # noqa: PLC0415

    try:
        key = load_pem_private_key(pem, None)
    except TypeError as error:
        raise ValueError("the key is encrypted with a password") from error
    except exceptions.UnsupportedAlgorithm as error:
        raise ValueError("the key type is not supported") from error
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise ValueError("the key does not belong to the certificate")  # noqa: TRY004 - an input error, not a type error
    return key


def _point(key: ec.EllipticCurvePrivateKey) -> bytes:
    """The public key as an uncompressed EC point."""
    numbers, size = key.public_key().public_numbers(), (key.curve.key_size + 7) // 8
    return b"\x04" + numbers.x.to_bytes(size, "big") + numbers.y.to_bytes(size, "big")


def _public(point: bytes) -> bytes:
    return der.tagged(der.SEQUENCE, _P256, der.tagged(der.BITS, b"\0", point))


def _private(key: ec.EllipticCurvePrivateKey, point: bytes) -> bytes:
    return _frame(key.private_numbers().private_value.to_bytes(32, "big"), point)


def _frame(secret: bytes, point: bytes) -> bytes:
    """A private key as PKCS #8."""
    inner = der.tagged(
        der.SEQUENCE,
        der.number(1),
        der.tagged(der.OCTETS, secret),
        der.tagged(0xA1, der.tagged(der.BITS, b"\0", point)),
    )
    return der.tagged(der.SEQUENCE, der.number(0), _P256, der.tagged(der.OCTETS, inner))


def _name(request: CertificateRequest) -> bytes:
    entries = [*((_ORGANIZATION, one) for one in request.organizations), (_COMMON_NAME, request.name)]
    if not 0 < len(request.name.encode()) <= _MAX_COMMON_NAME:
        raise ValueError(f"a common name must have between 1 and {_MAX_COMMON_NAME} bytes")
    if not all(request.organizations):
        raise ValueError("an organization needs a name")
    return der.tagged(
        der.SEQUENCE,
        *(
            der.tagged(der.SET, der.tagged(der.SEQUENCE, kind, der.tagged(der.UTF8, text.encode())))
            for kind, text in entries
        ),
    )


def _extensions(request: CertificateRequest, point: bytes, signer: Signer) -> list[bytes]:
    is_authority = request.use is CertificateUse.AUTHORITY
    # keyUsage: digitalSignature; for an authority also keyCertSign and cRLSign.
    usage = b"\x01\x86" if is_authority else b"\x07\x80"
    found = [
        _extension(
            "2.5.29.19", der.tagged(der.SEQUENCE, *([_TRUE, der.number(0)] if is_authority else [])), critical=True
        ),
        _extension("2.5.29.15", der.tagged(der.BITS, usage), critical=True),
        _extension("2.5.29.14", der.tagged(der.OCTETS, _fingerprint(point))),
        _extension("2.5.29.35", der.tagged(der.SEQUENCE, der.tagged(0x80, _fingerprint(signer.point)))),
    ]
    if not is_authority:
        found.append(_extension("2.5.29.37", der.tagged(der.SEQUENCE, _PURPOSES[request.use])))
    if request.use is CertificateUse.SERVER:
        names = [der.tagged(0x82, name.encode("ascii")) for name in request.names]
        names += [der.tagged(0x87, ip_address(address).packed) for address in request.addresses]
        found.append(_extension("2.5.29.17", der.tagged(der.SEQUENCE, *names)))
    return found


def _extension(kind: str, value: bytes, *, critical: bool = False) -> bytes:
    return der.tagged(der.SEQUENCE, der.oid(kind), _TRUE if critical else b"", der.tagged(der.OCTETS, value))


def _fingerprint(point: bytes) -> bytes:
    return sha1(point, usedforsecurity=False).digest()  # the key identifier of RFC 5280; no security depends on it
