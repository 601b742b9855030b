"""Renders objects and lists as responses: JSON, YAML, Table, PartialObjectMetadata.

Plain JSON is sent as the stored bytes; every other format is rendered from the decoded tree. A client selects a format
in its Accept header (`application/json;as=Table;g=meta.k8s.io;v=v1`), which `wire/negotiation.py` parses.
"""

import json
from collections.abc import Callable
from datetime import datetime
from functools import partial
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from levelset.apiserver.printers import table
from levelset.apiserver.registry import storage_codec
from levelset.apiserver.registry.builtin.workloads import TEMPLATE_GENERATION
from levelset.apiserver.registry.storage_codec import served_tree
from levelset.apiserver.resources.served_resource import Object, ServedResource
from levelset.apiserver.resources.server_state import ServerState, Tree
from levelset.apiserver.verbs.get_and_list import ListResult
from levelset.apiserver.verbs.list_body import (
    MANY_RENDERED,
    Entries,
    encoded_list_body,
    is_large_list,
    list_body,
    object_body,
    rendered_list_body,
)
from levelset.apiserver.wire.body_encoding import BROWSERS, BodyForm, encode, indent, is_pretty
from levelset.apiserver.wire.negotiation import PLAIN_JSON, YAML, ResponseFormat, negotiate_error
from levelset.apiserver.wire.step_limits import LARGE_OBJECT
from levelset.errors import ApiError, BadRequest
from levelset.http import Request, Response
from levelset.objects import decode_tree, encode_tree
from levelset.storage import Item

