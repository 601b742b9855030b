"""The facade of an agent: health, metrics, messages over HTTP, and conversations over WebSocket."""

import asyncio
import json
from collections.abc import Callable
from typing import Any, Final, NamedTuple, cast

from levelset.http import Request, Response, WebSocket, accept_websocket, is_websocket
from levelset_omnia.agent.agent import Agent, AgentFailed, AgentProblem

__all__ = ["Facade"]

_MAX_WAITING: Final = 100
"""The messages of a conversation that may wait for their answers; a client that sends more is disconnected."""
_POLICY_VIOLATION: Final = 1008
_JSON = (("Content-Type", "application/json"),)
_METRICS = (("Content-Type", "text/plain; version=0.0.4; charset=utf-8"),)


class Facade:
    """Answers `/healthz`, `/readyz`, `/report`, `/metrics`, `/`, `/tools`, POST `/v1/messages`, and a WebSocket.

    `/report` is for the operator: the problems of the agent, and its counts of requests and errors.
    """

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
                return await self._readiness()
            case "GET", "/report":
                return Response(200, _JSON, json.dumps(await self._report()).encode())
            case "GET", "/metrics":
                return Response(200, _METRICS, self._agent.metrics.registry.render().encode())
            case "GET", "/":
                return self._about()
            case "GET", "/tools":
                tools = await self._agent.tools.known()
                return Response(200, _JSON, json.dumps(sorted(tools)).encode())
            case "POST", "/v1/messages":
                return await self._message(request.body)
            case _:
                paths = "/healthz, /readyz, /report, /metrics, /tools, POST /v1/messages and /ws"
                return _error(404, f"not found; the paths are {paths}")

    async def close(self) -> None:
        """Ends all conversations."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _readiness(self) -> Response:
        if not self._is_ready():
            return Response(503, body=b"shutting down\n")
        problems = await self._agent.problems()
        if problems:
            return Response(503, body="".join(f"{one.message}\n" for one in problems).encode())
        return Response(body=b"ok\n")

    async def _report(self) -> dict[str, Any]:
        def written(problem: AgentProblem) -> dict[str, str]:
            return {"part": problem.part, "message": problem.message}

        metrics = self._agent.metrics
        problems = [written(one) for one in await self._agent.problems()]
        return {"problems": problems, "requests": metrics.requests, "errors": metrics.errors}

    def _about(self) -> Response:
        settings = self._agent.settings
        about = {"agent": settings.name, "namespace": settings.namespace, "pack": settings.pack}
        return Response(200, _JSON, json.dumps({**about, "version": settings.version}).encode())

    async def _message(self, body: bytes) -> Response:
        try:
            message = _read(body)
            reply = await self._agent.answer(message.text, message.session)
        except _InvalidMessage as error:
            return _error(400, str(error))
        except AgentFailed as error:
            return _error(502, str(error))
        return Response(200, _JSON, reply.as_json())

    def _start_conversation(self, socket: WebSocket) -> None:
        """Answers the messages of one conversation in order."""
        messages: asyncio.Queue[str | bytes] = asyncio.Queue(_MAX_WAITING)

        def receive(data: str | bytes) -> None:
            try:
                messages.put_nowait(data)
            except asyncio.QueueFull:
                socket.close(_POLICY_VIOLATION)

        task = asyncio.create_task(self._converse(socket, messages), name="conversation")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        socket.on_message(receive)

        def end() -> None:
            task.cancel()

        socket.sink.when_closed(end)

    async def _converse(self, socket: WebSocket, messages: "asyncio.Queue[str | bytes]") -> None:
        with self._agent.metrics.connection():
            while True:
                socket.send_text(await self._turn(socket, await messages.get()))

    async def _turn(self, socket: WebSocket, data: str | bytes) -> bytes:
        """The last frame of a turn: the reply, or an error; with `stream`, frames with `delta` are sent before it."""

        def send_delta(text: str) -> None:
            socket.send_text(json.dumps({"delta": text}, ensure_ascii=False).encode())

        try:
            message = _read(data)
            if not message.stream:
                return (await self._agent.answer(message.text, message.session)).as_json()
            return (await self._agent.answer(message.text, message.session, on_text=send_delta)).as_json()
        except (_InvalidMessage, AgentFailed) as error:
            return json.dumps({"error": str(error)}).encode()


class _Message(NamedTuple):
    """A message of a client."""

    text: str
    session: str = "default"
    stream: bool = False


class _InvalidMessage(Exception):
    """The body or frame is not a message."""


def _read(data: str | bytes) -> _Message:
    """The message of a body or frame; raises _InvalidMessage, which names the expected format."""
    try:
        value: Any = json.loads(data)
    except ValueError as error:
        raise _InvalidMessage(f'this is not JSON: {error}; send {{"message": "hello"}}') from error
    tree = cast("dict[str, Any]", value) if isinstance(value, dict) else {}
    text, session, stream = tree.get("message"), tree.get("session", "default"), tree.get("stream", False)
    if not isinstance(text, str) or not isinstance(session, str):
        raise _InvalidMessage('message: a text is expected, as in {"message": "hello", "session": "mine"}')
    if not isinstance(stream, bool):
        raise _InvalidMessage('stream: true or false is expected, as in {"message": "hello", "stream": true}')
    return _Message(text, session, stream)


def _error(status: int, message: str) -> Response:
    return Response(status, _JSON, json.dumps({"error": message}).encode())
