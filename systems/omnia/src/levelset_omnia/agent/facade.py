"""The facade of an agent: health, one request after another over HTTP, and conversations over WebSocket."""

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
        """One request; a WebSocket is answered with its own, and goes on by itself."""
        if is_websocket(request):
            return accept_websocket(request, self._talk)
        match request.method, request.path:
            case "GET", "/healthz":
                return Response(body=b"ok\n")
            case "GET", "/readyz":
                return Response(body=b"ok\n") if self._is_ready() else Response(503, body=b"about to stop\n")
            case "GET", "/":
                return self._about()
            case "GET", "/tools":
                known = await self._agent.tools.known()
                return Response(200, _JSON, json.dumps(sorted(known)).encode())
            case "POST", "/v1/messages":
                return await self._message(request.body)
            case _:
                return _refused(404, "there is /healthz, /readyz, /tools, /v1/messages to POST to, and /ws")

    async def close(self) -> None:
        """Ends what is under way."""
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
        except _Unclear as error:
            return _refused(400, str(error))
        return Response(200, _JSON, (await self._agent.answer(message, session)).as_json())

    def _talk(self, socket: WebSocket) -> None:
        """Answers the messages of one conversation in their order."""
        waiting: asyncio.Queue[str | bytes] = asyncio.Queue()
        task = asyncio.create_task(self._converse(socket, waiting), name="conversation")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        socket.when_heard(waiting.put_nowait)

        def end() -> None:
            task.cancel()

        socket.sink.when_closed(end)

    async def _converse(self, socket: WebSocket, waiting: "asyncio.Queue[str | bytes]") -> None:
        while True:
            said = await waiting.get()
            try:
                message, session = _read(said)
            except _Unclear as error:
                socket.send_text(json.dumps({"error": str(error)}).encode())
                continue
            socket.send_text((await self._agent.answer(message, session)).as_json())


class _Unclear(Exception):
    """What was said is no message."""


def _read(said: str | bytes) -> tuple[str, str]:
    """The message and its session; _Unclear, with what is expected, for anything else."""
    try:
        value: Any = json.loads(said)
    except ValueError as error:
        raise _Unclear(f'this is no JSON: {error}; send {{"message": "hello"}}') from error
    tree = cast("dict[str, Any]", value) if isinstance(value, dict) else {}
    message, session = tree.get("message"), tree.get("session", "default")
    if not isinstance(message, str) or not isinstance(session, str):
        raise _Unclear('message: a text is expected, as in {"message": "hello", "session": "mine"}')
    return message, session


def _refused(status: int, words: str) -> Response:
    return Response(status, _JSON, json.dumps({"error": words}).encode())
