"""The facade of an agent: health, messages over HTTP, and conversations over WebSocket."""

import asyncio
import json
from collections.abc import Callable
from typing import Any, cast

from levelset.http import Request, Response, WebSocket, accept_websocket, is_websocket
from levelset_omnia.agent.agent import Agent

__all__ = ["Facade"]

_JSON = (("Content-Type", "application/json"),)


class Facade:
    """Answers `/healthz`, `/readyz`, `/`, `/tools`, POST `/v1/messages`, and a WebSocket at `/ws`."""

    def __init__(self, agent: Agent, *, is_ready: Callable[[], bool] = lambda: True) -> None:
        self._agent = agent
        self._is_ready = is_ready
        self._tasks: set[asyncio.Task[None]] = set()

    async def handle(self, request: Request) -> Response:
        """Handles one request; a WebSocket upgrade starts a conversation."""
        if is_websocket(request):
            return accept_websocket(request, self._start_conversation)
        match request.method, request.path:
            case "GET", "/healthz":
                return Response(body=b"ok\n")
            case "GET", "/readyz":
                return Response(body=b"ok\n") if self._is_ready() else Response(503, body=b"shutting down\n")
            case "GET", "/":
                return self._about()
            case "GET", "/tools":
                tools = await self._agent.tools.known()
                return Response(200, _JSON, json.dumps(sorted(tools)).encode())
            case "POST", "/v1/messages":
                return await self._message(request.body)
            case _:
                return _error(404, "not found; the paths are /healthz, /readyz, /tools, POST /v1/messages and /ws")

    async def close(self) -> None:
        """Ends all conversations."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _about(self) -> Response:
        settings = self._agent.settings
        about = {"agent": settings.name, "namespace": settings.namespace, "pack": settings.pack}
        return Response(200, _JSON, json.dumps({**about, "version": settings.version}).encode())

    async def _message(self, body: bytes) -> Response:
        try:
            message, session = _read(body)
        except _InvalidMessage as error:
            return _error(400, str(error))
        return Response(200, _JSON, (await self._agent.answer(message, session)).as_json())

    def _start_conversation(self, socket: WebSocket) -> None:
        """Answers the messages of one conversation in order."""
        messages: asyncio.Queue[str | bytes] = asyncio.Queue()
        task = asyncio.create_task(self._converse(socket, messages), name="conversation")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        socket.on_message(messages.put_nowait)

        def end() -> None:
            task.cancel()

        socket.sink.when_closed(end)

    async def _converse(self, socket: WebSocket, messages: "asyncio.Queue[str | bytes]") -> None:
        while True:
            data = await messages.get()
            try:
                message, session = _read(data)
            except _InvalidMessage as error:
                socket.send_text(json.dumps({"error": str(error)}).encode())
                continue
            socket.send_text((await self._agent.answer(message, session)).as_json())


class _InvalidMessage(Exception):
    """The body or frame is not a message."""


def _read(data: str | bytes) -> tuple[str, str]:
    """The message and its session; raises _InvalidMessage, which names the expected format."""
    try:
        value: Any = json.loads(data)
    except ValueError as error:
        raise _InvalidMessage(f'this is not JSON: {error}; send {{"message": "hello"}}') from error
    tree = cast("dict[str, Any]", value) if isinstance(value, dict) else {}
    message, session = tree.get("message"), tree.get("session", "default")
    if not isinstance(message, str) or not isinstance(session, str):
        raise _InvalidMessage('message: a text is expected, as in {"message": "hello", "session": "mine"}')
    return message, session


def _error(status: int, message: str) -> Response:
    return Response(status, _JSON, json.dumps({"error": message}).encode())
