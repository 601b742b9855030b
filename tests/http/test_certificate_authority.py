import ssl
import stat
import sys
import time
from datetime import timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.x509.oid import NameOID

from levelset.errors import ConfigError
from levelset.http.certificate_authority import CertificateAuthority, Identity, load_identity, validity_of

# Written by the version that had its own DER encoder (cbd5980); valid for 100 years.
EARLIER = b"""-----BEGIN PRIVATE KEY-----
MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQgZFqRInnr6VhDPi/6
2dEga+WqNr8cKEB5mG8b3KHfXrShRANCAASvVffGY7Lyg7Z5cN8ABLwcMwr8CJbF
TD3HEWXw8TIIFzF+AhIB6k6E8b6A6sDafU1R/V8lxplGzzJcYQwLicLh
-----END PRIVATE KEY-----
-----BEGIN CERTIFICATE-----
MIIBjzCCATagAwIBAgIUKBePDJnPU4aLVelJ4/5QZW2KjF0wCgYIKoZIzj0EAwIw
EzERMA8GA1UEAwwIbGV2ZWxzZXQwIBcNMjYxMTE3MDA0MjA5WhgPMjEyNjEwMjQw
MDQ3MDlaMBMxETAPBgNVBAMMCGxldmVsc2V0MFkwEwYHKoZIzj0CAQYIKoZIzj0D
AQcDQgAEr1X3xmOy8oO2eXDfAAS8HDMK/AiWxUw9xxFl8PEyCBcxfgISAepOhPG+
gOrA2n1NUf1fJcaZRs8yXGEMC4nC4aNmMGQwEgYDVR0TAQH/BAgwBgEB/wIBADAO
BgNVHQ8BAf8EBAMCAYYwHQYDVR0OBBYEFGrGViS0peYzeabSuK9muE5N9OrxMB8G
A1UdIwQYMBaAFGrGViS0peYzeabSuK9muE5N9OrxMAoGCCqGSM49BAMCA0cAMEQC
IEll941UYCpDgXOL9EDUIJyq7z5DRz3mJ1Ixq+d7WxWtAiBo9ZpXmuxHeELdEruz
inI3fX+A1KnjPKM2zJxvC0+PWA==
-----END CERTIFICATE-----
"""


def test_an_authority_issues_server_and_client_certificates(authority: CertificateAuthority):
    for identity in (authority.issue_server(["a.test"], ["127.0.0.1", "::1"]), authority.issue_client("eve")):
        certificate = x509.load_pem_x509_certificate(identity.certificate)
        certificate.verify_directly_issued_by(x509.load_pem_x509_certificate(authority.certificate))


def test_a_client_certificate_names_the_user_and_its_groups(authority: CertificateAuthority):
    subject = x509.load_pem_x509_certificate(authority.issue_client("eve", ["a", "b"]).certificate).subject
    assert [one.value for one in subject.get_attributes_for_oid(NameOID.COMMON_NAME)] == ["eve"]
    assert [one.value for one in subject.get_attributes_for_oid(NameOID.ORGANIZATION_NAME)] == ["a", "b"]


def test_a_certificate_of_the_authority_cannot_sign_others(authority: CertificateAuthority):
    server = x509.load_pem_x509_certificate(authority.issue_server().certificate)
    assert not server.extensions.get_extension_for_class(x509.BasicConstraints).value.ca


def test_a_saved_authority_can_be_used_again(tmp_path: Path, authority: CertificateAuthority):
    authority.identity.save(tmp_path / "ca.crt", tmp_path / "ca.key")
    again = CertificateAuthority(Identity((tmp_path / "ca.crt").read_bytes(), (tmp_path / "ca.key").read_bytes()))
    assert again.issue_server().certificate
    assert stat.S_IMODE((tmp_path / "ca.key").stat().st_mode) == 0o600


def test_an_authority_of_an_earlier_version_can_be_used():
    key, begin, certificate = EARLIER.partition(b"-----BEGIN CERTIFICATE-----")
    earlier = CertificateAuthority(Identity(begin + certificate, key))
    server = x509.load_pem_x509_certificate(earlier.issue_server().certificate)
    server.verify_directly_issued_by(x509.load_pem_x509_certificate(earlier.certificate))
    earlier.server_context(earlier.issue_server())
    load_identity(ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), earlier.identity)
    assert validity_of(earlier.certificate).end.year > 2100


def test_an_authority_and_a_server_certificate_are_issued_within_20_ms():
    CertificateAuthority.create("warm")  # loads the package, which happens once
    spent: list[float] = []
    for _ in range(5):
        began = time.process_time()
        CertificateAuthority.create("timed").issue_server(["localhost"], ["127.0.0.1"])
        spent.append(time.process_time() - began)
    assert min(spent) < 0.02


@pytest.mark.parametrize("identity", [Identity(b"", b""), Identity(b"x", b"y"), Identity(b"\xff", b"\0")])
def test_a_broken_authority_is_a_config_error(identity: Identity):
    with pytest.raises(ConfigError, match="No certificate can be issued for 'localhost'"):
        CertificateAuthority(identity).issue_server()


def test_a_key_of_another_certificate_is_a_config_error(authority: CertificateAuthority):
    mixed = Identity(authority.certificate, CertificateAuthority.create("other").identity.key)
    with pytest.raises(ConfigError, match="does not belong"):
        CertificateAuthority(mixed).issue_server()
    with pytest.raises(ConfigError, match="cannot be used"):
        load_identity(ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), mixed)


def test_a_server_certificate_without_a_name_is_a_config_error(authority: CertificateAuthority):
    with pytest.raises(ConfigError, match="at least one"):
        authority.issue_server([], [])


@pytest.mark.parametrize(("names", "addresses"), [(["ü"], []), ([], ["no address"]), ([""], [])])
def test_a_name_that_no_certificate_can_have_is_a_config_error(
    names: list[str], addresses: list[str], authority: CertificateAuthority
):
    with pytest.raises(ConfigError, match="No certificate can be issued"):
        authority.issue_server(names, addresses)


def test_without_the_package_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "cryptography", None)
    with pytest.raises(ConfigError, match=r"install levelset\[tls\]"):
        CertificateAuthority.create("any")
    with pytest.raises(ConfigError, match=r"install levelset\[tls\]"):
        validity_of(b"")


def test_the_repr_of_an_identity_hides_the_key(authority: CertificateAuthority):
    assert "PRIVATE" not in repr(authority.identity)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (b"", "There is no certificate"),
        (b"-----BEGIN CERTIFICATE-----\nMAA=\n-----END CERTIFICATE-----\n", "cannot be read"),
    ],
)
def test_invalid_certificates_have_no_validity(text: bytes, problem: str):
    with pytest.raises(ConfigError, match=problem):
        validity_of(text)


def test_renewal_is_due_in_the_last_part_of_the_validity():
    validity = validity_of(CertificateAuthority.create("x", within=300).certificate)
    assert not validity.is_due(validity.begin + timedelta(days=199), last=1 / 3)
    assert validity.is_due(validity.begin + timedelta(days=201), last=1 / 3)
    far = validity_of(CertificateAuthority.create("x", within=365 * 40).certificate)
    assert far.end.year > 2060
