import asyncio
import http.client
import json
import ssl

import pytest

from levelset.apiserver.server import ApiServer
from levelset.errors import ConfigError
from levelset.http import Headers, Peer, Request, Response
from levelset.storage import MemoryStorage
from tests.apiserver.box import CONFIGMAPS, configmap, open_box


def fetch(server: ApiServer, path: str, context: ssl.SSLContext | None, **headers: str) -> tuple[int, bytes]:
    host = server.url.partition("//")[2]
    if context is None:
        connection = http.client.HTTPConnection(host, timeout=10)
    else:
        connection = http.client.HTTPSConnection(host, timeout=10, context=context)
    try:
        connection.request("GET", path, headers=headers)
        answer = connection.getresponse()
        return answer.status, answer.read()
    finally:
        connection.close()


async def test_over_tls_a_token_or_a_certificate_opens_the_door() -> None:
    async with ApiServer(token="secret") as server:
        assert server.authority is not None
        plain = await asyncio.to_thread(server.authority.client_context)
        path = "/api/v1/namespaces/default"
        assert (await asyncio.to_thread(fetch, server, path, plain))[0] == 401
        status, body = await asyncio.to_thread(fetch, server, path, plain, Authorization="Bearer secret")
        assert (status, json.loads(body)["metadata"]["name"]) == (200, "default")
        identity = await asyncio.to_thread(server.authority.issue_client, "root", ["system:masters"])
        shown = await asyncio.to_thread(server.authority.client_context, identity)
        assert (await asyncio.to_thread(fetch, server, path, shown))[0] == 200
        identity = await asyncio.to_thread(server.authority.issue_client, "jane", ["team"])
        shown = await asyncio.to_thread(server.authority.client_context, identity)
        assert (await asyncio.to_thread(fetch, server, path, shown))[0] == 403


async def test_without_tls_there_is_nothing_to_trust() -> None:
    async with ApiServer(tls=False, token="t", tokens=["u"]) as server:
        assert server.ca is None
        assert server.url.startswith("http://127.0.0.1:")
        for token in ("t", "u"):
            assert (await asyncio.to_thread(fetch, server, "/api", None, Authorization=f"Bearer {token}"))[0] == 200


async def test_a_made_up_token_is_a_secret() -> None:
    assert ApiServer().token != ApiServer().token


async def test_before_the_start_there_is_no_address() -> None:
    with pytest.raises(ConfigError, match="start"):
        _ = ApiServer().url


async def test_a_taken_port_is_told_and_nothing_is_left_behind() -> None:
    async with ApiServer(tls=False) as server:
        other = ApiServer(tls=False, port=int(server.url.rpartition(":")[2]))
        with pytest.raises(ConfigError, match="taken"):
            await other.start()
    assert asyncio.all_tasks() == {asyncio.current_task()}


async def test_a_storage_that_was_given_stays_open() -> None:
    storage = MemoryStorage()
    async with ApiServer(storage, tls=False):
        pass
    assert await storage.get("/registry/core/namespaces/default") is not None
    await storage.put("/x", b"", expected=0)


async def test_a_server_that_was_stopped_is_followed_by_another_on_the_same_storage() -> None:
    storage = MemoryStorage()
    for _ in range(2):
        async with open_box(storage) as box:
            assert (await box.ask("GET", CONFIGMAPS))[0] == 200
        with pytest.raises(ConfigError, match="new one"):
            await box.server.start()
    assert asyncio.all_tasks() == {asyncio.current_task()}


async def _answer(server: ApiServer, request: Request) -> Response:
    made = server.handle(request)
    return made if isinstance(made, Response) else await made


async def test_a_server_that_stops_is_not_ready() -> None:
    async with open_box() as box:
        ready = Request("GET", "/readyz")
        assert (await _answer(box.server, ready)).status == 200
        await box.server.stop()
        assert (await _answer(box.server, ready)).status == 500


async def test_reviews_tell_the_owner_that_everything_is_allowed() -> None:
    async with open_box() as box:
        path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
        body = {"spec": {"resourceAttributes": {"verb": "get", "resource": "pods"}}}
        assert (await box.make(path, body))["status"]["allowed"] is True
        jane = Request("POST", path, headers=Headers(), body=json.dumps(body).encode(), peer=Peer("jane"))
        made = await _answer(box.server, jane)
        assert isinstance(made.body, bytes)
        assert json.loads(made.body)["status"]["allowed"] is False


async def test_compaction_forgets_the_history_and_says_how_much() -> None:
    async with open_box() as box:
        await box.make(CONFIGMAPS, configmap("a"))
        status, told = await box.ask("POST", "/levelset/compact")
        assert (status, told) == (200, {"revision": 5, "compacted": 5, "forgotten": 5})
        assert (await box.ask("GET", "/levelset/compact"))[0] == 405
