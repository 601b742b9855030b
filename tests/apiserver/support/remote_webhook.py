"""A webhook server behind a real connection: HTTPS on a loopback port, with its own certificate authority."""

import asyncio
import base64
import json
import ssl
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from levelset.http import CertificateAuthority, Request, Response, Server

__all__ = ["Webhook", "configuration", "hook", "open_webhook", "patch"]

Answer = Callable[[Any], Any]
RULE = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["*"], "resources": ["configmaps"]}


@dataclass
class Webhook:
    """Answers every review with what `answer` returns for its `request`, and records the reviews."""

    answer: Answer
    url: str = ""
    requests: list[Any] = field(default_factory=list[Any])
    reviews: list[Any] = field(default_factory=list[Any])
    queries: list[str] = field(default_factory=list[str])
    paths: list[str] = field(default_factory=list[str])
    gate: asyncio.Event | None = None
    """If given, no review is answered before it is set."""
    server: Server | None = None

    @property
    def connections(self) -> int:
        """The number of open connections to it."""
        return 0 if self.server is None else self.server.connections

    @property
    def client(self) -> dict[str, str]:
        """The `clientConfig` of this webhook."""
        return {"url": self.url, "caBundle": base64.b64encode(authority().certificate).decode()}

    def handle(self, request: Request) -> Response | Awaitable[Response]:
        review = json.loads(request.body)
        self.reviews.append(review)
        self.requests.append(review["request"])
        self.queries.append(request.query)
        self.paths.append(request.path)
        made = self.answer(review["request"])
        if not isinstance(made, Response):
            response = {"uid": review["request"]["uid"], **made}
            whole = {"apiVersion": review["apiVersion"], "kind": review["kind"], "response": response}
            made = Response(200, (("Content-Type", "application/json"),), json.dumps(whole).encode())
        return made if self.gate is None else self._later(self.gate, made)

    async def _later(self, gate: asyncio.Event, made: Response) -> Response:
        await gate.wait()
        return made


@cache
def authority() -> CertificateAuthority:
    """One certificate authority for all tests: generating keys is slow."""
    return CertificateAuthority.create("tests")


@cache
def _context() -> ssl.SSLContext:
    identity = authority().issue_server(["localhost", "hooks.system.svc"], ["127.0.0.1"])
    return authority().server_context(identity)


@asynccontextmanager
async def open_webhook(answer: Answer | None = None) -> AsyncGenerator[Webhook, None]:
    """Starts a webhook; it allows everything unless `answer` is given."""
    made = Webhook(answer or (lambda _request: {"allowed": True}))
    server = Server(made.handle, host="127.0.0.1", port=0, tls=await asyncio.to_thread(_context))
    await server.start()
    made.server = server
    made.url = f"{server.url}/review"
    try:
        yield made
    finally:
        await server.stop(within=0.1)


def hook(webhook: Webhook, **more: Any) -> dict[str, Any]:
    """An entry of a webhook configuration, by default for ConfigMaps."""
    return {
        "name": "asked.example.com",
        "clientConfig": webhook.client,
        "rules": [RULE],
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
        **more,
    }


def configuration(*hooks: Any, name: str = "hooks") -> dict[str, Any]:
    """A webhook configuration."""
    return {"metadata": {"name": name}, "webhooks": list(hooks)}


def patch(*operations: Any) -> dict[str, Any]:
    """A response that allows the request and patches the object."""
    data = base64.b64encode(json.dumps(operations).encode()).decode()
    return {"allowed": True, "patchType": "JSONPatch", "patch": data}
