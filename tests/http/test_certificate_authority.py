import ssl
import stat
import sys
import time
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.x509.oid import NameOID

from levelset.errors import ConfigError
from levelset.http.certificate_authority import Authority, Identity, load_identity


def test_an_authority_vouches_for_server_and_client_certificates(authority: Authority):
    for identity in (authority.issue_server(["a.test"], ["127.0.0.1", "::1"]), authority.issue_client("eve")):
        certificate = x509.load_pem_x509_certificate(identity.certificate)
        certificate.verify_directly_issued_by(x509.load_pem_x509_certificate(authority.certificate))


def test_a_client_certificate_names_the_user_and_its_groups(authority: Authority):
    subject = x509.load_pem_x509_certificate(authority.issue_client("eve", ["a", "b"]).certificate).subject
    assert [one.value for one in subject.get_attributes_for_oid(NameOID.COMMON_NAME)] == ["eve"]
    assert [one.value for one in subject.get_attributes_for_oid(NameOID.ORGANIZATION_NAME)] == ["a", "b"]


def test_a_certificate_of_the_authority_cannot_sign_others(authority: Authority):
    server = x509.load_pem_x509_certificate(authority.issue_server().certificate)
    assert not server.extensions.get_extension_for_class(x509.BasicConstraints).value.ca


def test_an_authority_goes_on_after_it_was_saved(tmp_path: Path, authority: Authority):
    authority.identity.save(tmp_path / "ca.crt", tmp_path / "ca.key")
    again = Authority(Identity((tmp_path / "ca.crt").read_bytes(), (tmp_path / "ca.key").read_bytes()))
    assert again.issue_server().certificate
    assert stat.S_IMODE((tmp_path / "ca.key").stat().st_mode) == 0o600


def test_an_authority_and_a_server_certificate_are_made_within_20_ms():
    Authority.create("warm")  # loads the package, which happens once
    spent: list[float] = []
    for _ in range(5):
        began = time.process_time()
        Authority.create("timed").issue_server(["localhost"], ["127.0.0.1"])
        spent.append(time.process_time() - began)
    assert min(spent) < 0.02


@pytest.mark.parametrize("identity", [Identity(b"", b""), Identity(b"x", b"y"), Identity(b"\xff", b"\0")])
def test_a_broken_authority_is_a_sentence(identity: Identity):
    with pytest.raises(ConfigError, match="No certificate can be made for 'localhost'"):
        Authority(identity).issue_server()


def test_a_key_of_another_certificate_is_a_sentence(authority: Authority):
    mixed = Identity(authority.certificate, Authority.create("other").identity.key)
    with pytest.raises(ConfigError, match="does not belong"):
        Authority(mixed).issue_server()
    with pytest.raises(ConfigError, match="cannot be used"):
        load_identity(ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), mixed)


def test_a_server_without_a_name_is_a_sentence(authority: Authority):
    with pytest.raises(ConfigError, match="at least one"):
        authority.issue_server([], [])


@pytest.mark.parametrize(("names", "addresses"), [(["ü"], []), ([], ["no address"]), ([""], [])])
def test_a_name_that_no_certificate_can_have_is_a_sentence(
    names: list[str], addresses: list[str], authority: Authority
):
    with pytest.raises(ConfigError, match="No certificate can be made"):
        authority.issue_server(names, addresses)


def test_without_the_package_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delitem(sys.modules, "levelset.http.x509_signing", raising=False)
    monkeypatch.delattr("levelset.http.x509_signing", raising=False)
    monkeypatch.setitem(sys.modules, "cryptography", None)
    with pytest.raises(ConfigError, match=r"install levelset\[tls\]"):
        Authority.create("any")


def test_the_repr_of_an_identity_hides_the_key(authority: Authority):
    assert "PRIVATE" not in repr(authority.identity)
