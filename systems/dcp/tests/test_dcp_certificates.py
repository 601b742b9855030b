"""Certificates of programs: files, the names by which OpenSSL finds them, and what is no certificate."""

import shutil
import ssl
import subprocess
from pathlib import Path

import pytest

from levelset.http import Authority
from levelset_dcp.executables.certificates import BadCertificate, remove_certificates, write_certificates
from levelset_dcp.kinds import Certificate, Certificates
from levelset_dcp.subjects import subject_hash

ONE = Authority.create("Some  Authority ").certificate.decode()
TWO = Authority.create("another").certificate.decode()


def both(*, continue_on_error: bool = False, more: tuple[Certificate, ...] = ()) -> Certificates:
    several = (Certificate(thumbprint="a1", contents=ONE), Certificate(thumbprint="b2", contents=f"\n{TWO}"), *more)
    return Certificates(certificates=several, continue_on_error=continue_on_error)


def test_each_is_a_file_and_all_are_one(tmp_path: Path) -> None:
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


def test_openssl_finds_them_by_their_names(tmp_path: Path) -> None:
    folder = tmp_path / "uid" / "certs"
    write_certificates(folder, both())
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.load_verify_locations(capath=str(folder))
    program = shutil.which("openssl")
    for name in ("a1", "b2"):
        made = subject_hash((folder / f"{name}.pem").read_text(encoding="utf-8"))
        assert (folder / f"{made}.0").resolve() == (folder / f"{name}.pem").resolve()
        if program is not None:
            told = [program, "x509", "-subject_hash", "-noout", "-in", str(folder / f"{name}.pem")]
            assert subprocess.run(told, capture_output=True, text=True, check=True).stdout.strip() == made


BROKEN = (Certificate(thumbprint="c3", contents="no certificate"),)
CUT = (Certificate(thumbprint="c3", contents=ssl.DER_cert_to_PEM_cert(ssl.PEM_cert_to_DER_cert(ONE)[:40])),)


@pytest.mark.parametrize("wrong", [BROKEN, CUT], ids=["text", "half"])
def test_what_is_none_is_named_or_passed_over(wrong: tuple[Certificate, ...], tmp_path: Path) -> None:
    with pytest.raises(BadCertificate, match="certificate c3: it is no certificate in PEM"):
        write_certificates(tmp_path / "one", both(more=wrong))
    write_certificates(tmp_path / "two", both(more=wrong, continue_on_error=True))
    assert not (tmp_path / "two" / "c3.pem").exists()
    assert (tmp_path / "two" / "b2.pem").exists()


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("", encoding="utf-8")
    with pytest.raises(BadCertificate, match="cannot be written"):
        write_certificates(tmp_path / "file" / "certs", both())
