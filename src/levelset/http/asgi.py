"""Adapts a handler to ASGI, to run it in any ASGI server."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, MutableMapping
from contextlib import AbstractAsyncContextManager, aclosing, nullcontext
from typing import Any
from urllib.parse import quote

from levelset.http.limits import Limits
from levelset.http.messages import Handler, HeadCheck, Headers, Request, Response
from levelset.http.response_writer import Failure, to_status
from levelset.http.streaming import iterate

__all__ = ["AsgiApplication", "to_asgi"]

log = logging.getLogger(__name__)

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
AsgiApplication = Callable[[MutableMapping[str, Any], Receive, Send], Awaitable[None]]


def to_asgi(
    handler: Handler,
    *,
    lifespan: Callable[[], AbstractAsyncContextManager[object]] = nullcontext,
    limits: Limits | None = None,
    on_error: Callable[[Failure], Response] = to_status,
    head_check: HeadCheck | None = None,
) -> AsgiApplication:
    """An ASGI 3 application that responds with `handler`.

    `lifespan` is entered when the ASGI server starts and exited when it stops. A disconnect cancels the handler or ends
    the stream. Of the limits only `body_bytes` applies; the ASGI server has its own. `head_check` may refuse a request
    with a body before that is read. No WebSockets.
    """
    adapter = _Adapter(handler, limits or Limits(), on_error, head_check)

    async def application(scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        match scope["type"]:
            case "lifespan":
                await _run_lifespan(lifespan, receive, send)
            case "http":
                await adapter.handle(scope, receive, send)
            case "websocket":
                await receive()
                await send({"type": "websocket.close", "code": 1000})
            case other:
                raise ValueError(f"this application supports http and lifespan, not {other!r}")

    return application


async def _run_lifespan(
    lifespan: Callable[[], AbstractAsyncContextManager[object]], receive: Receive, send: Send
) -> None:
    await receive()
    phase = "startup"
    try:
        async with lifespan():
            await send({"type": "lifespan.startup.complete"})
            await receive()
            phase = "shutdown"
        await send({"type": "lifespan.shutdown.complete"})
    except Exception as error:
        log.exception("the lifespan of the application failed")
        await send({"type": f"lifespan.{phase}.failed", "message": str(error)})


_BODY_HEADERS = (b"content-length", b"transfer-encoding")


class _Adapter:
    """Handles the requests of an ASGI server."""

    def __init__(
        self,
        handler: Handler,
        limits: Limits,
        on_error: Callable[[Failure], Response],
        head_check: HeadCheck | None = None,
    ) -> None:
        self._handler = handler
        self._limits = limits
        self._on_error = on_error
        self._head_check = head_check

    async def handle(self, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        if self._head_check is not None and any(name in _BODY_HEADERS for name, _ in scope["headers"]):
            checked = self._head_check(_to_request(scope, b""))
            if isinstance(checked, Response):
                await _send(checked, scope["method"], send)
                return
        body = await self._read(receive)
        if body is None:
            return
        if len(body) > self._limits.body_bytes:
            message = f"The body of a request has at most {self._limits.body_bytes} bytes."
            await _send(self._on_error(Failure(413, message)), scope["method"], send)
            return
        request = _to_request(scope, body)
        # A handler that waits for its next event would never notice a disconnect: so wait for both.
        work = asyncio.create_task(self._respond(request, send), name=f"{request.method} {request.path}")
        gone = asyncio.create_task(_wait_for_disconnect(receive), name="wait for disconnect")
        try:
            await asyncio.wait((work, gone), return_when=asyncio.FIRST_COMPLETED)
        finally:
            await _end(gone)
            await _end(work)
        if not work.cancelled():
            work.result()

    async def _read(self, receive: Receive) -> bytes | None:
        """The body, cut a little above the limit; None if the client has disconnected."""
        parts: list[bytes] = []
        size = 0
        while size <= self._limits.body_bytes:
            message = await receive()
            if message["type"] != "http.request":
                return None
            parts.append(message.get("body", b""))
            size += len(parts[-1])
            if not message.get("more_body", False):
                break
        return b"".join(parts)

    async def _respond(self, request: Request, send: Send) -> None:
        try:
            result = self._handler(request)
            response = result if isinstance(result, Response) else await result
        except Exception as error:
            log.exception("handler failed", extra={"method": request.method, "path": request.path})
            message = "The server could not handle the request because of an internal error; see its log."
            response = self._on_error(Failure(500, message, request, error))
        await _send(response, request.method, send)


async def _send(response: Response, method: str, send: Send) -> None:
    headers = [(name.lower().encode("latin-1"), value.encode("latin-1")) for name, value in response.headers]
    body = response.body
    if isinstance(body, bytes) and response.status not in {204, 304}:
        headers = [pair for pair in headers if pair[0] != b"content-length"]
        headers.append((b"content-length", b"%d" % len(body)))
    await send({"type": "http.response.start", "status": response.status, "headers": headers})
    if method != "HEAD":
        chunks = iterate(body)
        async with aclosing(chunks):
            async for chunk in chunks:
                await send({"type": "http.response.body", "body": chunk, "more_body": True})
    await send({"type": "http.response.body", "body": b"", "more_body": False})


def _to_request(scope: MutableMapping[str, Any], body: bytes) -> Request:
    raw = scope.get("raw_path")
    path = raw.decode("latin-1").partition("?")[0] if raw else quote(scope["path"], safe="/:@!$&'()*+,;=~")
    root = scope.get("root_path") or ""
    if root and path.startswith(root + "/"):
        path = path[len(root) :]
    headers = Headers((name.decode("latin-1"), value.decode("latin-1")) for name, value in scope["headers"])
    return Request(scope["method"], path, scope.get("query_string", b"").decode("latin-1"), headers, body)


async def _wait_for_disconnect(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def _end(task: "asyncio.Task[None]") -> None:
    """Cancels a task unless it is done, and waits for its end; its error stays in it."""
    task.cancel()
    await asyncio.wait((task,))
