"""Certificates of programs: files, OpenSSL hash links, and invalid certificates."""

import shutil
import ssl
import subprocess
from pathlib import Path

import pytest

from levelset.http import CertificateAuthority
from levelset_dcp.kinds import Certificate, Certificates
from levelset_dcp.workloads.certificates import BadCertificate, remove_certificates, subject_hash, write_certificates

ONE = CertificateAuthority.create("Some  Authority ").certificate.decode()
TWO = CertificateAuthority.create("another").certificate.decode()


def both(*, continue_on_error: bool = False, more: tuple[Certificate, ...] = ()) -> Certificates:
    several = (Certificate(thumbprint="a1", contents=ONE), Certificate(thumbprint="b2", contents=f"\n{TWO}"), *more)
    return Certificates(certificates=several, continue_on_error=continue_on_error)


def test_each_certificate_has_a_file_and_all_are_in_a_bundle(tmp_path: Path) -> None:
    folder = tmp_path / "uid" / "certs"
    variables = write_certificates(folder, both())
    write_certificates(folder, both())
    names = {one.name for one in folder.iterdir()}
    assert {"a1.pem", "b2.pem", "cert.pem"} < names
    assert len(names) == 5
    assert variables["SSL_CERT_DIR"].split(":")[0] == str(folder)
    assert Path(variables["DCP_CERT_BUNDLE"]).read_text(encoding="utf-8").count("BEGIN CERTIFICATE") == 2
    assert {one.stat().st_mode & 0o777 for one in folder.iterdir() if not one.is_symlink()} == {0o600}
    assert folder.stat().st_mode & 0o777 == 0o700
    remove_certificates(folder)
    assert not folder.exists()


def test_openssl_finds_certificates_by_their_subject_hash(tmp_path: Path) -> None:
    folder = tmp_path / "uid" / "certs"
    write_certificates(folder, both())
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.load_verify_locations(capath=str(folder))
    program = shutil.which("openssl")
    for name in ("a1", "b2"):
        made = subject_hash((folder / f"{name}.pem").read_text(encoding="utf-8"))
        assert (folder / f"{made}.0").resolve() == (folder / f"{name}.pem").resolve()
        if program is not None:
            command = [program, "x509", "-subject_hash", "-noout", "-in", str(folder / f"{name}.pem")]
            assert subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip() == made


BROKEN = (Certificate(thumbprint="c3", contents="no certificate"),)
CUT = (Certificate(thumbprint="c3", contents=ssl.DER_cert_to_PEM_cert(ssl.PEM_cert_to_DER_cert(ONE)[:40])),)


@pytest.mark.parametrize("wrong", [BROKEN, CUT], ids=["text", "half"])
def test_an_invalid_certificate_is_rejected_or_skipped(wrong: tuple[Certificate, ...], tmp_path: Path) -> None:
    with pytest.raises(BadCertificate, match="certificate c3: not a PEM certificate"):
        write_certificates(tmp_path / "one", both(more=wrong))
    write_certificates(tmp_path / "two", both(more=wrong, continue_on_error=True))
    assert not (tmp_path / "two" / "c3.pem").exists()
    assert (tmp_path / "two" / "b2.pem").exists()


def test_a_directory_that_cannot_be_written_is_reported(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("", encoding="utf-8")
    with pytest.raises(BadCertificate, match="cannot write the certificates"):
        write_certificates(tmp_path / "file" / "certs", both())
