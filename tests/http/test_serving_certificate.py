import asyncio
import logging
import ssl
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from levelset.apiserver import ApiServer
from levelset.errors import ConfigError
from levelset.http import CertificateAuthority, Identity, ServingCertificate, renew_periodically, validity_of
from levelset.testing.virtual_time import virtual

HOUR = 60 * 60.0
DAY = 24 * HOUR


@pytest.fixture(scope="module")
def authority() -> CertificateAuthority:
    return CertificateAuthority.create("of these tests")


def wall_clock() -> Callable[[], datetime]:
    """A wall clock that goes with the virtual clock of the loop."""
    loop = asyncio.get_running_loop()
    began, start = datetime.now(UTC), loop.time()
    return lambda: began + timedelta(seconds=loop.time() - start)


class Handshake:
    """A real TLS connection between two contexts, without a socket."""

    def __init__(self, server: ssl.SSLContext, client: ssl.SSLContext) -> None:
        up, down = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.server = server.wrap_bio(up, down, server_side=True)
        self.client = client.wrap_bio(down, up, server_hostname="localhost")
        for side in (self.client, self.server, self.client, self.server):
            try:
                side.do_handshake()
            except ssl.SSLWantReadError:
                continue
        self.serial: str = str((self.client.getpeercert() or {})["serialNumber"])

    def is_open(self) -> bool:
        self.client.write(b"still here")
        return self.server.read() == b"still here"


@virtual
async def test_a_certificate_is_renewed_before_it_expires_and_open_connections_go_on(authority):
    now, client = wall_clock(), authority.client_context()
    certificate = ServingCertificate(authority, days=90, now=now, every=HOUR)
    context = await certificate.open()
    began = Handshake(context, client)
    await asyncio.sleep(59 * DAY)
    assert Handshake(context, client).serial == began.serial
    await asyncio.sleep(2 * DAY)
    second = Handshake(context, client)
    assert second.serial != began.serial
    await asyncio.sleep(365 * DAY)
    ends = validity_of(_served(context, client)).end
    assert now() + timedelta(days=29) < ends < now() + timedelta(days=91)
    assert began.is_open()
    assert second.is_open()
    await certificate.close()
    serial = Handshake(context, client).serial
    await asyncio.sleep(365 * DAY)
    assert Handshake(context, client).serial == serial  # the renewal has ended with it


def _served(server: ssl.SSLContext, client: ssl.SSLContext) -> bytes:
    der = Handshake(server, client).client.getpeercert(binary_form=True)
    assert der is not None
    return ssl.DER_cert_to_PEM_cert(der).encode()


@virtual
async def test_a_clock_that_is_set_renews_within_a_minute(authority):
    offset = timedelta(0)
    time, client = wall_clock(), authority.client_context()
    certificate = ServingCertificate(authority, days=90, now=lambda: time() + offset)
    context = await certificate.open()
    serials = [Handshake(context, client).serial]
    for offset in (timedelta(days=100), timedelta(days=-100)):
        await asyncio.sleep(61)
        serials.append(Handshake(context, client).serial)
        begin, end = validity_of(_served(context, client))
        assert begin < time() + offset < end
    assert len(set(serials)) == 3
    await certificate.close()


@virtual
async def test_no_certificate_outlives_its_authority_and_the_log_says_that_it_ends(caplog):
    authority = CertificateAuthority.create("short", within=100)
    client = authority.client_context()
    with caplog.at_level(logging.INFO, logger="levelset.http"):
        certificate = ServingCertificate(authority, days=60, now=wall_clock(), every=HOUR)
        context = await certificate.open()
        assert caplog.messages == []
        await asyncio.sleep(99 * DAY)
        await certificate.close()
    expected = ["the certificate authority of the server expires soon: replace it and give clients the new one"]
    assert caplog.messages == [*expected, "using a renewed certificate"]
    assert abs(validity_of(_served(context, client)).end - validity_of(authority.certificate).end) < timedelta(
        minutes=1
    )


@virtual
async def test_a_failed_renewal_is_logged_and_tried_again_with_the_old_certificate_in_use(authority, caplog):
    class Failing(CertificateAuthority):
        fails = 0

        def issue_server(self, *args: Any, **options: Any) -> Identity:
            if self.fails:
                self.fails -= 1
                raise ConfigError("the key cannot be read")
            return super().issue_server(*args, **options)

    failing = Failing(authority.identity)
    certificate = ServingCertificate(failing, days=90, now=wall_clock(), every=HOUR)
    context = await certificate.open()
    first = Handshake(context, authority.client_context()).serial
    failing.fails = 3
    await asyncio.sleep(60 * DAY + 2 * HOUR)
    assert Handshake(context, authority.client_context()).serial == first
    await asyncio.sleep(4 * HOUR)
    assert Handshake(context, authority.client_context()).serial != first
    assert caplog.messages.count("certificate renewal failed") == 3
    await certificate.close()


@virtual
async def test_the_task_of_renewals_survives_whatever_a_renewal_raises(caplog):
    raised: list[BaseException] = [asyncio.CancelledError(), ZeroDivisionError(), OSError("no disk")]
    calls = 0

    async def renew() -> None:
        nonlocal calls
        calls += 1
        if raised:
            raise raised.pop()

    task = asyncio.create_task(renew_periodically(renew, every=60))
    await asyncio.sleep(60 * 5 + 1)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert calls == 5
    assert caplog.messages == ["certificate renewal failed"] * 3


async def test_the_api_server_renews_its_certificate_by_its_clock_and_keeps_its_authority():
    offset = timedelta(0)
    async with ApiServer(now=lambda: datetime.now(UTC) + offset) as server:
        context = ssl.create_default_context(cadata=(server.ca or b"").decode())
        port = int(server.url.rpartition(":")[2])
        first = await asyncio.open_connection("127.0.0.1", port, ssl=context)
        assert server.certificate is not None
        assert not await server.certificate.renew()
        offset = timedelta(days=300)
        assert await server.certificate.renew()
        second = await asyncio.open_connection("127.0.0.1", port, ssl=context)
        serials = {one.get_extra_info("peercert")["serialNumber"] for _, one in (first, second)}
        assert len(serials) == 2
        for reader, writer in (first, second):
            writer.write(b"GET /version HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
            assert b"200" in await reader.readline()
            writer.close()
    assert not [task for task in asyncio.all_tasks() if task.get_name() == "serving certificate"]
