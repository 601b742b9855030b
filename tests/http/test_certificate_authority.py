import asyncio
import ssl
import stat
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.x509.oid import NameOID

from levelset.errors import ConfigError
from levelset.http.certificate_authority import (
    CertificateAuthority,
    Identity,
    load_identity,
    renew_identity,
    validity_of,
)

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


class HeldExecutor(ThreadPoolExecutor):
    """Starts and finishes its calls one by one, when the test says so."""

    def __init__(self) -> None:
        super().__init__()
        self._waiting: list[tuple[Future[Any], Callable[[], Any]]] = []
        self._running: tuple[Future[Any], Callable[[], Any]] | None = None
        self._futures: list[Future[Any]] = []  # kept, so that only what is closed is closed

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        made: Future[Any] = Future()
        self._futures.append(made)
        self._waiting.append((made, partial(fn, *args, **kwargs)))
        return made

    def step(self) -> bool:
        """Finishes the call that runs, or starts the next one that was not cancelled; False if there is none."""
        if self._running is not None:
            (made, call), self._running = self._running, None
            made.set_result(call())
            return True
        while self._waiting:
            self._running = self._waiting.pop(0)
            if self._running[0].set_running_or_notify_cancel():
                return True
        self._running = None
        return False

    def overtake(self) -> None:
        """Runs the call that waits, before the one that was started does anything."""
        made, call = self._waiting.pop(0)
        assert made.set_running_or_notify_cancel()
        made.set_result(call())


def files_in(folder: Path) -> list[Path]:
    return list(folder.iterdir())


async def let_tasks_run() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


@pytest.mark.usefixtures("file_access")
@pytest.mark.parametrize(
    ("steps", "is_seen"),
    [
        pytest.param(0, True, id="before a thread writes it"),
        pytest.param(1, True, id="while a thread writes it"),
        pytest.param(2, False, id="when it is written"),
        pytest.param(2, True, id="before a thread closes it"),
        pytest.param(3, True, id="while a thread closes it"),
    ],
)
async def test_a_renewal_that_is_cancelled_at_any_time_closes_and_deletes_the_file_of_the_key(
    steps: int, is_seen: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, authority: CertificateAuthority
):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    threads = HeldExecutor()
    asyncio.get_running_loop().set_default_executor(threads)
    context, issued = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), authority.issue_server(["a.test"])
    renewal = asyncio.create_task(renew_identity(context, issued))
    for _ in range(steps):
        await let_tasks_run()
        assert threads.step()
    if is_seen:
        await let_tasks_run()
    renewal.cancel()
    await let_tasks_run()
    while threads.step():
        await let_tasks_run()
    with pytest.raises(asyncio.CancelledError) as caught:  # its traceback holds what the frames have
        await renewal
    assert caught.traceback
    assert files_in(tmp_path) == []


@pytest.mark.usefixtures("file_access")
async def test_a_thread_that_comes_to_write_after_the_cancelled_renewal_was_cleaned_up_writes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, authority: CertificateAuthority
):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    threads = HeldExecutor()
    asyncio.get_running_loop().set_default_executor(threads)
    context, issued = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), authority.issue_server(["a.test"])
    renewal = asyncio.create_task(renew_identity(context, issued))
    await let_tasks_run()
    assert threads.step()
    renewal.cancel()
    await let_tasks_run()
    threads.overtake()
    assert threads.step()
    with pytest.raises(asyncio.CancelledError):
        await renewal
    assert files_in(tmp_path) == []


@pytest.mark.usefixtures("file_access")
async def test_the_file_of_a_key_that_cannot_be_used_is_deleted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, authority: CertificateAuthority
):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    mixed = Identity(authority.issue_server(["a"]).certificate, authority.issue_server(["b"]).key)
    with pytest.raises(ConfigError, match="cannot be used"):
        await renew_identity(ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), mixed)
    assert files_in(tmp_path) == []


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
