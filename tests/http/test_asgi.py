import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from levelset.http import Limits, Request, Response, Sink
from levelset.http.asgi import to_asgi


class AsgiServer:
    """As much of an ASGI server as one request needs."""

    def __init__(self, application: Any, method: str = "GET", **scope: Any) -> None:
        self.scope = {"type": "http", "method": method, "path": "/", "query_string": b"", "headers": [], **scope}
        self.incoming: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self.sent: list[dict[str, Any]] = []
        self.application = application
        self.arrived = asyncio.Event()

    async def send(self, message: Any) -> None:
        self.sent.append(message)
        self.arrived.set()

    def post(self, *chunks: bytes) -> None:
        for index, chunk in enumerate(chunks):
            self.incoming.put_nowait({"type": "http.request", "body": chunk, "more_body": index < len(chunks) - 1})

    async def run(self) -> None:
        await self.application(self.scope, self.incoming.get, self.send)

    @property
    def status(self) -> int:
        return int(self.sent[0]["status"])

    @property
    def body(self) -> bytes:
        assert self.sent[-1]["more_body"] is False
        return b"".join(message["body"] for message in self.sent[1:])


def echo(request: Request) -> Response:
    line = f"{request.method} {request.path} {request.query} {request.headers.get('x')} ".encode()
    return Response(201, (("X-Y", "z"),), line + request.body)


async def test_a_request_reaches_the_handler_and_gets_its_response():
    asgi = AsgiServer(
        to_asgi(echo), "PUT", path="/a b", raw_path=b"/a%20b", query_string=b"q=1", headers=[(b"x", b"1"), (b"X", b"2")]
    )
    asgi.post(b"hel", b"lo")
    await asgi.run()
    assert (asgi.status, asgi.body) == (201, b"PUT /a%20b q=1 1, 2 hello")
    assert asgi.sent[0]["headers"] == [(b"x-y", b"z"), (b"content-length", b"%d" % len(asgi.body))]


async def test_the_mount_prefix_is_removed_from_the_path():
    asgi = AsgiServer(to_asgi(echo), path="/api/v1 x", root_path="/api")
    asgi.post(b"")
    await asgi.run()
    assert asgi.body.startswith(b"GET /v1%20x ")


async def test_head_has_no_body():
    asgi = AsgiServer(to_asgi(echo), "HEAD")
    asgi.post(b"")
    await asgi.run()
    assert asgi.body == b""


async def test_a_body_that_is_too_large_is_refused():
    asgi = AsgiServer(to_asgi(echo, limits=Limits(body_bytes=10)), "POST")
    asgi.post(b"x" * 6, b"x" * 6, b"x" * 6)
    await asgi.run()
    assert asgi.status == 413


async def test_a_failing_handler_gives_a_500(caplog):
    async def handle(request: Request) -> Response:
        raise RuntimeError("a secret")

    asgi = AsgiServer(to_asgi(handle))
    asgi.post(b"")
    await asgi.run()
    assert (asgi.status, json.loads(asgi.body)["reason"]) == (500, "InternalError")
    assert b"secret" not in asgi.body


async def test_a_stream_ends_when_the_client_disconnects():
    ended: list[bool] = []

    def push(sink: Sink) -> None:
        sink.write(b"event")
        sink.when_closed(lambda: ended.append(True))

    asgi = AsgiServer(to_asgi(lambda request: Response(200, body=push)))
    asgi.post(b"")
    running = asyncio.ensure_future(asgi.run())
    while len(asgi.sent) < 2:
        asgi.arrived.clear()
        await asgi.arrived.wait()
    assert asgi.sent[1] == {"type": "http.response.body", "body": b"event", "more_body": True}
    asgi.incoming.put_nowait({"type": "http.disconnect"})
    await running
    assert ended == [True]


async def test_a_disconnect_cancels_the_handler():
    started, cancelled = asyncio.Event(), asyncio.Event()

    async def handle(request: Request) -> Response:
        try:
            started.set()
            await asyncio.Event().wait()
        finally:
            cancelled.set()
        return Response()

    asgi = AsgiServer(to_asgi(handle))
    asgi.post(b"")
    running = asyncio.ensure_future(asgi.run())
    await started.wait()
    asgi.incoming.put_nowait({"type": "http.disconnect"})
    await running
    assert cancelled.is_set()
    assert asgi.sent == []


async def test_a_disconnect_before_the_body_calls_no_handler():
    asgi = AsgiServer(to_asgi(echo))
    asgi.incoming.put_nowait({"type": "http.disconnect"})
    await asgi.run()
    assert asgi.sent == []


async def test_the_lifespan_is_entered_and_exited():
    steps: list[str] = []

    @asynccontextmanager
    async def lifespan() -> AsyncIterator[None]:
        steps.append("in")
        yield
        steps.append("out")

    asgi = AsgiServer(to_asgi(echo, lifespan=lifespan), type="lifespan")
    for phase in ("startup", "shutdown"):
        asgi.incoming.put_nowait({"type": f"lifespan.{phase}"})
    await asgi.run()
    assert steps == ["in", "out"]
    assert [one["type"] for one in asgi.sent] == ["lifespan.startup.complete", "lifespan.shutdown.complete"]


async def test_a_lifespan_that_fails_is_reported(caplog):
    @asynccontextmanager
    async def lifespan() -> AsyncIterator[None]:
        raise RuntimeError("no disk")
        yield

    asgi = AsgiServer(to_asgi(echo, lifespan=lifespan), type="lifespan")
    asgi.incoming.put_nowait({"type": "lifespan.startup"})
    await asgi.run()
    assert asgi.sent == [{"type": "lifespan.startup.failed", "message": "no disk"}]


async def test_websockets_are_refused_and_other_scopes_are_an_error():
    asgi = AsgiServer(to_asgi(echo), type="websocket")
    asgi.incoming.put_nowait({"type": "websocket.connect"})
    await asgi.run()
    assert asgi.sent == [{"type": "websocket.close", "code": 1000}]
    with pytest.raises(ValueError, match="smoke"):
        await AsgiServer(to_asgi(echo), type="smoke").run()