__all__ = [
    "JSON_HEADERS",
    "METADATA",
    "METADATA_LIST",
    "TABLE",
    "Representation",
    "metadata_bytes",
    "render",
    "render_deleted",
    "render_error",
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
# The packages of kinds that subresources of other groups have.
_PACKAGES: Final = {"Event": "core", "EventList": "core", "Scale": "autoscaling", "TokenRequest": "authentication"}
JSON_HEADERS: Final = (("Content-Type", "application/json"),)


class _OnlyMetadata(msgspec.Struct, frozen=True, gc=False):
    metadata: msgspec.Raw


_decode_metadata: Final = msgspec.json.Decoder(_OnlyMetadata).decode


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
        problem = f"includeObject: Invalid value: {json.dumps(chosen)}: must be 'Metadata', 'Object', 'None', or empty"
        raise BadRequest(f"Unable to convert to Table as requested: {problem}")
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
        # Inlined `is_pretty` for the usual case: no `pretty` parameter, and not a browser.
        agent = request.headers.find("user-agent")
        if "pretty" not in request.query and (agent is None or not agent.startswith(BROWSERS)):
            return Response(status, JSON_HEADERS, body + b"\n")
        return Response(status, JSON_HEADERS, indent(body) if is_pretty(request) else body + b"\n")
    return render_tree(state, served, request, chosen=chosen, tree=served_tree(served, item), status=status)


def render_listing(
    state: ServerState, served: ServedResource, request: Request, *, chosen: ResponseFormat, listing: ListResult
) -> Response:
    """Renders a page of a list; the body of a large one is made while it is sent."""
    items, metadata = listing.items, _list_metadata(served, listing)
    if chosen.kind is not None:
        _check_kind(served, chosen, METADATA)
        if not metadata.get("continue"):
            metadata.pop("continue", None)
    if chosen.is_plain and not is_pretty(request):
        if is_large_list(items, is_rendered=False):
            return Response(200, JSON_HEADERS, list_body(served, items, metadata))
        encoded = storage_codec.list_item_bytes(served, items)
        return Response(200, JSON_HEADERS, storage_codec.list_document(served, encoded, metadata=metadata) + b"\n")
    entries, form = _entries(state, served, request, chosen, metadata), _form(request, chosen)
    if is_large_list(items, is_rendered=True):
        body = rendered_list_body(state.expensive_work, served, items, entries, form=form)
        return Response(200, _headers(chosen), body)
    rendered = [entries.make(item) for item in items]
    tree = {**entries.envelope, entries.member: _items(chosen, rendered)}
    return Response(200, _headers(chosen), encode(tree, form))


def _items(chosen: ResponseFormat, rendered: list[Any]) -> list[Any] | None:
    """The entries of a list; as upstream, a list of metadata is null when it is empty."""
    return rendered or (None if chosen.kind == METADATA_LIST else [])


def _check_kind(served: ServedResource, chosen: ResponseFormat, wrong: str, kind: str | None = None) -> None:
    """Raises 406 if a list was requested as one object, or one object (of another `kind`, if given) as a list."""
    if chosen.kind != wrong:
        return
    if served.custom and wrong == METADATA_LIST and kind != "Scale":
        raise ApiError("content is not a list", code=500, reason="")  # as upstream, whose objects are untyped
    found = "is a list" if wrong == METADATA else "is not a list"
    name = served.list_kind if wrong == METADATA else kind or served.kind
    raise ApiError(
        f"you requested {wrong}, but the requested object {found} ({_go_type(served, name)})",
        code=406,
        reason="NotAcceptable",
    )


def _go_type(served: ServedResource, kind: str) -> str:
    """The name of the type that upstream has for a kind: the message of an error shows it."""
    if served.custom:
        return "*v1.Scale" if kind == "Scale" else "*unstructured.UnstructuredList"
    return f"*{_PACKAGES.get(kind) or served.group.partition('.')[0] or 'core'}.{kind}"


def render_deleted(
    state: ServerState,
    served: ServedResource,
    request: Request,
    *,
    chosen: ResponseFormat,
    objects: list[bytes],
    revision: int,
) -> Response:
    """Renders the objects of a collection that was deleted, given as JSON, as `render_listing` does.

    `revision` is that of the list before they were deleted.
    """
    metadata = {"resourceVersion": str(revision)}
    if served.custom:
        metadata["continue"] = ""  # as in their lists
    if chosen.kind is not None:
        _check_kind(served, chosen, METADATA)
        metadata.pop("continue", None)
    entries, form = _entries(state, served, request, chosen, metadata, is_stored=False), _form(request, chosen)
    if len(objects) > MANY_RENDERED or sum(map(len, objects)) > LARGE_OBJECT:
        return Response(200, _headers(chosen), encoded_list_body(state.expensive_work, objects, entries, form=form))
    rendered = [entries.make(one) for one in objects]
    tree = {**entries.envelope, entries.member: _items(chosen, rendered)}
    return Response(200, _headers(chosen), encode(tree, form))


def _entries(
    state: ServerState,
    served: ServedResource,
    request: Request,
    chosen: ResponseFormat,
    metadata: Tree,
    *,
    is_stored: bool = True,
) -> Entries:
    """How the entries of a list are rendered, from stored objects or from the JSON of objects."""
    tree_of: Callable[[Any], Tree] = partial(served_tree, served) if is_stored else decode_tree
    if chosen.kind is None:
        envelope = {"kind": served.list_kind, "apiVersion": served.api_version, "metadata": metadata}
        if chosen.media == YAML or not is_stored:
            return Entries(envelope, "items", lambda item: _plain_entry(served, tree_of(item)))
        return Entries(envelope, "items", partial(_raw_entry, served))
    form = representation_of(chosen.kind, chosen.version, include=request.parameter("includeObject"))
    if form.kind != TABLE:
        envelope = {"kind": METADATA_LIST, "apiVersion": form.api_version, "metadata": metadata}
        if chosen.media == YAML or not is_stored:
            return Entries(envelope, "items", lambda item: to_metadata(tree_of(item), form.api_version))
        return Entries(envelope, "items", lambda item: msgspec.Raw(metadata_bytes(served, item, form.api_version)))
    now = state.now()
    envelope = render_table(served, form, {"metadata": metadata, "items": []}, now=now)
    del envelope["rows"]
    return Entries(envelope, "rows", lambda item: _row(served, form, tree_of(item), now))


def _plain_entry(served: ServedResource, tree: Tree) -> Tree:
    if not served.custom:
        del tree["kind"], tree["apiVersion"]
    return tree


def _raw_entry(served: ServedResource, item: Item) -> msgspec.Raw:
    return msgspec.Raw(storage_codec.list_item_bytes(served, [item])[0])


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
        if "items" in tree:
            _check_kind(served, chosen, METADATA)
        else:
            _check_kind(served, chosen, METADATA_LIST, tree.get("kind"))
        kind = representation_of(chosen.kind, chosen.version, include=request.parameter("includeObject"))
        tree = render(served, kind, tree, now=state.now())
    plain, form = encode_tree(tree), _form(request, chosen)
    if form == "json":
        return Response(status, JSON_HEADERS, plain + b"\n")
    if len(plain) > LARGE_OBJECT:
        return Response(status, _headers(chosen), object_body(state.expensive_work, tree, form=form))
    return Response(status, _headers(chosen), encode(tree, form))


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
        version = metadata.get("resourceVersion")
        metadata = {"resourceVersion": version} if version else {}
        items = [tree]
    return {
        "kind": TABLE,
        "apiVersion": form.api_version,
        "metadata": metadata,
        "columnDefinitions": table.definitions(served, kind) if with_header else None,
        "rows": [_row(served, form, one, now) for one in items],
    }


def to_metadata(tree: Object, api_version: str = "meta.k8s.io/v1") -> Object:
    """Returns the PartialObjectMetadata of an object."""
    metadata = tree.get("metadata", {})
    annotations = metadata.get("annotations")
    if annotations and TEMPLATE_GENERATION in annotations:
        # Upstream it is a field of its own, and becomes an annotation only where the whole object is written.
        rest = {name: value for name, value in annotations.items() if name != TEMPLATE_GENERATION}
        metadata = {name: value for name, value in metadata.items() if name != "annotations"}
        metadata |= {"annotations": rest} if rest else {}
    return {"kind": METADATA, "apiVersion": api_version, "metadata": metadata}


def metadata_bytes(served: ServedResource, item: Item, api_version: str) -> bytes:
    """Returns the PartialObjectMetadata of a stored object as JSON, mostly without decoding the object."""
    if served.kind == "DaemonSet":
        return encode_tree(to_metadata(served_tree(served, item), api_version))
    found = _decode_metadata(storage_codec.served_bytes(served, item)).metadata
    return b'{"kind":"%b","apiVersion":"%b","metadata":%b}' % (METADATA.encode(), api_version.encode(), bytes(found))


def _row(served: ServedResource, form: Representation, tree: Object, now: datetime) -> Object:
    return {"cells": table.cells(served, tree, now), "object": _row_object(served, form, tree)}


def _row_object(served: ServedResource, form: Representation, tree: Object) -> Any:
    if form.include == "None":
        return None
    if form.include == "Object":
        # Items of a built-in list have no kind and apiVersion, but the object of a row always does.
        return {"kind": served.kind, "apiVersion": served.api_version, **tree}
    return to_metadata(tree, form.api_version)


def _form(request: Request, chosen: ResponseFormat) -> BodyForm:
    """How the body is written."""
    if chosen.media == YAML:
        return "yaml"
    return "pretty" if chosen.pretty or is_pretty(request) else "json"


def _headers(chosen: ResponseFormat) -> tuple[tuple[str, str], ...]:
    return (("Content-Type", YAML),) if chosen.media == YAML else JSON_HEADERS


def render_error(response: Response, request: Request) -> Response:
    """The response with the Status of an error in the form that the client prefers."""
    chosen = negotiate_error(request.headers.find("accept"))
    if (chosen is PLAIN_JSON and not is_pretty(request)) or not isinstance(response.body, bytes):
        return response
    if chosen is None:  # no Status can be sent as what was requested
        return replace(response, body=indent(response.body))
    form = _form(request, chosen)
    if form == "json":
        return response
    headers = response.headers
    if form == "yaml":
        headers = (*(one for one in headers if one[0] != "Content-Type"), ("Content-Type", YAML))
    return replace(response, headers=headers, body=encode(msgspec.json.decode(response.body), form))


def _list_metadata(served: ServedResource, listing: ListResult) -> Tree:
    metadata: Tree = {"resourceVersion": str(listing.revision)}
    if listing.token or served.custom:  # upstream quirk: lists of custom resources always have the field
        metadata["continue"] = listing.token
    if listing.remaining:
        metadata["remainingItemCount"] = listing.remaining
    return metadata
