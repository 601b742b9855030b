"""Where webhooks may be called, and what a call comes to when they are not there."""

import asyncio
import base64
from typing import Any

import pytest

from levelset.apiserver.wire.webhook_targets import Reachable, Targets
from levelset.errors import TimedOut, Unreachable
from levelset.http import Response
from tests.apiserver.remote import open_webhook
from tests.http.peers import answering, authority

BODY = b'{"kind":"AdmissionReview","apiVersion":"v1","request":{"uid":"1"}}'


async def test_the_body_of_a_good_answer_is_given() -> None:
    async with open_webhook(lambda _: Response(200, (), b"hello")) as webhook:
        assert await Targets().call(webhook.client, BODY, seconds=5) == b"hello"
    assert webhook.queries == ["timeout=5s"]


async def test_a_call_that_takes_too_long_is_given_up() -> None:
    async with open_webhook() as webhook:
        webhook.gate = asyncio.Event()
        with pytest.raises(TimedOut, match="no answer within 0.05 s"):
            await Targets().call(webhook.client, BODY, seconds=0.05)
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
async def test_addresses_that_may_not_be_called_are_not(url: str, reach: Reachable) -> None:
    with pytest.raises(Unreachable, match="may not be called from this server") as caught:
        await Targets(reach=reach).call({"url": url}, BODY, seconds=5)
    assert not caught.value.is_sent


@pytest.mark.parametrize("url", ["", "http://127.0.0.1/", "https://", "https://[::1", "https://a:99999/", "https://ä/"])
async def test_what_is_no_https_url_is_not_called(url: str) -> None:
    with pytest.raises(Unreachable):
        await Targets().call({"url": url}, BODY, seconds=5)


async def test_a_service_is_called_where_somebody_says_it_is() -> None:
    service = {"namespace": "system", "name": "hooks", "path": "/a b", "port": 8443}
    asked: list[Any] = []
    async with open_webhook(lambda _: Response(200, (), b"here")) as webhook:
        port = int(webhook.url.rpartition(":")[2].partition("/")[0])

        def services(namespace: str, name: str, given: int) -> tuple[str, int]:
            asked.append((namespace, name, given))
            return "127.0.0.1", port

        config = {"service": service, "caBundle": webhook.client["caBundle"]}
        assert await Targets(services=services).call(config, BODY, seconds=5) == b"here"
    assert asked == [("system", "hooks", 8443)]


@pytest.mark.parametrize("services", [None, lambda *_: None])
async def test_a_service_that_nobody_knows_cannot_be_called(services: Any) -> None:
    config = {"service": {"namespace": "system", "name": "hooks"}}
    with pytest.raises(Unreachable, match=r'"https://hooks.system.svc:443/\?timeout=5s": nobody said where'):
        await Targets(services=services).call(config, BODY, seconds=5)


@pytest.mark.parametrize("bundle", ["!", "bm9uZQ==", "/////w=="])
async def test_a_bundle_that_holds_no_certificate_is_a_failed_call(bundle: str) -> None:
    with pytest.raises(Unreachable, match="caBundle"):
        await Targets().call({"url": "https://127.0.0.1:1/", "caBundle": bundle}, BODY, seconds=5)


async def test_calls_of_one_webhook_share_a_connection_until_the_targets_are_closed() -> None:
    answer = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
    async with answering(answer, answer, stays=True) as peer:
        bundle = base64.b64encode(authority().certificate).decode()
        targets = Targets()
        for path in ("/validate", "/mutate"):
            config = {"url": f"https://127.0.0.1:{peer.to.port}{path}", "caBundle": bundle}
            assert await targets.call(config, b"{}", seconds=5) == b"ok"
        targets.close()
        await peer.ended.acquire()
    assert peer.connections == 1
