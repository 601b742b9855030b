"""The `log` subresource: served from a source, or rejected without one."""

from collections.abc import AsyncIterator

import pytest

from levelset.apiserver import ApiServer, LogRequest
from levelset.errors import BadRequest
from levelset.http import Headers, Request, Response
from tests.apiserver.support.in_process_server import open_server

PODS = "/api/v1/namespaces/default/pods"
POD = {"metadata": {"name": "a"}, "spec": {"containers": [{"name": "main", "image": "i"}]}}


@pytest.mark.parametrize(
    ("path", "query", "status", "problem"),
    [
        ("a", {}, 400, "pod a does not have a host assigned: this server runs no containers"),
        ("a", {"container": "main"}, 400, "does not have a host assigned"),
        ("a", {"container": "other"}, 400, "container other is not valid for pod a"),
        ("b", {}, 404, 'pods "b" not found'),
    ],
)
async def test_without_a_log_source_pod_logs_are_rejected(
    path: str, query: dict[str, str], status: int, problem: str
) -> None:
    async with open_server() as api:
        await api.create(PODS, POD)
        found, body = await api.request("GET", f"{PODS}/{path}/log", **query)
    assert (found, body["kind"]) == (status, "Status")
    assert problem in body["message"]


async def test_a_review_may_have_an_empty_status() -> None:
    body = {"spec": {"namespace": "default"}, "status": {"incomplete": False, "resourceRules": None}}
    async with open_server() as api:
        status, body = await api.request("POST", "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews", body)
    assert status == 201
    assert body["status"]["resourceRules"]


WEB_POD = b'{"apiVersion":"v1","kind":"Pod","metadata":{"name":"web"},"spec":{"containers":[{"name":"a","image":"b"}]}}'


async def lines(*words: bytes) -> AsyncIterator[bytes]:
    for word in words:
        yield word


async def source(request: LogRequest) -> AsyncIterator[bytes]:
    if request.query.get("container") == "b":
        raise BadRequest("container b is not valid for pod web")
    return lines(request.name.encode(), b" ", request.tree["spec"]["containers"][0]["name"].encode(), b"\n")


async def send(server: ApiServer, method: str, path: str, query: str = "", body: bytes = b"") -> Response:
    headers = Headers({"content-type": "application/json"}) if body else Headers()
    response = server.handle(
        Request(method=method, path=path, query=query, headers=headers, body=body, peer=ApiServer.owner)
    )
    return response if isinstance(response, Response) else await response


async def text(response: Response) -> bytes:
    if isinstance(response.body, bytes):
        return response.body
    assert isinstance(response.body, AsyncIterator)
    return b"".join([piece async for piece in response.body])


async def test_a_log_is_served_from_its_source() -> None:
    server = ApiServer()
    server.serve_logs("", "Pod", source)
    await server.start(listen=False)
    await send(server, "POST", PODS, body=WEB_POD)
    response = await send(server, "GET", f"{PODS}/web/log")
    assert (response.status, await text(response)) == (200, b"web a\n")
    await server.stop()


async def test_errors_of_a_source_and_missing_objects_are_a_status() -> None:
    server = ApiServer()
    server.serve_logs("", "Pod", source)
    await server.start(listen=False)
    await send(server, "POST", PODS, body=WEB_POD)
    rejected = await send(server, "GET", f"{PODS}/web/log", "container=b&follow=true")
    assert rejected.status == 400
    assert b"container b is not valid for pod web" in await text(rejected)
    missing = await send(server, "GET", f"{PODS}/other/log")
    assert missing.status == 404
    assert b'pods \\"other\\" not found' in await text(missing)
    await server.stop()
