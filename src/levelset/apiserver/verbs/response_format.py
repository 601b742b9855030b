"""Objects and lists as answers: stored bytes go out as they are; any other chosen is made from the decoded tree.

The other forms of an answer: an object or a list as a Table, or as nothing but its metadata.

A client asks for them in its Accept header (`application/json;as=Table;g=meta.k8s.io;v=v1`); `negotiation` reads that
and names the form here.
"""

from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

import msgspec

from levelset.apiserver.printers import table
from levelset.apiserver.registry import storage_codec
from levelset.apiserver.resources.served_resource import Object, ServedResource
from levelset.apiserver.resources.server_state import Tree, World
from levelset.apiserver.verbs.get_and_list import Listing
from levelset.apiserver.wire.negotiation import PLAIN, YAML, Chosen
from levelset.errors import BadRequest
from levelset.http import Request, Response
from levelset.objects import encode_tree
from levelset.storage import Item

__all__ = [
    "JSON_HEADERS",
    "METADATA",
    "METADATA_LIST",
    "TABLE",
    "Form",
    "form_of",
    "render",
    "render_item",
    "render_listing",
    "render_table",
    "render_tree",
    "to_metadata",
]

TABLE = "Table"
METADATA = "PartialObjectMetadata"
METADATA_LIST = "PartialObjectMetadataList"
_INCLUDES = ("Metadata", "None", "Object")


@dataclass(frozen=True, slots=True)
class Form:
    """What the client wants instead of the object: one of TABLE, METADATA, METADATA_LIST, in a version of meta.k8s.io.

    `include` says what each row of a table carries of its object: `Metadata`, `Object` or `None`.
    """

    kind: str
    version: str = "v1"
    include: str = "Metadata"

    @property
    def api_version(self) -> str:
        """The apiVersion of the answer."""
        return f"meta.k8s.io/{self.version}"


def form_of(kind: str, version: str = "v1", *, include: str | None = None) -> Form:
    """The form with the `includeObject` of the query; raises BadRequest for an unknown one."""
    if kind != TABLE:
        return Form(kind, version)
    chosen = include or "Metadata"
    if chosen not in _INCLUDES:
        raise BadRequest(f"unrecognized includeObject value: {chosen[:40]!r}; choose one of {', '.join(_INCLUDES)}")
    return Form(kind, version, chosen)


def render(served: ServedResource, form: Form, tree: Object, *, now: datetime) -> Object:
    """The tree in another form; a tree with `items` is a list. What is not changed is shared with the tree given."""
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


def to_metadata(tree: Object, api_version: str = "meta.k8s.io/v1") -> Object:
    """An object without all but its metadata."""
    return {"kind": METADATA, "apiVersion": api_version, "metadata": tree.get("metadata", {})}


def render_table(served: ServedResource, form: Form, tree: Object, *, now: datetime, headed: bool = True) -> Object:
    """One object or a list as a table; in a watch only the first table is `headed` by its columns."""
    items: list[Object] | None = tree.get("items")
    kind: str | None = tree.get("kind") if items is None else None
    metadata: Object = tree.get("metadata", {})
    if items is None:  # one object gives its table its resourceVersion, but nothing else of its metadata
        metadata = {"resourceVersion": metadata.get("resourceVersion", "")}
        items = [tree]
    return {
        "kind": TABLE,
        "apiVersion": form.api_version,
        "metadata": metadata,
        "columnDefinitions": table.definitions(served, kind) if headed else None,
        "rows": [{"cells": table.cells(served, one, now), "object": _row_object(served, form, one)} for one in items],
    }


def _row_object(served: ServedResource, form: Form, tree: Object) -> Any:
    if form.include == "None":
        return None
    if form.include == "Object":
        # Items of a built-in list come without kind and apiVersion; a row's object always says what it is.
        return {"kind": served.kind, "apiVersion": served.api_version, **tree}
    return to_metadata(tree, form.api_version)


JSON_HEADERS: Final = (("Content-Type", "application/json"),)
_BROWSERS: Final = ("curl/", "Wget/", "Mozilla/5.0")


def render_item(
    world: World, served: ServedResource, request: Request, *, chosen: Chosen, item: Item, status: int = 200
) -> Response:
    """A stored object as an answer."""
    if chosen is PLAIN or chosen.is_plain:
        body = storage_codec.served_bytes(served, item)
        # As `_json`, without its calls for most: who says nothing about it, and is no browser.
        agent = request.headers.find("user-agent")
        if "pretty" not in request.query and (agent is None or not agent.startswith(_BROWSERS)):
            return Response(status, JSON_HEADERS, body)
        return _json(request, body, status)
    return render_tree(
        world, served, request, chosen=chosen, tree=storage_codec.served_tree(served, item), status=status
    )


def render_listing(
    world: World, served: ServedResource, request: Request, *, chosen: Chosen, listing: Listing
) -> Response:
    """A page of a list as an answer."""
    metadata = _list_metadata(served, listing)
    if chosen.is_plain:
        items = storage_codec.listed_bytes(served, listing.items)
        return _json(request, storage_codec.join_list(served, items, metadata=metadata), 200)
    trees = [storage_codec.served_tree(served, item) for item in listing.items]
    if chosen.kind is None and not served.custom:
        for tree in trees:
            del tree["kind"], tree["apiVersion"]
    tree = {"kind": served.list_kind, "apiVersion": served.api_version, "metadata": metadata, "items": trees}
    return render_tree(world, served, request, chosen=chosen, tree=tree)


def render_tree(
    world: World, served: ServedResource, request: Request, *, chosen: Chosen, tree: Tree, status: int = 200
) -> Response:
    """A decoded object or list as an answer; a Status is never shown in another chosen."""
    if chosen.kind is not None and tree.get("kind") != "Status":
        form = form_of(chosen.kind, chosen.version, include=request.parameter("includeObject"))
        tree = render(served, form, tree, now=world.now())
    if chosen.media != YAML:
        return _json(request, encode_tree(tree), status)
    from levelset.objects.yaml_codec import write_yaml  # noqa: PLC0415 - yaml is loaded by those who ask for YAML

    return Response(status, (("Content-Type", YAML),), write_yaml([tree]).encode())


def _json(request: Request, body: bytes, status: int) -> Response:
    if _is_for_people(request):
        body = msgspec.json.format(body, indent=2) + b"\n"
    return Response(status, JSON_HEADERS, body)


def _is_for_people(request: Request) -> bool:
    """Whether to indent: because it was asked for, or because it is a browser or the like that asks."""
    if request.query and "pretty" in request.query:
        asked = request.parameter("pretty")
        if asked is not None:
            return asked.lower() not in ("false", "0")
    agent = request.headers.find("user-agent")
    return agent is not None and agent.startswith(_BROWSERS)


def _list_metadata(served: ServedResource, listing: Listing) -> Tree:
    metadata: Tree = {"resourceVersion": str(listing.revision)}
    if listing.token or served.custom:  # lists of custom resources always say it, if only that there is nothing more
        metadata["continue"] = listing.token
    if listing.remaining:
        metadata["remainingItemCount"] = listing.remaining
    return metadata
