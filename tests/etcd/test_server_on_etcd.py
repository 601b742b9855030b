"""The API server on etcd: what clients see when etcd fails, and when a server is started again."""

# ruff: noqa: ASYNC110 - what is waited for is in other processes

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from levelset.apiserver.server import ApiServer
from levelset.http import Headers, Request, Response
from levelset.storage import EtcdStorage
from tests.etcd.etcd_cluster import EtcdCluster, run_cluster

pytestmark = pytest.mark.timeout(120)


@pytest.fixture
def own_cluster(binary: Path) -> Iterator[EtcdCluster]:
    with run_cluster(binary) as cluster:
        yield cluster


async def call(server: ApiServer, method: str, path: str, body: Any = None, *, query: str = "") -> Response:
    content = b"" if body is None else json.dumps(body).encode()
    headers = Headers({"content-type": "application/json"})
    request = Request(method, path, query, headers=headers, body=content, peer=ApiServer.owner)
    response = server.handle(request)
    return response if isinstance(response, Response) else await response


def config_map(name: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}}


async def until_ready(server: ApiServer, *, is_ready: bool) -> None:
    async with asyncio.timeout(20):
        while ((await call(server, "GET", "/readyz")).status == 200) != is_ready:
            await asyncio.sleep(0.02)


def content_of(response: Response) -> Any:
    assert isinstance(response.body, bytes)
    return json.loads(response.body)


MAPS = "/api/v1/namespaces/default/configmaps"


async def test_a_lost_etcd_fails_readiness_writes_and_the_newest_reads_and_not_reads_of_any_revision(
    own_cluster: EtcdCluster,
):
    (member,) = own_cluster.members
    async with EtcdStorage(own_cluster.endpoints, timeout=1.0) as storage:
        server = ApiServer(storage, tls=False)
        await server.start(listen=False)
        assert (await call(server, "POST", MAPS, config_map("a"))).status == 201
        await until_ready(server, is_ready=True)
        await asyncio.to_thread(member.kill)
        await until_ready(server, is_ready=False)
        refused = await call(server, "POST", MAPS, config_map("b"))
        status = content_of(refused)
        assert (refused.status, status["reason"]) == (503, "ServiceUnavailable")
        assert "was not written: etcd cannot be reached" in status["message"]
        newest = await call(server, "GET", f"{MAPS}/a")
        assert (newest.status, content_of(newest)["reason"]) == (503, "ServiceUnavailable")
        for path in (f"{MAPS}/a", MAPS):
            assert (await call(server, "GET", path, query="resourceVersion=0")).status == 200
        await asyncio.to_thread(member.start)
        await until_ready(server, is_ready=True)
        assert (await call(server, "POST", MAPS, config_map("b"))).status == 201
        await server.stop()


async def test_a_write_without_an_answer_is_a_504_that_says_so(own_cluster: EtcdCluster):
    (member,) = own_cluster.members
    async with EtcdStorage(own_cluster.endpoints, timeout=1.0) as storage:
        server = ApiServer(storage, tls=False)
        await server.start(listen=False)
        member.pause()
        response = await call(server, "POST", MAPS, config_map("a"))
        status = content_of(response)
        assert (response.status, status["reason"]) == (504, "Timeout")
        assert "it is not known whether" in status["message"]
        member.resume()
        await until_ready(server, is_ready=True)
        await server.stop()


async def test_a_server_that_is_started_again_serves_what_was_there(own_cluster: EtcdCluster):
    for number in range(2):
        async with EtcdStorage(own_cluster.endpoints) as storage:
            server = ApiServer(storage, tls=False)
            await server.start(listen=False)
            assert (await call(server, "POST", MAPS, config_map(f"m{number}"))).status == 201
            found = content_of(await call(server, "GET", MAPS))
            assert [item["metadata"]["name"] for item in found["items"]] == [f"m{one}" for one in range(number + 1)]
            assert int(found["metadata"]["resourceVersion"]) == storage.revision
            await server.stop()


async def test_what_one_server_has_acknowledged_is_read_from_another(own_cluster: EtcdCluster):
    async with EtcdStorage(own_cluster.endpoints) as storage, EtcdStorage(own_cluster.endpoints) as other_storage:
        one, other = ApiServer(storage, tls=False), ApiServer(other_storage, tls=False)
        await one.start(listen=False)
        await other.start(listen=False)
        for number in range(50):
            written = content_of(await call(one, "POST", MAPS, config_map(f"m{number}")))
            assert (await call(other, "GET", f"{MAPS}/m{number}")).status == 200
            listed = content_of(await call(other, "GET", MAPS))
            assert len(listed["items"]) == number + 1
            assert int(listed["metadata"]["resourceVersion"]) >= int(written["metadata"]["resourceVersion"])
        await one.stop()
        await other.stop()
