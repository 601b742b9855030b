"""Renders objects and lists as responses: JSON, YAML, Table, PartialObjectMetadata.

Plain JSON is sent as the stored bytes; every other format is rendered from the decoded tree. A client selects a format
in its Accept header (`application/json;as=Table;g=meta.k8s.io;v=v1`), which `wire/negotiation.py` parses.
"""

import asyncio
from collections.abc import AsyncIterator, Sequence
from datetime import datetime
from typing import Any, Final

import msgspec

from levelset.apiserver.printers import table
from levelset.apiserver.registry import storage_codec
from levelset.apiserver.resources.served_resource import Object, ServedResource
from levelset.apiserver.resources.server_state import ServerState, Tree
from levelset.apiserver.verbs.get_and_list import ListResult
from levelset.apiserver.wire.negotiation import PLAIN_JSON, YAML, ResponseFormat
from levelset.errors import BadRequest
from levelset.http import Request, Response
from levelset.objects import encode_tree
from levelset.storage import Item

__all__ = [
    "JSON_HEADERS",
    "LARGE_LIST",
    "METADATA",
    "METADATA_LIST",
    "TABLE",
    "ListBody",
    "Representation",
    "render",
    "render_item",
    "render_listing",
    "render_table",
    "render_tree",
    "representation_of",
    "to_metadata",
]


TABLE = "Table"
METADATA = "PartialObjectMetadata"
METADATA_LIST = "PartialObjectMetadataList"
_INCLUDES = ("Metadata", "None", "Object")
JSON_HEADERS: Final = (("Content-Type", "application/json"),)
LARGE_LIST: Final = 10_000
"""A list of more objects is made while it is sent."""
_SLICE: Final = 1_000
_BROWSERS: Final = ("curl/", "Wget/", "Mozilla/5.0")


class Representation(msgspec.Struct, frozen=True):
    """What to render instead of the object: TABLE, METADATA or METADATA_LIST, in a version of meta.k8s.io.

    `include` is the part of the object in each row of a table: `Metadata`, `Object` or `None`.
    """

    kind: str
    version: str = "v1"
    include: str = "Metadata"

    @property
    def api_version(self) -> str:
        """The apiVersion of the response."""
        return f"meta.k8s.io/{self.version}"


def representation_of(kind: str, version: str = "v1", *, include: str | None = None) -> Representation:
    """Returns the representation with the `includeObject` of the query; raises BadRequest for an unknown value."""
    if kind != TABLE:
        return Representation(kind, version)
    chosen = include or "Metadata"
    if chosen not in _INCLUDES:
        raise BadRequest(f"unrecognized includeObject value: {chosen[:40]!r}; choose one of {', '.join(_INCLUDES)}")
    return Representation(kind, version, chosen)


def render_item(
    state: ServerState,
    served: ServedResource,
    request: Request,
    *,
    chosen: ResponseFormat,
    item: Item,
    status: int = 200,
) -> Response:
    """Renders a stored object."""
    if chosen is PLAIN_JSON or chosen.is_plain:
        body = storage_codec.served_bytes(served, item)
        # Inlined `_json` for the usual case: no `pretty` parameter, and not a browser.
        agent = request.headers.find("user-agent")
        if "pretty" not in request.query and (agent is None or not agent.startswith(_BROWSERS)):
            return Response(status, JSON_HEADERS, body + b"\n")
        return _json(request, body, status)
    return render_tree(
        state, served, request, chosen=chosen, tree=storage_codec.served_tree(served, item), status=status
    )


def render_listing(
    state: ServerState, served: ServedResource, request: Request, *, chosen: ResponseFormat, listing: ListResult
) -> Response:
    """Renders a page of a list."""
    metadata = _list_metadata(served, listing)
    if chosen.is_plain and len(listing.items) > LARGE_LIST and not _is_pretty(request):
        return Response(200, JSON_HEADERS, ListBody(served, listing.items, metadata))
    if chosen.is_plain:
        items = storage_codec.list_item_bytes(served, listing.items)
        return _json(request, storage_codec.list_document(served, items, metadata=metadata), 200)
    trees = [storage_codec.served_tree(served, item) for item in listing.items]
    if chosen.kind is None and not served.custom:
        for tree in trees:
            del tree["kind"], tree["apiVersion"]
    tree = {"kind": served.list_kind, "apiVersion": served.api_version, "metadata": metadata, "items": trees}
    return render_tree(state, served, request, chosen=chosen, tree=tree)


