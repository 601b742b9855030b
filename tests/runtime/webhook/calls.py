"""How an API server calls a webhook: one HTTPS request, whose certificate it checks against the bundle it was given."""

import asyncio
import json
import ssl
from typing import Any

from levelset.runtime.webhook import Endpoint, Hook

__all__ = ["RemoteAdmitter", "call", "serial_of", "trusting"]


def trusting(ca: bytes | None) -> ssl.SSLContext:
    """How a client speaks TLS that trusts this bundle alone."""
    assert ca is not None
    context = ssl.create_default_context(cadata=ca.decode("ascii"))
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    return context


async def call(port: int, path: str, body: Any, context: ssl.SSLContext) -> tuple[int, Any]:
    """The status and the body of an answer."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context)
    try:
        data = json.dumps(body).encode()
        head = f"POST {path} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: {len(data)}\r\n"
        writer.write(f"{head}Connection: close\r\n\r\n".encode() + data)
        answer = await reader.read()
    finally:
        writer.close()
        await writer.wait_closed()
    head_bytes, _, rest = answer.partition(b"\r\n\r\n")
    return int(head_bytes.split()[1]), json.loads(rest)


async def serial_of(port: int, context: ssl.SSLContext) -> str:
    """The number of the certificate that is shown to a new connection."""
    _, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context)
    try:
        shown: Any = writer.get_extra_info("peercert")
        return str(shown["serialNumber"])
    finally:
        writer.close()
        await writer.wait_closed()


class RemoteAdmitter:
    """Asks a hook at the other end of a connection, in the place where a server asks one in its own process."""

    def __init__(self, hook: Hook, endpoint: Endpoint) -> None:
        self.name, self.mutates, self.reinvokes, self.matches = hook.name, hook.mutates, hook.reinvokes, hook.matches
        self._path = hook.path
        self._endpoint = endpoint

    async def review(self, request: dict[str, Any], _space: Any) -> dict[str, Any]:
        review = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}
        context = trusting(self._endpoint.ca)
        status, answer = await call(self._endpoint.port, f"{self._path}?timeout=10s", review, context)
        assert (status, answer["kind"]) == (200, "AdmissionReview")
        response: dict[str, Any] = answer["response"]
        return response
