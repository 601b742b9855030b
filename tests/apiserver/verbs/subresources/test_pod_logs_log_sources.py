"""The `log` subresource of a kind is answered by a source, with its errors as the server's own."""

from collections.abc import AsyncIterator

from levelset.apiserver import ApiServer, Asked
from levelset.errors import BadRequest
from levelset.http import Headers, Request, Response

POD = b'{"apiVersion":"v1","kind":"Pod","metadata":{"name":"web"},"spec":{"containers":[{"name":"a","image":"b"}]}}'
PODS = "/api/v1/namespaces/default/pods"


async def lines(*words: bytes) -> AsyncIterator[bytes]:
    for word in words:
        yield word


async def source(asked: Asked) -> AsyncIterator[bytes]:
    if asked.query.get("container") == "b":
        raise BadRequest("container b is not valid for pod web")
    return lines(asked.name.encode(), b" ", asked.tree["spec"]["containers"][0]["name"].encode(), b"\n")


async def ask(server: ApiServer, method: str, path: str, query: str = "", body: bytes = b"") -> Response:
    headers = Headers({"content-type": "application/json"}) if body else Headers()
    answer = server.handle(
        Request(method=method, path=path, query=query, headers=headers, body=body, peer=ApiServer.owner)
    )
    return answer if isinstance(answer, Response) else await answer


async def text(response: Response) -> bytes:
    if isinstance(response.body, bytes):
        return response.body
    assert isinstance(response.body, AsyncIterator)
    return b"".join([piece async for piece in response.body])


async def test_a_log_is_what_its_source_gives() -> None:
    server = ApiServer()
    server.serve_logs("", "Pod", source)
    await server.start(listen=False)
    await ask(server, "POST", PODS, body=POD)
    answer = await ask(server, "GET", f"{PODS}/web/log")
    assert (answer.status, await text(answer)) == (200, b"web a\n")
    await server.stop()


async def test_what_a_source_refuses_and_what_is_not_there_are_told_as_a_status() -> None:
    server = ApiServer()
    server.serve_logs("", "Pod", source)
    await server.start(listen=False)
    await ask(server, "POST", PODS, body=POD)
    refused = await ask(server, "GET", f"{PODS}/web/log", "container=b&follow=true")
    assert refused.status == 400
    assert b"container b is not valid for pod web" in await text(refused)
    missing = await ask(server, "GET", f"{PODS}/other/log")
    assert missing.status == 404
    assert b'pods \\"other\\" not found' in await text(missing)
    await server.stop()