class ListBody:
    """The body of a large list, made slice by slice while it is sent: the whole would hold the event loop."""

    def __init__(self, served: ServedResource, items: Sequence[Item], metadata: Tree) -> None:
        self._served = served
        self._items = items
        self._metadata = metadata

    async def __aiter__(self) -> AsyncIterator[bytes]:
        """The pieces; others run between them."""
        empty = storage_codec.list_document(self._served, [], metadata=self._metadata)
        separator = empty[:-2]  # up to the bracket that begins the items
        for start in range(0, len(self._items), _SLICE):
            pieces = storage_codec.list_item_bytes(self._served, self._items[start : start + _SLICE])
            yield separator + b",".join(pieces)
            separator = b","
            await asyncio.sleep(0)
        yield b"]}\n"


def render_tree(
    state: ServerState,
    served: ServedResource,
    request: Request,
    *,
    chosen: ResponseFormat,
    tree: Tree,
    status: int = 200,
) -> Response:
    """Renders a decoded object or list; a Status is always rendered as itself."""
    if chosen.kind is not None and tree.get("kind") != "Status":
        form = representation_of(chosen.kind, chosen.version, include=request.parameter("includeObject"))
        tree = render(served, form, tree, now=state.now())
    if chosen.media != YAML:
        return _json(request, encode_tree(tree), status)
    from levelset.objects.yaml_codec import write_yaml  # noqa: PLC0415 - only YAML responses pay for the import

    return Response(status, (("Content-Type", YAML),), write_yaml([tree]).encode())


def render(served: ServedResource, form: Representation, tree: Object, *, now: datetime) -> Object:
    """Renders the tree; a tree with `items` is a list. The result shares parts of the tree."""
    if form.kind == TABLE:
        return render_table(served, form, tree, now=now)
    items: list[Object] | None = tree.get("items")
    if items is None or form.kind == METADATA:
        return to_metadata(tree, form.api_version)
    return {
        "kind": METADATA_LIST,
        "apiVersion": form.api_version,
        "metadata": tree.get("metadata", {}),
        "items": [to_metadata(item, form.api_version) for item in items],
    }


def render_table(
    served: ServedResource, form: Representation, tree: Object, *, now: datetime, with_header: bool = True
) -> Object:
    """Renders an object or a list as a Table; in a watch only the first one has column definitions."""
    items: list[Object] | None = tree.get("items")
    kind: str | None = tree.get("kind") if items is None else None
    metadata: Object = tree.get("metadata", {})
    if items is None:  # as upstream: of one object's metadata, only the resourceVersion
        metadata = {"resourceVersion": metadata.get("resourceVersion", "")}
        items = [tree]
    return {
        "kind": TABLE,
        "apiVersion": form.api_version,
        "metadata": metadata,
        "columnDefinitions": table.definitions(served, kind) if with_header else None,
        "rows": [{"cells": table.cells(served, one, now), "object": _row_object(served, form, one)} for one in items],
    }


def to_metadata(tree: Object, api_version: str = "meta.k8s.io/v1") -> Object:
    """Returns the PartialObjectMetadata of an object."""
    return {"kind": METADATA, "apiVersion": api_version, "metadata": tree.get("metadata", {})}


def _row_object(served: ServedResource, form: Representation, tree: Object) -> Any:
    if form.include == "None":
        return None
    if form.include == "Object":
        # Items of a built-in list have no kind and apiVersion, but the object of a row always does.
        return {"kind": served.kind, "apiVersion": served.api_version, **tree}
    return to_metadata(tree, form.api_version)


def _json(request: Request, body: bytes, status: int) -> Response:
    if _is_pretty(request):
        body = msgspec.json.format(body, indent=2)
    return Response(status, JSON_HEADERS, body + b"\n")


def _is_pretty(request: Request) -> bool:
    """Whether to indent: as the `pretty` parameter says, by default for browsers, curl and wget."""
    if request.query and "pretty" in request.query:
        pretty = request.parameter("pretty")
        if pretty is not None:
            return pretty.lower() not in ("false", "0")
    agent = request.headers.find("user-agent")
    return agent is not None and agent.startswith(_BROWSERS)


def _list_metadata(served: ServedResource, listing: ListResult) -> Tree:
    metadata: Tree = {"resourceVersion": str(listing.revision)}
    if listing.token or served.custom:  # upstream quirk: lists of custom resources always have the field
        metadata["continue"] = listing.token
    if listing.remaining:
        metadata["remainingItemCount"] = listing.remaining
    return metadata
