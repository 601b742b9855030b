"""A test double of an IDE: a real HTTP and WebSocket server that speaks the protocol of run sessions."""

import asyncio
import base64
import json
import ssl
from collections.abc import Awaitable, Mapping
from itertools import count
from types import TracebackType
from typing import Any, Self

from levelset.http import Identity, Request, Response, Server, WebSocket, accept_websocket, is_websocket, server_context

__all__ = ["CONFIGURATIONS", "IdeDouble"]

TOKEN = "let-me-in"
CONFIGURATIONS = '[{"type": "project", "project_path": "/src/web.csproj", "mode": "NoDebug"}]'


class IdeDouble:
    """An IDE without programs: the test says what happens in its sessions."""

    def __init__(self, identity: Identity | None = None, **info: Any) -> None:
        self.info: Any = info or {"protocols_supported": ["2024-03-03", "2025-10-01"]}
        self.requests: list[tuple[str, str, Mapping[str, str]]] = []
        """Method, path with query, and headers of all requests."""
        self.sessions: dict[str, Any] = {}
        """The bodies of the requests for sessions that run, by ID."""
        self.refusal: tuple[int, bytes] | None = None
        """The response to all requests for new sessions."""
        self.may_respond = asyncio.Event()
        """While it is not set, requests for new sessions get no response."""
        self.may_respond.set()
        self.says_end = True
        """Whether the end of a session that was stopped is notified."""
        self.stop_status = 200
        self.subscribed = asyncio.Event()
        self.created = asyncio.Event()
        self._identity = identity
        self._numbers = count(1)
        self._sockets: list[WebSocket] = []
        self._server: Server | None = None

    async def __aenter__(self) -> Self:
        tls: ssl.SSLContext | None = None
        if self._identity is not None:
            tls = await asyncio.to_thread(server_context, self._identity)
        self._server = Server(self._handle, tls=tls)
        await self._server.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._server is not None
        await self._server.stop(within=0.0)

    @property
    def environment(self) -> dict[str, str]:
        """The variables that name this IDE."""
        assert self._server is not None
        env = {"DEBUG_SESSION_PORT": str(self._server.port), "DEBUG_SESSION_TOKEN": TOKEN}
        if self._identity is not None:
            der = ssl.PEM_cert_to_DER_cert(self._identity.certificate.decode())
            env["DEBUG_SESSION_SERVER_CERTIFICATE"] = base64.b64encode(der).decode()
        return env

    def notify(self, kind: str, session: str = "s1", **fields: Any) -> None:
        """Sends a notification."""
        self.send(json.dumps({"notification_type": kind, "session_id": session, **fields}).encode())

    def send(self, data: bytes) -> None:
        """Sends a message to all subscribers."""
        for socket in self._sockets:
            socket.send_text(data)

    def disconnect(self) -> None:
        """Closes the connections of all subscribers."""
        self.subscribed.clear()
        while self._sockets:
            self._sockets.pop().close()

    def _handle(self, request: Request) -> Response | Awaitable[Response]:
        query = f"?{request.query}" if request.query else ""
        headers = {name.lower(): request.headers.get(name.lower()) or "" for name in _HEADERS}
        self.requests.append((request.method, request.path + query, headers))
        if headers["authorization"] != f"Bearer {TOKEN}":
            return _json(401, {"error": {"code": "Unauthorized", "message": "the token is wrong"}})
        match request.method, request.segments:
            case "GET", ("info",):
                return _json(200, self.info)
            case "GET", ("run_session", "notify") if is_websocket(request):
                return accept_websocket(request, self._subscribe)
            case "PUT", ("run_session",):
                return self._create(request)
            case "DELETE", ("run_session", session):
                return self._delete(session)
            case _:
                return _json(404, {})

    def _subscribe(self, socket: WebSocket) -> None:
        self._sockets.append(socket)
        self.subscribed.set()

    async def _create(self, request: Request) -> Response:
        if self.refusal is not None:
            return Response(self.refusal[0], (("Content-Type", "application/json"),), self.refusal[1])
        session = f"s{next(self._numbers)}"
        self.sessions[session] = json.loads(request.body)
        self.created.set()
        await self.may_respond.wait()
        return Response(201, (("Location", f"https://localhost:1/run_session/{session}"),))

    def _delete(self, session: str) -> Response:
        if self.stop_status != 200:
            return _json(self.stop_status, {"error": {"code": "Busy", "message": "a debugger is attached"}})
        if self.sessions.pop(session, None) is None:
            return Response(204)
        if self.says_end:
            self.notify("sessionTerminated", session, exit_code=143)
        return Response(200)


_HEADERS = ("authorization", "microsoft-developer-dcp-instance-id", "content-type")


def _json(status: int, tree: Any) -> Response:
    return Response(status, (("Content-Type", "application/json"),), json.dumps(tree).encode())
