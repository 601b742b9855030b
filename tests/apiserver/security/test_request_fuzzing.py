"""Fuzzing: any request gets a valid response quickly, and stored objects stay intact."""

import asyncio
import json
import logging
import os
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from levelset.apiserver.server import ApiServer
from levelset.http import Headers, Request, Response, iterate
from levelset.storage import MemoryStorage
from levelset.testing.virtual_time import VirtualLoop
from tests.apiserver.support.request_strategies import CANARY, DEFINITION, OBJECTS, requests

# Set this for more, and non-reproducible, examples.
EXAMPLES = int(os.environ.get("LEVELSET_FUZZ_EXAMPLES", "0"))
NEST = "/api/v1/namespaces/nest/configmaps"
WITHIN = 90.0  # virtual seconds: longer than any timeout of the server


@settings(
    max_examples=EXAMPLES or 250,
    derandomize=not EXAMPLES,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow, HealthCheck.data_too_large],
)
@given(sent=st.lists(requests(), min_size=1, max_size=8))
def test_no_request_breaks_the_server(sent: list[Request], caplog: pytest.LogCaptureFixture):
    caplog.clear()
    with caplog.at_level(logging.WARNING), asyncio.Runner(loop_factory=VirtualLoop) as runner:
        runner.run(run_requests(sent))
    assert [record for record in caplog.records if record.exc_info or record.levelno >= logging.ERROR] == []


async def run_requests(sent: list[Request]) -> None:
    """Sends the requests to a server with a canary object, and checks the canary and the whole storage."""
    storage = MemoryStorage()
    server = ApiServer(storage, tls=False)
    await server.start(listen=False)
    try:
        await populate(server)
        canary = await get(server, as_owner(Request("GET", f"{NEST}/canary")))
        for request in sent:
            before = storage.revision
            check_response(request, *await send(server, as_owner(request)))
            assert storage.revision >= before
        await asyncio.wait_for(server.idle(), WITHIN)
        assert await get(server, as_owner(Request("GET", f"{NEST}/canary"))) == canary
        await check_store(storage)
    finally:
        await server.stop()


async def populate(server: ApiServer) -> None:
    nest = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "nest"}}
    definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    for path, tree in (("/api/v1/namespaces", nest), (NEST, CANARY), (definitions, DEFINITION)):
        await make(server, path, tree)
    for path, tree in OBJECTS.items():
        if path != definitions:
            await make(server, path, tree)


async def make(server: ApiServer, path: str, tree: Any) -> None:
    status, body = await send(server, as_owner(Request("POST", path, body=json.dumps(tree).encode())))
    assert status in (201, 422), body  # some objects are incomplete on purpose


def as_owner(request: Request) -> Request:
    return Request(request.method, request.path, request.query, request.headers, request.body, ApiServer.owner)


async def send(server: ApiServer, request: Request) -> tuple[int, bytes]:
    """The status and the body; of a stream, what is received until it ends or the timeout."""
    response = server.handle(request)
    if not isinstance(response, Response):
        response = await asyncio.wait_for(response, WITHIN)
    if isinstance(response.body, bytes):
        return response.status, response.body
    return response.status, await begin(response)


async def begin(response: Response) -> bytes:
    pieces = []
    try:
        async with asyncio.timeout(5):
            async for piece in iterate(response.body):
                pieces.append(piece)  # noqa: PERF401 - retained at the timeout
    except TimeoutError:
        pass
    return b"".join(pieces)


def check_response(request: Request, status: int, body: bytes) -> None:
    """Asserts a response that Kubernetes could give: no server failure, and errors as Status objects."""
    assert 200 <= status < 500 or not _is_failure(status, body), (request, status, body[:300])
    if status >= 400 and body.startswith(b"{"):
        tree = json.loads(body)
        assert (tree["kind"], tree["code"], tree["status"]) == ("Status", status, "Failure"), (request, tree)


async def get(server: ApiServer, request: Request) -> Any:
    status, body = await send(server, request)
    assert status == 200, body
    return json.loads(body)


async def check_store(storage: MemoryStorage) -> None:
    """Asserts that every stored object can be decoded, is under its own key, and has a past revision."""
    page = await storage.list("/")
    assert page.revision == storage.revision
    for item in page.items:
        tree = json.loads(item.value)
        assert [*tree][:3] == ["apiVersion", "kind", "metadata"], tree
        assert "resourceVersion" not in tree["metadata"]
        assert item.key.endswith(f"/{tree['metadata']['name']}"), (item.key, tree)
        assert 0 < item.created <= item.revision <= storage.revision


def test_unauthorized_requests_change_nothing():
    async def intrude() -> None:
        storage = MemoryStorage()
        server = ApiServer(storage, tls=False)
        await server.start(listen=False)
        before = storage.revision
        for method in ("GET", "POST", "PUT", "PATCH", "DELETE"):
            for path in (*OBJECTS, "/levelset/compact"):
                headers = Headers({"authorization": "Bearer guess"})
                status, _ = await send(
                    server, Request(method, path, "", headers, json.dumps(OBJECTS.get(path)).encode())
                )
                assert status == 401, (method, path)
        assert storage.revision == before
        await server.stop()

    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        runner.run(intrude())


def _is_failure(status: int, body: bytes) -> bool:
    """Whether the server failed; some refusals are 500, too, as kube-apiserver's are, but say what is wrong."""
    return status not in (500, 504) or b"Internal error occurred" in body or not body.strip()
