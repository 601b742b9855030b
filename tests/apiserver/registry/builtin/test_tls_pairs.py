"""What kube-apiserver warns of in TLS Secrets, as 1.36.4 answered the same objects."""

import base64
from datetime import datetime, timedelta

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import BestAvailableEncryption, Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

from levelset.apiserver.registry.builtin.tls_pairs import pair_problem
from tests.apiserver.support.in_process_server import open_server

Key = ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey


def certificate(key: Key) -> bytes:
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "a")])
    builder = x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key())
    start = datetime(2026, 1, 1)
    dated = builder.serial_number(5).not_valid_before(start).not_valid_after(start + timedelta(days=9))
    return dated.sign(key, SHA256()).public_bytes(Encoding.PEM)


def encoded(key: Key, form: PrivateFormat = PrivateFormat.PKCS8, password: bytes = b"") -> bytes:
    return key.private_bytes(Encoding.PEM, form, BestAvailableEncryption(password) if password else NoEncryption())


def block(kind: bytes, content: bytes = b"x") -> bytes:
    return b"-----BEGIN %b-----\n%b\n-----END %b-----\n" % (kind, base64.b64encode(content), kind)


EC, OTHER = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())
CERTIFICATE, KEY = certificate(EC), encoded(EC)
TRADITIONAL = PrivateFormat.TraditionalOpenSSL
FOUND = "tls: failed to find certificate PEM data in certificate input, but did find a private key"
SWITCHED = f"{FOUND}; PEM inputs may have been switched"
SKIPPED = "after skipping PEM blocks of the following types:"


@pytest.mark.parametrize(
    ("crt", "key"),
    [
        (CERTIFICATE, KEY),
        (CERTIFICATE, encoded(EC, TRADITIONAL)),
        (CERTIFICATE + certificate(OTHER), block(b"EC PARAMETERS") + KEY),
        (CERTIFICATE + block(b"CERTIFICATE"), KEY),
        (b"hello\n" + CERTIFICATE, b"hello\n" + KEY),
        (CERTIFICATE.replace(b"\n", b"\r\n"), KEY.replace(b"\n", b"\n\n")),
        (CERTIFICATE.rstrip(), KEY.rstrip()),
    ],
)
def test_a_certificate_and_its_key_are_a_pair_whatever_is_around_them(crt: bytes, key: bytes) -> None:
    assert not pair_problem(crt, key)


@pytest.mark.parametrize(
    ("crt", "key", "problem"),
    [
        (b"", b"", "tls: failed to find any PEM data in certificate input"),
        (b"  " + CERTIFICATE, KEY, "tls: failed to find any PEM data in certificate input"),
        (CERTIFICATE.replace(b"A", b"!"), KEY, "tls: failed to find any PEM data in certificate input"),
        (CERTIFICATE, b"x", "tls: failed to find any PEM data in key input"),
        (
            *(KEY, CERTIFICATE),
            SWITCHED,
        ),
        (
            *(block(b"PUBLIC KEY") + block(b"FOO"), KEY),
            f'tls: failed to find "CERTIFICATE" PEM block in certificate input {SKIPPED} [PUBLIC KEY FOO]',
        ),
        (CERTIFICATE, CERTIFICATE, "tls: found a certificate rather than a key in the PEM for the private key"),
        (
            *(CERTIFICATE, block(b"PUBLIC KEY")),
            f'tls: failed to find PEM block with type ending in "PRIVATE KEY" in key input {SKIPPED} [PUBLIC KEY]',
        ),
        (block(b"CERTIFICATE"), KEY, "x509: malformed certificate"),
        (CERTIFICATE, block(b"PRIVATE KEY"), "tls: failed to parse private key"),
        (CERTIFICATE, encoded(EC, TRADITIONAL, b"secret"), "tls: failed to parse private key"),
        (CERTIFICATE, encoded(EC, password=b"secret"), "tls: failed to parse private key"),
        (CERTIFICATE, encoded(OTHER), "tls: private key does not match public key"),
    ],
)
def test_what_is_no_pair_is_named_in_the_words_of_go(crt: bytes, key: bytes, problem: str) -> None:
    assert pair_problem(crt, key) == problem


def test_a_key_of_another_type_is_named() -> None:
    key = encoded(rsa.generate_private_key(65537, 2048))
    assert pair_problem(CERTIFICATE, key) == "tls: private key type does not match public key type"


async def test_a_tls_secret_is_accepted_with_a_warning() -> None:
    tree = {"metadata": {"name": "a"}, "type": "kubernetes.io/tls", "stringData": {"tls.crt": "x", "tls.key": "y"}}
    async with open_server() as server:
        response = await server.send("POST", "/api/v1/namespaces/default/secrets", tree)
    assert response.status == 201
    assert dict(response.headers)["Warning"] == '299 - "tls: failed to find any PEM data in certificate input"'


@pytest.mark.parametrize(("serial", "problem"), [(0, ""), (0x85, "x509: negative serial number")])
def test_a_serial_number_is_not_negative(serial: int, problem: str) -> None:
    five = b"\x02\x01\x05"
    der = x509.load_pem_x509_certificate(CERTIFICATE).public_bytes(Encoding.DER)
    assert pair_problem(block(b"CERTIFICATE", der.replace(five, bytes([2, 1, serial]), 1)), KEY) == problem
