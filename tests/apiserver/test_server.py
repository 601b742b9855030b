import asyncio
import http.client
import json
import ssl

import pytest

from levelset.apiserver.server import ApiServer, Kinds
from levelset.errors import ConfigError
from levelset.http import Headers, Peer, Request, Response
from levelset.storage import MemoryStorage
from tests.apiserver.support.in_process_server import CONFIGMAPS, configmap, open_server
from tests.apiserver.support.kinds_harness import KindsHarness, definition, load_data


def fetch(server: ApiServer, path: str, context: ssl.SSLContext | None, **headers: str) -> tuple[int, bytes]:
    host = server.url.partition("//")[2]
    if context is None:
        connection = http.client.HTTPConnection(host, timeout=120)
    else:
        connection = http.client.HTTPSConnection(host, timeout=120, context=context)
    try:
        connection.request("GET", path, headers=headers)
        response = connection.getresponse()
        return response.status, response.read()
    finally:
        connection.close()


async def test_over_tls_a_token_or_a_client_certificate_authenticates() -> None:
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


async def test_without_tls_there_is_no_ca_certificate() -> None:
    async with ApiServer(tls=False, token="t", tokens=["u"]) as server:
        assert server.ca is None
        assert server.url.startswith("http://127.0.0.1:")
        for token in ("t", "u"):
            assert (await asyncio.to_thread(fetch, server, "/api", None, Authorization=f"Bearer {token}"))[0] == 200


async def test_a_generated_token_is_secret() -> None:
    assert ApiServer().token != ApiServer().token


async def test_before_the_start_there_is_no_url() -> None:
    with pytest.raises(ConfigError, match="start"):
        _ = ApiServer().url


async def test_a_port_in_use_is_a_config_error_and_leaves_nothing_running() -> None:
    async with ApiServer(tls=False) as server:
        other = ApiServer(tls=False, port=int(server.url.rpartition(":")[2]))
        with pytest.raises(ConfigError, match="in use"):
            await other.start()
    assert asyncio.all_tasks() == {asyncio.current_task()}


async def test_the_storage_of_the_caller_stays_open() -> None:
    storage = MemoryStorage()
    async with ApiServer(storage, tls=False):
        pass
    assert await storage.get("/registry/core/namespaces/default") is not None
    await storage.put("/x", b"", expected=0)


async def test_a_stopped_server_can_be_replaced_on_the_same_storage() -> None:
    storage = MemoryStorage()
    for _ in range(2):
        async with open_server(storage) as api:
            assert (await api.request("GET", CONFIGMAPS))[0] == 200
        with pytest.raises(ConfigError, match="new one"):
            await api.server.start()
    assert asyncio.all_tasks() == {asyncio.current_task()}


async def _answer(server: ApiServer, request: Request) -> Response:
    made = server.handle(request)
    return made if isinstance(made, Response) else await made


async def test_a_stopping_server_is_not_ready() -> None:
    async with open_server() as api:
        ready = Request("GET", "/readyz")
        assert (await _answer(api.server, ready)).status == 200
        await api.server.stop()
        assert (await _answer(api.server, ready)).status == 500


async def test_access_reviews_allow_the_owner_everything() -> None:
    async with open_server() as api:
        path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
        body = {"spec": {"resourceAttributes": {"verb": "get", "resource": "pods"}}}
        assert (await api.create(path, body))["status"]["allowed"] is True
        jane = Request("POST", path, headers=Headers(), body=json.dumps(body).encode(), peer=Peer("jane"))
        made = await _answer(api.server, jane)
        assert isinstance(made.body, bytes)
        assert json.loads(made.body)["status"]["allowed"] is False


async def test_compaction_discards_the_history_and_reports_it() -> None:
    async with open_server() as api:
        await api.create(CONFIGMAPS, configmap("a"))
        status, body = await api.request("POST", "/levelset/compact")
        assert (status, body) == (200, {"revision": 5, "compacted": 5, "forgotten": 5})
        assert (await api.request("GET", "/levelset/compact"))[0] == 405


@pytest.fixture(scope="module", autouse=True)
def loaded() -> None:
    load_data()


def test_two_servers_share_no_kinds() -> None:
    first, second = Kinds(), Kinds()
    assert first.catalog is not second.catalog
    assert first.definitions.rules is not second.definitions.rules


async def test_the_catalog_has_built_in_kinds_and_crds() -> None:
    kinds = await KindsHarness.make()
    assert kinds.kinds.catalog.find("", "v1", "configmaps") is not None
    await kinds.define(definition())
    assert "example.com" in kinds.kinds.catalog.groups()
