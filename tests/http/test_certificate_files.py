import hashlib
import ssl
from pathlib import Path

import pytest

from levelset.errors import ConfigError
from levelset.http import CertificateAuthority, CertificateFiles, Identity


def saved(identity: Identity, folder: Path, *chain: bytes) -> CertificateFiles:
    files = CertificateFiles(folder / "server.crt", folder / "server.key")
    Identity(b"".join([identity.certificate, *chain]), identity.key).save(folder / "server.crt", folder / "server.key")
    return files


def test_the_root_of_the_chain_is_what_clients_have_to_trust(tmp_path: Path, authority: CertificateAuthority):
    loaded = saved(authority.issue_server(), tmp_path, authority.certificate).load()
    assert loaded.host == "127.0.0.1"
    assert loaded.ca == authority.certificate


@pytest.mark.parametrize(
    ("names", "addresses", "host"),
    [(["localhost"], [], "localhost"), ([], ["::1"], "::1"), (["localhost"], ["127.0.0.1", "::1"], "127.0.0.1")],
)
def test_the_host_is_one_that_the_certificate_is_for(
    names: list[str], addresses: list[str], host: str, tmp_path: Path, authority: CertificateAuthority
):
    loaded = saved(authority.issue_server(names, addresses), tmp_path, authority.certificate).load()
    assert loaded.host == host


def test_a_chain_without_its_root_needs_the_file_of_the_authority(tmp_path: Path, authority: CertificateAuthority):
    files = saved(authority.issue_server(), tmp_path)
    with pytest.raises(ConfigError, match="give its CA certificate"):
        files.load()
    (tmp_path / "ca.crt").write_bytes(authority.certificate)
    assert CertificateFiles(files.certificate, files.key, tmp_path / "ca.crt").load().ca == authority.certificate


def test_a_key_in_the_file_of_the_certificates_is_not_given_to_clients(tmp_path: Path, authority: CertificateAuthority):
    loaded = saved(authority.issue_server(), tmp_path, authority.identity.key, authority.certificate).load()
    assert b"PRIVATE KEY" not in loaded.ca


def test_what_a_client_would_reject_is_refused_with_its_cause(tmp_path: Path, authority: CertificateAuthority):
    other = CertificateAuthority.create("other")
    (tmp_path / "other.crt").write_bytes(other.certificate)
    with pytest.raises(ConfigError, match="not valid for '127.0.0.1'|IP address mismatch"):
        saved(authority.issue_server(["a.test"], ["10.0.0.1"]), tmp_path, authority.certificate).load()
    with pytest.raises(ConfigError, match="unsuitable certificate purpose"):
        saved(authority.issue_client("eve"), tmp_path, authority.certificate).load()
    with pytest.raises(ConfigError, match="certificate has expired"):
        saved(authority.issue_server(within=-0.001), tmp_path, authority.certificate).load()
    files = saved(authority.issue_server(), tmp_path)
    with pytest.raises(ConfigError, match="unable to get local issuer certificate"):
        CertificateFiles(files.certificate, files.key, tmp_path / "other.crt").load()
    saved(Identity(authority.issue_server().certificate, other.identity.key), tmp_path)
    with pytest.raises(ConfigError, match="KEY_VALUES_MISMATCH"):
        files.load()


@pytest.mark.parametrize("spelling", ["plain", "upper", "colons", "prefix"])
def test_the_thumbprint_is_compared_in_any_spelling(spelling: str, tmp_path: Path, authority: CertificateAuthority):
    identity = authority.issue_server()
    files = saved(identity, tmp_path, authority.certificate)
    der = ssl.PEM_cert_to_DER_cert(identity.certificate.decode())
    digest = hashlib.sha1(der, usedforsecurity=False).hexdigest()
    spelled = {"upper": digest.upper(), "colons": f"{digest[:2]}:{digest[2:]}", "prefix": f" 0x{digest}"}
    assert CertificateFiles(files.certificate, files.key, thumbprint=spelled.get(spelling, digest)).load().host
    with pytest.raises(ConfigError, match=f"thumbprint {digest}, not {'0' * 40}"):
        CertificateFiles(files.certificate, files.key, thumbprint="0" * 40).load()
    with pytest.raises(ConfigError, match="is no SHA-1 thumbprint"):
        CertificateFiles(files.certificate, files.key, thumbprint="abc").load()


def test_a_file_that_is_missing_or_has_no_certificate_is_named(tmp_path: Path):
    (tmp_path / "empty").write_text("", encoding="utf-8")
    with pytest.raises(ConfigError, match="missing cannot be read: No such file"):
        CertificateFiles(tmp_path / "missing", tmp_path / "empty").load()
    with pytest.raises(ConfigError, match="empty has no certificate"):
        CertificateFiles(tmp_path / "empty", tmp_path / "empty").load()
