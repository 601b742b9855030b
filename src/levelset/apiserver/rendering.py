"""Objects and lists as answers: stored bytes go out as they are; any other chosen is made from the decoded tree."""

from typing import Final

import msgspec

from levelset.apiserver import forms, objects
from levelset.apiserver.listing import Listing
from levelset.apiserver.negotiation import PLAIN, YAML, Chosen
from levelset.apiserver.served import Served
from levelset.apiserver.world import Tree, World
from levelset.objects import encode_tree
from levelset.storage import Item
from levelset.web import Request, Response

__all__ = ["JSON_HEADERS", "render_item", "render_listing", "render_tree"]

JSON_HEADERS: Final = (("Content-Type", "application/json"),)
_BROWSERS: Final = ("curl/", "Wget/", "Mozilla/5.0")


def render_item(
    world: World, served: Served, request: Request, *, chosen: Chosen, item: Item, status: int = 200
) -> Response:
    """A stored object as an answer."""
    if chosen is PLAIN or chosen.is_plain:
        body = objects.served_bytes(served, item)
        # As `_json`, without its calls for most: who says nothing about it, and is no browser.
        agent = request.headers.find("user-agent")
        if "pretty" not in request.query and (agent is None or not agent.startswith(_BROWSERS)):
            return Response(status, JSON_HEADERS, body)
        return _json(request, body, status)
    return render_tree(world, served, request, chosen=chosen, tree=objects.served_tree(served, item), status=status)


def render_listing(world: World, served: Served, request: Request, *, chosen: Chosen, listing: Listing) -> Response:
    """A page of a list as an answer."""
    metadata = _list_metadata(served, listing)
    if chosen.is_plain:
        items = objects.listed_bytes(served, listing.items)
        return _json(request, objects.join_list(served, items, metadata=metadata), 200)
    trees = [objects.served_tree(served, item) for item in listing.items]
    if chosen.kind is None and not served.custom:
        for tree in trees:
            del tree["kind"], tree["apiVersion"]
    tree = {"kind": served.list_kind, "apiVersion": served.api_version, "metadata": metadata, "items": trees}
    return render_tree(world, served, request, chosen=chosen, tree=tree)


def render_tree(
    world: World, served: Served, request: Request, *, chosen: Chosen, tree: Tree, status: int = 200
) -> Response:
    """A decoded object or list as an answer; a Status is never shown in another chosen."""
    if chosen.kind is not None and tree.get("kind") != "Status":
        form = forms.form_of(chosen.kind, chosen.version, include=request.parameter("includeObject"))
        tree = forms.render(served, form, tree, now=world.now())
    if chosen.media != YAML:
        return _json(request, encode_tree(tree), status)
    from levelset.objects.yamltext import write_yaml  # noqa: PLC0415 - yaml is loaded by those who ask for YAML

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


def _list_metadata(served: Served, listing: Listing) -> Tree:
    metadata: Tree = {"resourceVersion": str(listing.revision)}
    if listing.token or served.custom:  # lists of custom resources always say it, if only that there is nothing more
        metadata["continue"] = listing.token
    if listing.remaining:
        metadata["remainingItemCount"] = listing.remaining
    return metadata
