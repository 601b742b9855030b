"""Makes and signs certificates with the `cryptography` package; imported only when certificates are needed."""

from datetime import UTC, datetime, timedelta
from ipaddress import ip_address

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, load_pem_private_key
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from levelset.web.identities import Identity, Use, Wish

__all__ = ["load", "sign"]

# Clocks differ a little between machines that talk to each other.
_SKEW = timedelta(minutes=5)


def sign(wish: Wish, authority: Identity | None = None) -> Identity:
    """A certificate with a new private key; without an authority it vouches for itself. Raises ValueError."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = _subject(wish)
    issuer, signer = (subject, key) if authority is None else load(authority)
    now = datetime.now(UTC)
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _SKEW)
        .not_valid_after(now + timedelta(days=wish.within))
    )
    for extension, is_critical in _extensions(wish, key, signer):
        builder = builder.add_extension(extension, critical=is_critical)
    certificate = builder.sign(signer, hashes.SHA256()).public_bytes(Encoding.PEM)
    return Identity(certificate, key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))


def load(identity: Identity) -> tuple[x509.Name, ec.EllipticCurvePrivateKey]:
    """The name and the key of an authority; raises ValueError if it is none."""
    try:
        key = load_pem_private_key(identity.key, None)
    except TypeError as error:
        raise ValueError("the key is locked with a password") from error
    certificate = x509.load_pem_x509_certificate(identity.certificate)
    if not isinstance(key, ec.EllipticCurvePrivateKey) or key.public_key() != certificate.public_key():
        raise ValueError("the key does not belong to the certificate")
    return certificate.subject, key


def _subject(wish: Wish) -> x509.Name:
    organizations = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, one) for one in wish.organizations]
    return x509.Name([*organizations, x509.NameAttribute(NameOID.COMMON_NAME, wish.name)])


def _extensions(
    wish: Wish, key: ec.EllipticCurvePrivateKey, signer: ec.EllipticCurvePrivateKey
) -> list[tuple[x509.ExtensionType, bool]]:
    is_authority = wish.use is Use.AUTHORITY
    found: list[tuple[x509.ExtensionType, bool]] = [
        (x509.BasicConstraints(ca=is_authority, path_length=0 if is_authority else None), True),
        (_key_usage(is_authority=is_authority), True),
        (x509.SubjectKeyIdentifier.from_public_key(key.public_key()), False),
        (x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.public_key()), False),
    ]
    if wish.use is Use.CLIENT:
        found.append((x509.ExtendedKeyUsage([ExtendedKeyUsageOID.CLIENT_AUTH]), False))
    if wish.use is Use.SERVER:
        names: list[x509.GeneralName] = [x509.DNSName(name) for name in wish.names]
        names += [x509.IPAddress(ip_address(address)) for address in wish.addresses]
        found.append((x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), False))
        found.append((x509.SubjectAlternativeName(names), False))
    return found


def _key_usage(*, is_authority: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        key_cert_sign=is_authority,
        crl_sign=is_authority,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )
