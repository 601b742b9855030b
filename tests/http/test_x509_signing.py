from base64 import b64encode
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_pem_private_key,
)
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID
from hypothesis import given
from hypothesis import strategies as st

from levelset.http.certificate_authority import CertificateRequest, CertificateUse, Identity
from levelset.http.x509_signing import read_validity, sign

OPEN = NoEncryption()
ROOT = CertificateRequest(use=CertificateUse.AUTHORITY, name="röot", within=20_000)
SERVER = CertificateRequest(
    use=CertificateUse.SERVER, name="a.test", within=1, names=("a.test", "localhost"), addresses=("127.0.0.1", "::1")
)
CLIENT = CertificateRequest(
    use=CertificateUse.CLIENT, name="eve", within=1, organizations=("system:masters", "people" * 40)
)


@pytest.fixture(scope="module")
def root() -> Identity:
    return sign(ROOT)


def read(identity: Identity) -> x509.Certificate:
    return x509.load_pem_x509_certificate(identity.certificate)


def extension(certificate: x509.Certificate, kind: Any) -> tuple[Any, bool]:
    found: Any = certificate.extensions.get_extension_for_class(kind)
    return found.value, found.critical


@pytest.mark.parametrize("request_", [SERVER, CLIENT])
def test_a_certificate_has_subject_issuer_and_validity(root, request_):
    certificate, issuer = read(sign(request_, root)), read(root)
    certificate.verify_directly_issued_by(issuer)
    assert certificate.version is x509.Version.v3
    assert certificate.issuer == issuer.subject
    assert [one.value for one in certificate.subject] == [*request_.organizations, request_.name]
    assert [one.oid for one in certificate.subject][-1] == NameOID.COMMON_NAME
    length = certificate.not_valid_after_utc - certificate.not_valid_before_utc
    assert timedelta(days=1) < length < timedelta(days=1, minutes=6)
    assert certificate.not_valid_before_utc < datetime.now(UTC)
    assert certificate.serial_number > 2**64


def test_an_authority_is_self_signed_and_may_sign(root):
    certificate = read(root)
    certificate.verify_directly_issued_by(certificate)
    assert certificate.not_valid_after_utc.year >= 2050
    assert extension(certificate, x509.BasicConstraints) == (x509.BasicConstraints(ca=True, path_length=0), True)
    usage, is_critical = extension(certificate, x509.KeyUsage)
    assert (usage.digital_signature, usage.key_cert_sign, usage.crl_sign, is_critical) == (True, True, True, True)


@pytest.mark.parametrize(
    ("request_", "purpose"), [(SERVER, ExtendedKeyUsageOID.SERVER_AUTH), (CLIENT, ExtendedKeyUsageOID.CLIENT_AUTH)]
)
def test_a_certificate_has_its_key_usages(root, request_, purpose):
    certificate = read(sign(request_, root))
    assert extension(certificate, x509.BasicConstraints) == (x509.BasicConstraints(ca=False, path_length=None), True)
    usage, _ = extension(certificate, x509.KeyUsage)
    assert (usage.digital_signature, usage.key_cert_sign, usage.crl_sign) == (True, False, False)
    assert extension(certificate, x509.ExtendedKeyUsage) == (x509.ExtendedKeyUsage([purpose]), False)


def test_a_certificate_has_subject_and_authority_key_identifiers(root):
    certificate, issuer = read(sign(SERVER, root)), read(root)
    own = x509.SubjectKeyIdentifier.from_public_key(certificate.public_key())
    signer = x509.AuthorityKeyIdentifier.from_issuer_public_key(issuer.public_key())
    assert extension(certificate, x509.SubjectKeyIdentifier) == (own, False)
    assert extension(certificate, x509.AuthorityKeyIdentifier) == (signer, False)


def test_a_server_certificate_has_subject_alternative_names(root):
    names = [x509.DNSName(name) for name in SERVER.names] + [x509.IPAddress(ip_address(ip)) for ip in SERVER.addresses]
    found = extension(read(sign(SERVER, root)), x509.SubjectAlternativeName)
    assert found == (x509.SubjectAlternativeName(names), False)


def test_a_private_key_is_encoded_as_pkcs_8(root):
    key = load_pem_private_key(root.key, None)
    assert root.key == key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    form = (Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    assert key.public_key().public_bytes(*form) == read(root).public_key().public_bytes(*form)


@pytest.mark.parametrize("curve", [ec.SECP256R1(), ec.SECP384R1()])
def test_an_authority_of_another_program_can_sign(curve):
    key = ec.generate_private_key(curve)
    other = foreign(key, PrivateFormat.TraditionalOpenSSL)
    certificate = read(sign(SERVER, other))
    certificate.verify_directly_issued_by(read(other))


@pytest.mark.parametrize(
    ("key", "text"),
    [
        (rsa.generate_private_key(65537, 2048), "not an elliptic-curve key"),
        (ec.generate_private_key(ec.SECP256R1()), "password"),
    ],
)
def test_a_key_that_cannot_sign_here_is_refused(key, text):
    lock = BestAvailableEncryption(b"x") if text == "password" else NoEncryption()
    with pytest.raises(ValueError, match=text):
        sign(SERVER, foreign(key, PrivateFormat.PKCS8, lock))


@pytest.mark.parametrize(
    "request_",
    [
        CertificateRequest(use=CertificateUse.CLIENT, name="x", within=-1),
        CertificateRequest(use=CertificateUse.CLIENT, name="x" * 65, within=1),
        CertificateRequest(use=CertificateUse.CLIENT, name="", within=1),
        CertificateRequest(use=CertificateUse.CLIENT, name="x", within=1, organizations=("",)),
    ],
)
def test_an_unusable_certificate_is_refused(root, request_):
    with pytest.raises(ValueError, match="."):
        sign(request_, root)


@given(st.integers(0, 10_000), st.integers(0, 255))
def test_a_damaged_authority_is_refused_or_harmless(root, place, byte):
    der = read(root).public_bytes(Encoding.DER)
    place %= len(der)
    damaged = der[:place] + bytes([byte]) + der[place + 1 :]
    for data in (damaged, damaged[:place]):
        pem = f"-----BEGIN CERTIFICATE-----\n{b64encode(data).decode()}\n-----END CERTIFICATE-----\n".encode()
        with suppress(ValueError):
            read_validity(pem)
        with suppress(ValueError):
            sign(CLIENT, Identity(pem, root.key))


def foreign(key, form, lock=OPEN) -> Identity:
    """An authority as the package itself makes it."""
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "foreign")])
    now = datetime.now(UTC)
    builder = (
        x509.CertificateBuilder().subject_name(name).issuer_name(name).serial_number(7).public_key(key.public_key())
    )
    builder = builder.not_valid_before(now).not_valid_after(now + timedelta(days=1))
    signed = builder.add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True).sign(
        key, hashes.SHA256()
    )
    return Identity(signed.public_bytes(Encoding.PEM), key.private_bytes(Encoding.PEM, form, lock))
