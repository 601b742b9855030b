import asyncio
import logging
import ssl
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from levelset import Client, Denied
from levelset.apiserver import ApiServer
from levelset.errors import ConfigError, Forbidden, NotReady
from levelset.http import CertificateAuthority, load_identity
from levelset.runtime.webhook import Endpoint, FileCertificates, OwnCertificates, Webhooks, defaults, validates
from tests.runtime.webhook.https_client import RemoteHook, call, serial_of, tls_context
from tests.runtime.webhook.site_kinds import Site, SiteSpec, definition, request, site, versions

URL = "https://127.0.0.1:9443"
LOCAL: dict[str, Any] = {"url": URL, "host": "127.0.0.1", "port": 0}


class Clock:
    def __init__(self) -> None:
        self.time = datetime.now(UTC)

    def now(self) -> datetime:
        return self.time


def check(one: Site) -> None:
    if one.spec.replicas < 1:
        raise Denied("too few")


def latest(one: Site) -> Site:
    return one.with_spec(image=f"{one.spec.image}:latest")


def review(replicas: int) -> Any:
    reviewed = request(site(replicas=replicas))
    return {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": reviewed}


PATH = "/validate/check.sites.example.dev"


async def test_a_review_is_answered_over_https_with_a_self_signed_authority() -> None:
    async with Endpoint(Webhooks(validates(Site, check), **LOCAL)) as endpoint:
        status, answer = await call(endpoint.port, PATH, review(0), tls_context(endpoint.ca))
        assert (status, answer["response"]["allowed"]) == (200, False)
        assert "valid until" in endpoint.check()


async def test_a_client_that_does_not_trust_our_ca_cannot_connect() -> None:
    async with Endpoint(Webhooks(validates(Site, check), **LOCAL)) as endpoint:
        with pytest.raises(ssl.SSLError):
            await call(endpoint.port, PATH, review(1), tls_context(CertificateAuthority.create("other").certificate))


async def test_a_server_gets_the_same_results_over_https_as_in_process() -> None:
    hooks = [defaults(Site, latest), validates(Site, check)]
    async with Endpoint(Webhooks(hooks, **LOCAL)) as endpoint:
        server = ApiServer(admission=[RemoteHook(one, endpoint) for one in hooks])
        await server.start(listen=False)
        async with await Client.connect(server) as client:
            await client.create(definition("v2"))
            made = await client.create(Site.new("blog", SiteSpec(image="x")))
            assert made.spec.image == "x:latest"
            with pytest.raises(Forbidden, match='webhook "check.sites.example.dev" denied the request: too few'):
                await client.create(Site.new("none", SiteSpec(replicas=0)))
        await server.stop()


async def test_a_certificate_is_renewed_in_time_and_without_a_restart() -> None:
    clock, trusted_bundles = Clock(), []

    async def trust(ca: bytes | None) -> None:
        trusted_bundles.append(ca)

    certificates = OwnCertificates(days=90, now=clock.now)
    webhooks = Webhooks(validates(Site, check), certificates=certificates, **LOCAL)
    async with Endpoint(webhooks, on_trust=trust) as endpoint:
        context = tls_context(endpoint.ca)
        first = await serial_of(endpoint.port, context)
        assert not await endpoint.renew()
        clock.time += timedelta(days=61)
        reader, writer = await asyncio.open_connection("127.0.0.1", endpoint.port, ssl=context)
        assert await endpoint.renew()
        assert await serial_of(endpoint.port, context) != first
        writer.write(b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        assert b"404" in await reader.readline()
        writer.close()
        await writer.wait_closed()
    assert trusted_bundles == []


async def test_a_new_authority_is_announced_before_it_is_used_and_the_old_one_stays_trusted() -> None:
    clock, trusted_bundles = Clock(), []

    async def trust(ca: bytes | None) -> None:
        trusted_bundles.append((ca, await serial_of(endpoint.port, old)))

    certificates = OwnCertificates(authority_days=300, now=clock.now)
    webhooks = Webhooks(validates(Site, check), certificates=certificates, **LOCAL)
    async with Endpoint(webhooks, on_trust=trust) as endpoint:
        old = tls_context(endpoint.ca)
        first = await serial_of(endpoint.port, old)
        clock.time += timedelta(days=250)
        assert await endpoint.renew()
        assert trusted_bundles == [(endpoint.ca, first)]
        assert endpoint.ca is not None
        assert endpoint.ca.count(b"BEGIN CERTIFICATE") == 2
        assert await serial_of(endpoint.port, tls_context(endpoint.ca)) != first


async def write(folder: Path, authority: CertificateAuthority) -> None:
    def work() -> None:
        authority.issue_server().save(folder / "tls.crt", folder / "tls.key")
        (folder / "ca.crt").write_bytes(authority.certificate)

    await asyncio.to_thread(work)


async def test_renewed_certificate_files_are_loaded(tmp_path: Path) -> None:
    authority = CertificateAuthority.create("files")
    await write(tmp_path, authority)
    webhooks = Webhooks(validates(Site, check), certificates=FileCertificates(tmp_path), **LOCAL)
    async with Endpoint(webhooks, renew_every=0.001) as endpoint:
        context = tls_context(endpoint.ca)
        first = await serial_of(endpoint.port, context)
        await write(tmp_path, authority)
        shown = first
        while shown == first:
            shown = await serial_of(endpoint.port, context)


async def test_a_half_written_renewal_leaves_the_old_certificate_in_place(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    authority = CertificateAuthority.create("files")
    await write(tmp_path, authority)
    webhooks = Webhooks(validates(Site, check), certificates=FileCertificates(tmp_path), **LOCAL)
    async with Endpoint(webhooks, renew_every=3600) as endpoint:
        context = tls_context(endpoint.ca)
        first = await serial_of(endpoint.port, context)
        await asyncio.to_thread((tmp_path / "tls.crt").write_bytes, authority.issue_server().certificate)
        with pytest.raises(ConfigError, match="certificate and its key cannot be used"):
            await endpoint.renew()
        await asyncio.to_thread((tmp_path / "tls.key").unlink)
        with pytest.raises(ConfigError, match=r"tls\.key"):
            await endpoint.renew()
        assert await serial_of(endpoint.port, context) == first
    assert not caplog.records


async def test_a_failed_renewal_is_logged_and_retried(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    await write(tmp_path, CertificateAuthority.create("files"))
    webhooks = Webhooks(validates(Site, check), certificates=FileCertificates(tmp_path), **LOCAL)
    async with Endpoint(webhooks, renew_every=0.001) as endpoint:
        await asyncio.to_thread((tmp_path / "tls.crt").unlink)
        while len(caplog.records) < 2:
            await serial_of(endpoint.port, tls_context(endpoint.ca))
    assert {one.levelno for one in caplog.records} == {logging.ERROR}


async def test_with_client_ca_only_clients_with_a_certificate_are_served() -> None:
    clients = CertificateAuthority.create("clients")
    async with Endpoint(Webhooks(validates(Site, check), **LOCAL), client_ca=clients.certificate) as endpoint:
        stranger, known = tls_context(endpoint.ca), tls_context(endpoint.ca)
        await asyncio.to_thread(load_identity, known, clients.issue_client("apiserver"))
        assert (await call(endpoint.port, PATH, review(1), known))[0] == 200
        with pytest.raises((ssl.SSLError, ConnectionError, IndexError)):
            await call(endpoint.port, PATH, review(1), stranger)
    with pytest.raises(ConfigError, match="client_ca is not a certificate"):
        await Endpoint(Webhooks(validates(Site, check), **LOCAL), client_ca=b"none").start()


async def test_an_endpoint_that_does_not_run_raises_not_ready() -> None:
    endpoint = Endpoint(Webhooks(validates(Site, check), versions(), **LOCAL))
    for read in (lambda: endpoint.ca, lambda: endpoint.port, lambda: endpoint.url, endpoint.check):
        with pytest.raises(NotReady):
            read()
    with pytest.raises(NotReady):
        await endpoint.renew()
    async with endpoint:
        pass
    with pytest.raises(NotReady):
        endpoint.check()
    await endpoint.stop()


async def test_an_expired_certificate_is_not_ready(tmp_path: Path) -> None:
    authority = CertificateAuthority.create("files")
    await asyncio.to_thread(authority.issue_server(within=0).save, tmp_path / "tls.crt", tmp_path / "tls.key")
    webhooks = Webhooks(validates(Site, check), certificates=FileCertificates(tmp_path), **LOCAL)
    async with Endpoint(webhooks) as endpoint:
        assert endpoint.ca is None
        with pytest.raises(NotReady, match="expired at"):
            endpoint.check()


async def test_a_renewal_that_fails_in_an_unexpected_way_is_logged_and_tried_again(
    caplog: pytest.LogCaptureFixture,
) -> None:
    class Broken(OwnCertificates):
        calls = 0

        async def current(self, *args: Any) -> Any:
            self.calls += 1
            if self.calls == 2:
                raise ValueError("the library does not like it")
            if self.calls == 3:
                raise asyncio.CancelledError  # of something that it awaited, not of its task
            if self.calls == 4:
                again.set()
            return await super().current(*args)

    again = asyncio.Event()
    certificates = Broken()
    async with Endpoint(Webhooks(validates(Site, check), certificates=certificates, **LOCAL), renew_every=0.001):
        async with asyncio.timeout(120):
            await again.wait()
    assert "certificate renewal failed" in caplog.text
    assert "the library does not like it" in caplog.text


async def test_a_certificate_that_is_not_valid_yet_because_the_clock_was_set_back_is_replaced() -> None:
    clock = Clock()
    webhooks = Webhooks(validates(Site, check), certificates=OwnCertificates(now=clock.now), **LOCAL)
    async with Endpoint(webhooks, now=clock.now) as endpoint:
        first = await serial_of(endpoint.port, tls_context(endpoint.ca))
        clock.time -= timedelta(days=2)
        with pytest.raises(NotReady, match="not valid before .*: check the clock"):
            endpoint.check()
        assert await endpoint.renew()
        assert await serial_of(endpoint.port, tls_context(endpoint.ca)) != first


async def test_readiness_follows_the_clock_of_the_endpoint() -> None:
    clock = Clock()
    webhooks = Webhooks(validates(Site, check), certificates=OwnCertificates(days=90), **LOCAL)
    async with Endpoint(webhooks, now=clock.now) as endpoint:
        assert "valid until" in endpoint.check()
        clock.time += timedelta(days=91)
        with pytest.raises(NotReady, match="expired"):
            endpoint.check()


def test_the_port_of_the_url_is_the_port_to_listen_on_unless_another_is_given(monkeypatch: pytest.MonkeyPatch) -> None:
    assert Webhooks(url="https://hooks.example.dev:9500").port == 9500
    assert Webhooks(url="https://hooks.example.dev").port == 9443
    assert Webhooks(url="https://hooks.example.dev:9500", port=9600).with_more().port == 9600
    monkeypatch.setenv("LEVELSET_WEBHOOK_URL", "https://127.0.0.1:9700")
    assert Webhooks().port == 9700
    assert Webhooks().with_more().port == 9700


@pytest.mark.parametrize("url", ["https://hooks.example.dev:99999", "https://hooks.example.dev:0", "https://h:x"])
def test_a_url_with_a_port_that_does_not_exist_is_refused(url: str) -> None:
    with pytest.raises(ConfigError, match="https://HOST"):
        Webhooks(url=url)
