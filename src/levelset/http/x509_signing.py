"""Issues and reads X.509 certificates with `cryptography`, which is slow to load: imported only when needed.

Keys are ECDSA P-256: generating an RSA key would take longer than the rest of a server's start.
"""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, load_pem_private_key
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from levelset.http.certificate_authority import CertificateRequest, CertificateUse, Identity, Validity

__all__ = ["read_validity", "sign"]

# Clocks differ a little between machines that talk to each other.
_SKEW = timedelta(minutes=5)
_PURPOSES = {
    CertificateUse.SERVER: ExtendedKeyUsageOID.SERVER_AUTH,
    CertificateUse.CLIENT: ExtendedKeyUsageOID.CLIENT_AUTH,
}


def sign(request: CertificateRequest, authority: Identity | None = None) -> Identity:
    """Issues a certificate with a new private key; self-signed without an authority. Raises ValueError."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = _name(request)
    issuer, signer = (subject, key) if authority is None else _load(authority)
    now = datetime.now(UTC)
    given = request.at or now
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(min(now, given) - _SKEW)
        .not_valid_after(max(now, given) + timedelta(days=request.within))
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.public_key()), critical=False)
    )
    for extension, is_critical in _extensions(request):
        builder = builder.add_extension(extension, critical=is_critical)
    certificate = builder.sign(signer, SHA256())
    return Identity(
        certificate.public_bytes(Encoding.PEM),
        key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()),
    )


def read_validity(pem: bytes) -> Validity:
    """The validity of the first certificate in PEM; raises ValueError."""
    certificate = x509.load_pem_x509_certificate(pem)
    return Validity(certificate.not_valid_before_utc, certificate.not_valid_after_utc)


def _load(authority: Identity) -> tuple[x509.Name, ec.EllipticCurvePrivateKey]:
    """The name and the key of an authority; raises ValueError if it cannot sign."""
    certificate = x509.load_pem_x509_certificate(authority.certificate)
    try:
        public, key = certificate.public_key(), load_pem_private_key(authority.key, None)
    except TypeError as error:
        raise ValueError("the key is encrypted with a password") from error
    except UnsupportedAlgorithm as error:
        raise ValueError(f"the key type is not supported: {error}") from error
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise ValueError("the key is not an elliptic-curve key")  # noqa: TRY004 - an input error, not a type error
    if key.public_key() != public:
        raise ValueError("the key does not belong to the certificate")
    return certificate.subject, key


def _name(request: CertificateRequest) -> x509.Name:
    if not all(request.organizations):
        raise ValueError("an organization needs a name")
    return x509.Name(
        [
            *(x509.NameAttribute(NameOID.ORGANIZATION_NAME, one) for one in request.organizations),
            x509.NameAttribute(NameOID.COMMON_NAME, request.name),
        ]
    )


def _extensions(request: CertificateRequest) -> Iterator[tuple[x509.ExtensionType, bool]]:
    """The extensions that say what the certificate is for, each with whether it is critical."""
    is_authority = request.use is CertificateUse.AUTHORITY
    yield x509.BasicConstraints(ca=is_authority, path_length=0 if is_authority else None), True
    yield (
        x509.KeyUsage(
            digital_signature=True,
            key_cert_sign=is_authority,
            crl_sign=is_authority,
            content_commitment=False,
            key_encipherment=False,
            data_encipherment=False,
            key_agreement=False,
            encipher_only=False,
            decipher_only=False,
        ),
        True,
    )
    if not is_authority:
        yield x509.ExtendedKeyUsage([_PURPOSES[request.use]]), False
    if request.use is CertificateUse.SERVER:
        names = [x509.DNSName(name) for name in request.names]
        addresses = [x509.IPAddress(ip_address(address)) for address in request.addresses]
        yield x509.SubjectAlternativeName([*names, *addresses]), False
