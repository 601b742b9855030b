"""Long bodies in YAML, which take a hundred times as long to read as JSON: they are read in a thread.

What comes out is the same request with its body in JSON, for the loop to go on with.
"""

import asyncio
from typing import Final

import msgspec

from levelset.apiserver.negotiation import JSON, YAML, media_type, read_text
from levelset.errors import BadRequest
from levelset.objects import encode_tree
from levelset.web import Headers, Request

__all__ = ["SHORT", "is_json", "is_long_yaml", "unfold"]

SHORT: Final = 128 * 1024
"""The longest body that is always read at once: that takes a few hundredths of a second."""


def is_long_yaml(request: Request) -> bool:
    """Whether the body would hold up the others while it is read."""
    if len(request.body) <= SHORT or "yaml" not in (request.headers.find("content-type") or "").lower():
        return False
    # An applied object is said to be YAML, and mostly is JSON.
    return media_type(request) == YAML or request.body[:1] != b"{" or not is_json(request.body)


async def unfold(request: Request) -> Request:
    """The same request with a body in JSON; raises BadRequest for one that cannot be read or is no object."""
    tree = await asyncio.to_thread(read_text, request.body, YAML)
    if not isinstance(tree, dict):
        raise BadRequest(f"the body must be an object, not {encode_tree(tree)[:40].decode(errors='replace')}")
    headers = request.headers
    if media_type(request) == YAML:
        headers = Headers([(name, JSON if name == "content-type" else value) for name, value in headers])
    return Request(request.method, request.path, request.query, headers, encode_tree(tree), request.peer)


def is_json(body: bytes) -> bool:
    """Whether the body is JSON, which is YAML too, but read a hundred times faster."""
    try:
        msgspec.json.decode(body, type=msgspec.Raw)
    except (msgspec.DecodeError, RecursionError):
        return False
    return True
