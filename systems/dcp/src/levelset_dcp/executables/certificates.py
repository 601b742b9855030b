"""Certificates of a program: written to files before it starts, with the links that OpenSSL looks for."""

import os
import shutil
import ssl
from collections.abc import Mapping
from pathlib import Path

from levelset.errors import LevelsetError
from levelset_dcp.kinds import Certificate, Certificates
from levelset_dcp.subjects import NoCertificate, subject_hash

__all__ = ["BadCertificate", "certificate_folder", "remove_certificates", "write_certificates"]


class BadCertificate(LevelsetError):
    """A certificate that cannot be read or written; the words say which."""


def certificate_folder(folder: Path, uid: str) -> Path:
    """Where the certificates of a program are."""
    return folder / uid / "certs"


def write_certificates(folder: Path, certificates: Certificates) -> Mapping[str, str]:
    """Writes each certificate to its file, and all of them to one; gives the variables that point to them. Blocks."""
    try:
        # Anew: what an earlier attempt has written may be less, or more.
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(mode=0o700, parents=True)
        written = [one for one in certificates.certificates if _write(folder, one, certificates.continue_on_error)]
        bundle = folder / "cert.pem"
        _save(bundle, "".join(f"{one.contents.strip()}\n" for one in written))
    except OSError as error:
        raise BadCertificate(f"the certificates cannot be written to {folder}: {error}") from error
    # Those of the machine stay trusted.
    usual = ssl.get_default_verify_paths().openssl_capath
    return {"SSL_CERT_DIR": f"{folder}{os.pathsep}{usual}", "DCP_CERT_BUNDLE": str(bundle)}


def _write(folder: Path, one: Certificate, may_fail: bool) -> bool:
    """Writes one certificate, and the name by which OpenSSL finds it; whether that could be done."""
    try:
        mark = subject_hash(one.contents)
    except NoCertificate as error:
        if may_fail:
            return False
        raise BadCertificate(f"certificate {one.thumbprint}: {error}") from error
    path = folder / f"{one.thumbprint}.pem"
    _save(path, f"{one.contents.strip()}\n")
    # Several may be for the same name, and are told apart by a number.
    number = sum(1 for _ in folder.glob(f"{mark}.*"))
    (folder / f"{mark}.{number}").symlink_to(path.name)
    return True


def _save(path: Path, text: str) -> None:
    path.write_text(text, encoding="utf-8")
    path.chmod(0o600)


def remove_certificates(folder: Path) -> None:
    """Removes what was written; it is no error if there is nothing. Blocks."""
    shutil.rmtree(folder.parent, ignore_errors=True)
