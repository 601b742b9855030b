"""Which addresses webhooks may have, and how calls fail."""

import asyncio
import base64
import ssl
from typing import Any
from urllib.parse import urlsplit

import pytest

from levelset.apiserver.wire.webhook_client import WebhookClient, WebhookReach
from levelset.errors import TimedOut, Unreachable
from levelset.http import Response
from tests.apiserver.support.remote_webhook import open_webhook
from tests.http.peers import authority, responding

BODY = b'{"kind":"AdmissionReview","apiVersion":"v1","request":{"uid":"1"}}'


async def test_a_call_returns_the_response_body() -> None:
    async with open_webhook(lambda _: Response(200, (), b"hello")) as webhook:
        assert await WebhookClient().call(webhook.client, BODY, seconds=5) == b"hello"
    assert webhook.queries == ["timeout=5s"]


async def test_a_bundle_may_be_the_certificate_of_the_webhook_itself() -> None:
    async with open_webhook(lambda _: Response(200, (), b"hello")) as webhook:
        parts = urlsplit(webhook.url)
        own = await asyncio.to_thread(ssl.get_server_certificate, (parts.hostname or "", parts.port or 0))
        config = {"url": webhook.url, "caBundle": base64.b64encode(own.encode()).decode()}
        assert await WebhookClient().call(config, BODY, seconds=5) == b"hello"


@pytest.mark.parametrize(
    ("path", "sent"), [("//failing", "/failing"), ("/a/../b/./c//d/", "/b/c/d"), ("", "/"), ("/validate", "/validate")]
)
async def test_the_path_is_cleaned_as_in_go(path: str, sent: str) -> None:
    async with open_webhook(lambda _: Response(200, (), b"hello")) as webhook:
        config = {**webhook.client, "url": f"https://{urlsplit(webhook.url).netloc}{path}"}
        await WebhookClient().call(config, BODY, seconds=5)
    assert webhook.paths == [sent]


async def test_a_call_times_out() -> None:
    async with open_webhook() as webhook:
        webhook.gate = asyncio.Event()
        with pytest.raises(TimedOut, match="context deadline exceeded"):
            await WebhookClient().call(webhook.client, BODY, seconds=0.05)
        webhook.gate.set()


@pytest.mark.parametrize(
    ("url", "reach"),
    [
        ("https://127.0.0.1:1/", "none"),
        ("https://192.0.2.1/", "loopback"),
        ("https://169.254.169.254/latest", "any"),
        ("https://[fe80::1]/", "any"),
        ("https://[::ffff:169.254.169.254]/", "any"),
        ("https://0.0.0.0:1/", "any"),
        ("https://224.0.0.1/", "any"),
    ],
)
async def test_addresses_outside_of_the_reach_are_not_called(url: str, reach: WebhookReach) -> None:
    with pytest.raises(Unreachable, match="are not allowed") as caught:
        await WebhookClient(reach=reach).call({"url": url}, BODY, seconds=5)
    assert not caught.value.is_sent


@pytest.mark.parametrize("url", ["", "http://127.0.0.1/", "https://", "https://[::1", "https://a:99999/", "https://ä/"])
async def test_only_https_urls_are_called(url: str) -> None:
    with pytest.raises(Unreachable):
        await WebhookClient().call({"url": url}, BODY, seconds=5)


async def test_a_service_is_called_at_its_resolved_address() -> None:
    service = {"namespace": "system", "name": "hooks", "path": "/a b", "port": 8443}
    resolved: list[Any] = []
    async with open_webhook(lambda _: Response(200, (), b"here")) as webhook:
        port = int(webhook.url.rpartition(":")[2].partition("/")[0])

        def services(namespace: str, name: str, given: int) -> tuple[str, int]:
            resolved.append((namespace, name, given))
            return "127.0.0.1", port

        config = {"service": service, "caBundle": webhook.client["caBundle"]}
        assert await WebhookClient(services=services).call(config, BODY, seconds=5) == b"here"
    assert resolved == [("system", "hooks", 8443)]


@pytest.mark.parametrize("services", [None, lambda *_: None])
async def test_an_unresolved_service_cannot_be_called(services: Any) -> None:
    config = {"service": {"namespace": "system", "name": "hooks"}}
    with pytest.raises(
        Unreachable,
        match=r'"https://hooks.system.svc:443/\?timeout=5s": the Service hooks.system.svc cannot be resolved',
    ):
        await WebhookClient(services=services).call(config, BODY, seconds=5)


@pytest.mark.parametrize("bundle", ["!", "bm9uZQ==", "/////w=="])
async def test_an_invalid_ca_bundle_fails_the_call(bundle: str) -> None:
    with pytest.raises(Unreachable, match="caBundle"):
        await WebhookClient().call({"url": "https://127.0.0.1:1/", "caBundle": bundle}, BODY, seconds=5)


async def test_calls_of_one_webhook_reuse_a_connection_until_the_client_is_closed() -> None:
    answer = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
    async with responding(answer, answer, stays=True) as peer:
        bundle = base64.b64encode(authority().certificate).decode()
        client = WebhookClient()
        for path in ("/validate", "/mutate"):
            config = {"url": f"https://127.0.0.1:{peer.to.port}{path}", "caBundle": bundle}
            assert await client.call(config, b"{}", seconds=5) == b"ok"
        client.close()
        await peer.ended.acquire()
    assert peer.connections == 1
