"""Limits on expensive request bodies: large YAML and protobuf are converted in a thread, too many values are rejected.

YAML takes a hundred times as long to parse as JSON of the same size, protobuf some ten times. A large body of theirs is
therefore parsed in a thread, one at a time, and handed on as JSON, so that request handlers need not know. JSON is
parsed at once whatever its size, but the work per value adds up: a body of a million tiny values is rejected without
parsing it.
"""

import asyncio
from typing import Final

import msgspec

from levelset.apiserver.wire.negotiation import JSON, media_type, read_protobuf_body
from levelset.apiserver.wire.protobuf import PROTOBUF
from levelset.apiserver.wire.status_errors import too_many_values
from levelset.errors import BadObject, BadRequest
from levelset.http import Headers, Request
from levelset.objects import encode_tree

__all__ = [
    "LARGE_YAML_BYTES",
    "MAX_JSON_VALUES",
    "MAX_LOOP_VALUES",
    "BodyConverter",
    "has_too_many_values",
    "is_json_body",
    "is_large_protobuf",
    "is_large_yaml",
]

LARGE_YAML_BYTES: Final = 16 * 1024
MAX_YAML_NODES: Final = 200_000
"""The largest number of nodes in a YAML body: four times what the largest CRDs in use have."""
MAX_JSON_VALUES: Final = 50_000
"""The largest number of values in a JSON body, keys aside: twice what the largest CRDs in use have."""
MAX_LOOP_VALUES: Final = 5_000
"""The largest number of values in an object of a kind that no thread may prepare: a Service."""
_APPLY: Final = "application/apply-patch+yaml"


def is_large_yaml(request: Request) -> bool:
    """Whether the body is large YAML that is not JSON as well."""
    if len(request.body) <= LARGE_YAML_BYTES or "yaml" not in (request.headers.find("content-type") or "").lower():
        return False
    return not is_json_body(request.body)


def is_large_protobuf(request: Request) -> bool:
    """Whether the body is large protobuf, which the server reads in Python."""
    return len(request.body) > LARGE_YAML_BYTES and media_type(request) == PROTOBUF


def has_too_many_values(body: bytes, most: int = MAX_JSON_VALUES) -> bool:
    """Whether a JSON body holds more values than the limit, counted without parsing it."""
    # Every value but the first follows a comma or an opening bracket. Strings contain these characters, too, so they
    # are removed before a body is rejected.
    if len(body) <= 2 * most or _count_separators(body) <= most:
        return False
    # Without escapes, every second part between quotes is a string; a regular expression would take ten times as long.
    outside = body.replace(rb"\\", b"").replace(rb"\"", b"").split(b'"')[::2]
    return _count_separators(b"".join(outside)) > most


def _count_separators(body: bytes) -> int:
    return body.count(b",") + body.count(b"[") + body.count(b"{")


class BodyConverter:
    """Converts large YAML and protobuf bodies to JSON, one at a time."""

    def __init__(self, *, max_nodes: int = MAX_YAML_NODES) -> None:
        self._lock = asyncio.Lock()
        self._max_nodes = max_nodes

    async def convert(self, request: Request) -> Request:
        """The same request with a JSON body; raises BadRequest if it is invalid, ApiError (413) if it is too large."""
        media = media_type(request)
        # One thread at a time leaves the event loop half of the interpreter's time; several threads would starve it.
        async with self._lock:
            body = await asyncio.to_thread(_to_json, media, request.body, self._max_nodes)
        fields = [(name, value) for name, value in request.headers if name != "content-type"]
        # The media type of an apply patch selects the verb; its body may be JSON, too.
        content_type = media if media == _APPLY and request.method == "PATCH" else JSON
        headers = Headers([*fields, ("content-type", content_type)])
        return Request(request.method, request.path, request.query, headers, body, request.peer, request.remarks)


def _to_json(media: str | None, body: bytes, max_nodes: int) -> bytes:
    converted = encode_tree(read_protobuf_body(body)) if media == PROTOBUF else _yaml_to_json(body, max_nodes)
    if has_too_many_values(converted):
        raise too_many_values(MAX_JSON_VALUES)
    return converted


def _yaml_to_json(body: bytes, max_nodes: int) -> bytes:
    from levelset.objects.yaml_codec import read_yaml  # noqa: PLC0415 - loads the YAML parser only when it is needed

    try:
        documents = read_yaml(body, max_nodes=max_nodes)
        if len(documents) == 1:
            return encode_tree(documents[0])
    except BadObject as error:
        raise BadRequest(f"the body of the request cannot be read: {error}") from error
    raise BadRequest(f"the body must hold one YAML document, not {len(documents)}")


def is_json_body(body: bytes) -> bool:
    """Whether the body is JSON, which is YAML as well but parses a hundred times faster."""
    if not body.startswith((b"{", b"[")):
        return False
    try:
        msgspec.json.decode(body, type=msgspec.Raw)
    except (msgspec.DecodeError, RecursionError):
        return False
    return True
