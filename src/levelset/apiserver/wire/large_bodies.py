"""Bodies that take long to read: large YAML is read aside, one at a time, so that nobody else waits for it.

YAML takes a hundred times as long to read as JSON of the same size. What was read is handed on as JSON, so that those
who answer requests need not know. JSON is read at once whatever its size, but what is done with each of its values
takes its time: a body that consists of nothing but values, a million of them, is refused unread.
"""

import asyncio
import re
from typing import Final

import msgspec

from levelset.apiserver.wire.negotiation import JSON, media_type
from levelset.errors import BadObject, BadRequest
from levelset.http import Headers, Request
from levelset.objects import encode_tree

__all__ = ["HEAVY", "MOST_VALUES", "Lightening", "has_too_many", "is_heavy", "is_json"]

HEAVY: Final = 16 * 1024
MOST_NODES: Final = 200_000
"""The values in a body of YAML: the largest definitions that people install have a quarter of that."""
MOST_VALUES: Final = 50_000
"""The values in a body of JSON, keys aside: the largest definitions that people install have half of that."""
_TEXTS: Final = re.compile(rb'"(?:[^"\\]|\\.)*+"', re.DOTALL)
_APPLY: Final = "application/apply-patch+yaml"


def is_heavy(request: Request) -> bool:
    """Whether the body is YAML, and large; what is JSON too is read as such."""
    if len(request.body) <= HEAVY or "yaml" not in (request.headers.find("content-type") or "").lower():
        return False
    return not is_json(request.body)


def has_too_many(body: bytes, most: int = MOST_VALUES) -> bool:
    """Whether a body of JSON holds more values than anybody wants to look at; told without reading it."""
    # Every value but the first follows a comma or the bracket that opens what it is in; texts may have them, too.
    if len(body) <= 2 * most or _marks(body) <= most:
        return False
    return _marks(_TEXTS.sub(b"", body)) > most


def _marks(body: bytes) -> int:
    return body.count(b",") + body.count(b"[") + body.count(b"{")


class Lightening:
    """Turns heavy bodies into light ones."""

    def __init__(self, *, most_nodes: int = MOST_NODES) -> None:
        self._turn = asyncio.Lock()
        self._most_nodes = most_nodes

    async def lighten(self, request: Request) -> Request:
        """The same request with a body in JSON; raises BadRequest."""
        # One thread is enough to read, and leaves half of the time to everybody else; several would not.
        async with self._turn:
            body = await asyncio.to_thread(_read, request.body, self._most_nodes)
        media = media_type(request)
        fields = [(name, value) for name, value in request.headers if name != "content-type"]
        kept = media if media == _APPLY and request.method == "PATCH" else JSON
        headers = Headers([*fields, ("content-type", kept)])
        return Request(request.method, request.path, request.query, headers, body, request.peer, request.remarks)


def _read(body: bytes, most_nodes: int) -> bytes:
    from levelset.objects.yaml_codec import read_yaml  # noqa: PLC0415 - yaml is loaded by those who send YAML

    try:
        documents = read_yaml(body, most_nodes=most_nodes)
        if len(documents) == 1:
            return encode_tree(documents[0])
    except BadObject as error:
        raise BadRequest(f"the body of the request cannot be read: {error}") from error
    raise BadRequest(f"the body must hold one YAML document, not {len(documents)}")


def is_json(body: bytes) -> bool:
    """Whether the body is JSON, which is YAML too, but read a hundred times faster."""
    if not body.startswith((b"{", b"[")):
        return False
    try:
        msgspec.json.decode(body, type=msgspec.Raw)
    except (msgspec.DecodeError, RecursionError):
        return False
    return True
