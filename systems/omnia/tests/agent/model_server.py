"""A stand-in for a model provider: a real HTTP server that speaks OpenAI's chat completions with server-sent events."""

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

from levelset.http import Request, Response

__all__ = ["ModelServer"]


class ModelServer:
    """Answers a conversation word by word; calls the tool `add` when the user writes `add 40 2`.

    A system prompt that begins with `Fail` is answered by 500. `gate` holds an answer after its first word.
    """

    def __init__(self) -> None:
        self.requests: list[dict[str, Any]] = []
        self.keys: list[str | None] = []
        self.gate = asyncio.Event()
        self.gate.set()

    async def handle(self, request: Request) -> Response:
        """Handles one request."""
        if (request.method, request.path) != ("POST", "/v1/chat/completions"):
            return Response(404, body=b"no such path")
        body = json.loads(request.body)
        self.requests.append(body)
        self.keys.append(request.headers.get("authorization"))
        if str(body["messages"][0]["content"]).startswith("Fail"):
            return Response(500, body=b'{"error": {"message": "overloaded"}}')
        return Response(200, (("Content-Type", "text/event-stream"),), self._events(body))

    async def _events(self, body: dict[str, Any]) -> AsyncIterator[bytes]:
        last = body["messages"][-1]
        words = str(last["content"]).split()
        if last["role"] == "user" and words[:1] == ["add"] and body.get("tools"):
            # A call arrives in pieces, as from real models.
            arguments = json.dumps({"numbers": [int(one) for one in words[1:]]})
            first = {"index": 0, "id": "call_7", "type": "function", "function": {"name": "add", "arguments": ""}}
            yield _event({"role": "assistant", "content": None, "tool_calls": [first]})
            for piece in (arguments[:5], arguments[5:]):
                yield _event({"tool_calls": [{"index": 0, "function": {"arguments": piece}}]})
        else:
            said = ["You", " said", *(f" {one}" for one in words)]
            for number, word in enumerate(said):
                if number:
                    await self.gate.wait()
                yield _event({"content": word})
        yield b": a comment\n\ndata: [DONE]\n\n"


def _event(delta: dict[str, Any]) -> bytes:
    return f"data: {json.dumps({'choices': [{'index': 0, 'delta': delta}]})}\n\n".encode()
