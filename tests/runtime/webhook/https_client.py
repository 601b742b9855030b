"""Calls a webhook like an API server does: one HTTPS request, with the certificate checked against the CA bundle."""

import asyncio
import json
import ssl
from typing import Any

from levelset.runtime.webhook import AdmissionHook, Endpoint

__all__ = ["RemoteHook", "call", "serial_of", "tls_context"]


def tls_context(ca: bytes | None) -> ssl.SSLContext:
    """A TLS context that trusts only this CA bundle."""
    assert ca is not None
    context = ssl.create_default_context(cadata=ca.decode("ascii"))
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    return context


async def call(port: int, path: str, body: Any, context: ssl.SSLContext) -> tuple[int, Any]:
    """The status and the body of a response."""
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
    """The serial number of the certificate that a new connection gets."""
    _, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context)
    try:
        shown: Any = writer.get_extra_info("peercert")
        return str(shown["serialNumber"])
    finally:
        writer.close()
        await writer.wait_closed()


class RemoteHook:
    """Calls a hook over HTTPS, in place of an in-process hook of a server."""

    def __init__(self, hook: AdmissionHook, endpoint: Endpoint) -> None:
        self.name, self.mutates, self.reinvokes, self.matches = hook.name, hook.mutates, hook.reinvokes, hook.matches
        self._path = hook.path
        self._endpoint = endpoint

    async def review(self, request: dict[str, Any], _space: Any) -> dict[str, Any]:
        review = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}
        context = tls_context(self._endpoint.ca)
        status, answer = await call(self._endpoint.port, f"{self._path}?timeout=10s", review, context)
        assert (status, answer["kind"]) == (200, "AdmissionReview")
        response: dict[str, Any] = answer["response"]
        return response
