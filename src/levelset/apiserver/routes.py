"""What each method does at each kind of path: the table from requests to the functions that read, write and watch.

Handlers are ordinary functions that answer at once when they can, and otherwise give something to wait for.

Where requests go, remembered: clients ask for the same paths again, or for others that differ in a name only.
"""

from collections.abc import Awaitable, Callable, Coroutine
from inspect import isawaitable
from typing import Any, Final
from urllib.parse import quote

import msgspec
from msgspec.structs import replace

from levelset.apiserver.admission.chain import Asking
from levelset.apiserver.authn.authenticator import OWNER, Caller
from levelset.apiserver.authz import access_reviews
from levelset.apiserver.authz.escalation import Permit
from levelset.apiserver.authz.rbac import Rbac
from levelset.apiserver.eager_coroutines import Prompt, run_at_once
from levelset.apiserver.registry import strategy
from levelset.apiserver.registry.selectors import selection_of
from levelset.apiserver.registry.storage_codec import served_tree
from levelset.apiserver.resources.served_resource import ServedResource
from levelset.apiserver.resources.server_state import Tree, World
from levelset.apiserver.verbs import create_and_update, delete, get_and_list, patch, response_format, watch
from levelset.apiserver.verbs.create_and_update import Written
from levelset.apiserver.verbs.get_and_list import Listing, parse_list
from levelset.apiserver.verbs.response_format import render_item, render_listing, render_tree
from levelset.apiserver.verbs.subresources import scale
from levelset.apiserver.wire import status_errors
from levelset.apiserver.wire.negotiation import JSON, Chosen, media_type, negotiate, read_object
from levelset.apiserver.wire.request_options import DeleteOptions, WriteOptions, delete_options, write_options
from levelset.apiserver.wire.request_paths import Address
from levelset.apiserver.wire.status_errors import (
    method_not_allowed,
    no_such_resource,
    not_found,
    page_not_found,
    too_large,
)
from levelset.http import Request, Response
from levelset.objects.field_selectors import escape_field_value
from levelset.storage import Item

__all__ = ["Action", "Answer", "Call", "Route", "Routes", "find_action", "verb_of", "warning_text"]

Answer = Response | Awaitable[Response]

_COLLECTION_VERBS: Final = {"GET": "list", "POST": "create", "DELETE": "deletecollection"}
_OBJECT_VERBS: Final = {"GET": "get", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}


class Call(msgspec.Struct, frozen=True, eq=False):
    """One request to one resource."""

    world: World
    served: ServedResource
    address: Address
    request: Request

    @property
    def namespace(self) -> str | None:
        """The namespace in the path."""
        return self.address.namespace

    @property
    def name(self) -> str:
        """The name in the path, for calls about one object."""
        assert self.address.name is not None
        return self.address.name

    @property
    def chosen(self) -> Chosen:
        """The form of an object that the client likes best; raises 406 if there is none."""
        return negotiate(self.request.headers.find("accept"), "object")


Action = Callable[[Call], Answer]
"""Answers a request, or raises the error that the client is to be told."""


def find_action(call: Call) -> Action:
    """What a request about a resource is to be answered with; raises the errors that a client is to be told.

    It depends on the method and the address alone, and for the list of a collection on the query.
    """
    world, served, address, request = call.world, call.served, call.address, call.request
    if address.watch:
        if request.method != "GET":
            raise method_not_allowed(request.method, request.path)
        return _watch_old
    verb = verb_of(address, request)
    if _is_misplaced(call, verb):
        return _misplaced
    if request.method != "GET":
        special = world.special.get((served.group, served.plural, address.subresource))
        if special is not None:
            return lambda call: special(call.world, call.served, call.address, call.request)
    if address.subresource:
        # As `_answer_part` would have it, found once for a path: statuses are patched all the time.
        return _patch if verb == "patch" and address.subresource == "status" and served.status else _answer_part
    if verb is None or verb not in served.verbs:
        raise method_not_allowed(request.method, request.path)
    return _review if verb == "create" and access_reviews.is_review(served) else _VERBS[verb]


def _at_once(write: Callable[[Call], Coroutine[Any, Any, Response]]) -> Action:
    """The write of one object: nothing to wait for on a storage that writes at once, and one landing on others."""

    def action(call: Call) -> Answer:
        world, made = call.world, write(call)
        if world.reader is None or world.admission is not None or call.served.awaits:
            return made
        return Prompt(made) if world.writer is None else run_at_once(made)

    return action


def verb_of(address: Address, request: Request) -> str | None:
    """What a request wants to do, as roles name it; None for a method that means nothing there."""
    if address.name is not None:
        return _OBJECT_VERBS.get(request.method)
    verb = _COLLECTION_VERBS.get(request.method)
    return "watch" if verb == "list" and _is_true(request.parameter("watch")) else verb


def _watch_old(call: Call) -> Answer:
    """Answers at an old watch path, `/api/v1/watch/...`, as at the one with the parameters that mean the same today."""
    address, request = call.address, call.request
    query = f"{request.query}&watch=true"
    if address.name is not None:
        query += "&fieldSelector=" + quote(f"metadata.name={escape_field_value(address.name)}", safe="")
    modern = Request(request.method, request.path, query, request.headers, request.body, request.peer)
    address = replace(address, name=None, subresource="", watch=False)
    today = Call(call.world, call.served, address, modern)
    return find_action(today)(today)


def _is_misplaced(call: Call, verb: str | None) -> bool:
    """Whether there is no such path, which is a 404; 405 for writing a collection of all namespaces."""
    served, address = call.served, call.address
    if address.namespace is not None and not served.namespaced:
        return True
    if not served.namespaced or address.namespace is not None or verb in ("list", "watch"):
        return False
    if address.name is not None or served.custom:
        return True
    raise method_not_allowed(call.request.method, call.request.path)


def _misplaced(_call: Call) -> Answer:
    return page_not_found()


def _get(call: Call) -> Answer:
    # Most requests are for one object: what is asked of the call is said in full here, which spares five calls.
    world, served, address, request = call.world, call.served, call.address, call.request
    chosen = negotiate(request.headers.find("accept"), "object")
    version = request.parameter("resourceVersion") if request.query else None
    assert address.name is not None
    found = get_and_list.get_item(world, served, address.namespace, address.name, resource_version=version)
    if isinstance(found, Item):
        return render_item(world, served, request, chosen=chosen, item=found)
    return _get_later(call, chosen, found)


async def _get_later(call: Call, chosen: Chosen, found: Awaitable[Item]) -> Response:
    return render_item(call.world, call.served, call.request, chosen=chosen, item=await found)


def _list(call: Call) -> Answer:
    request = call.request
    chosen = negotiate(request.headers.find("accept"), "list")
    query = parse_list(call.served, request.parameters)
    found = get_and_list.read_list(call.world, call.served, call.namespace, query)
    if isinstance(found, Listing):
        return render_listing(call.world, call.served, request, chosen=chosen, listing=found)
    return _list_later(call, chosen, found)


async def _list_later(call: Call, chosen: Chosen, found: Awaitable[Listing]) -> Response:
    return render_listing(call.world, call.served, call.request, chosen=chosen, listing=await found)


def _watch(call: Call) -> Answer:
    chosen = negotiate(call.request.headers.find("accept"), "watch")
    form = None
    if chosen.kind is not None:
        form = response_format.form_of(chosen.kind, chosen.version, include=call.request.parameter("includeObject"))
    return watch.watch(call.world, call.served, call.namespace, call.request, form=form)


def _create(call: Call) -> Answer:
    world, served, request = call.world, call.served, call.request
    chosen = negotiate(request.headers.find("accept"), "object")
    body = read_object(request, custom=served.custom)
    options = write_options(request, "CreateOptions", duplicates=body.duplicates)
    if world.rbac is not None:
        options = _permitted(call, world.rbac, options)
    if world.reader is None or world.admission is not None or served.awaits:
        return _create_later(call, chosen, body.tree, options)
    if world.writer is None:
        return Prompt(_create_later(call, chosen, body.tree, options))
    written = create_and_update.create_nowait(world, served, call.address.namespace, body.tree, options)
    return _written(call, chosen, options, written)


async def _create_later(call: Call, chosen: Chosen, tree: Tree, options: WriteOptions) -> Response:
    written = await create_and_update.create(call.world, call.served, call.namespace, tree, _asking(call, options))
    return _written(call, chosen, options, written)


def _asking(call: Call, options: WriteOptions) -> WriteOptions:
    """The same options, with those who are asked about the write, if there are any, and what the sender may do."""
    chain, rbac = call.world.admission, call.world.rbac
    if rbac is not None and options.permit is None:
        options = _permitted(call, rbac, options)
    if chain is None or not chain.concerns(call.served, options.subresource, call.world.catalog):
        return options
    form = scale.FORM if options.subresource == "scale" else None
    return replace(options, asking=Asking(chain, _caller(call), options.warnings, form, _remarks(call)))


def _remarks(call: Call) -> dict[str, str]:
    """Where those who are asked leave what is to be noted about the request."""
    remarks = call.request.remarks
    return {} if remarks is None else remarks


def _permitted(call: Call, rbac: Rbac, options: WriteOptions) -> WriteOptions:
    caller = _caller(call)
    if caller.is_master:
        return options
    return replace(
        options, permit=Permit(rbac, caller, call.served, call.namespace, call.address.name, world=call.world)
    )


def _caller(call: Call) -> Caller:
    access = call.world.access
    return OWNER if access is None else access.caller(call.request)


def _review(call: Call) -> Response:
    """Answers a question in the form of an object; nothing is stored."""
    world, served, request = call.world, call.served, call.request
    if len(request.body) > access_reviews.LARGEST:
        raise too_large(access_reviews.LARGEST)
    chosen = call.chosen
    body = read_object(request)
    body.tree.pop("status", None)  # the answer is ours, and Go clients send an empty one along
    options = write_options(request, "CreateOptions", duplicates=body.duplicates)
    decoded = strategy.begin_create(served, call.namespace, body.tree, options)
    if decoded.causes:
        raise status_errors.invalid(served, "", decoded.causes)
    if served.namespaced:
        body.tree["metadata"]["namespace"] = call.namespace
    tree = access_reviews.answer_review(world, served, body.tree, _caller(call))
    made = render_tree(world, served, request, chosen=chosen, tree=tree, status=201)
    return _warned(made, options.warnings) if options.warnings else made


async def _update(call: Call) -> Response:
    chosen = call.chosen
    part = call.address.subresource
    body = read_object(call.request, custom=call.served.custom and part != "scale")
    options = write_options(call.request, "UpdateOptions", subresource=part, duplicates=body.duplicates)
    options = _asking(call, options)
    change = scale.update_scale if part == "scale" else create_and_update.update
    written = await change(call.world, call.served, call.namespace, call.name, body.tree, options=options)
    return _written(call, chosen, options, written)


def _patch(call: Call) -> Answer:
    world, served, address, request = call.world, call.served, call.address, call.request
    chosen = negotiate(request.headers.find("accept"), "object")
    options = write_options(request, "PatchOptions", subresource=address.subresource)
    if world.admission is not None or world.rbac is not None:
        options = _asking(call, options)
    media = media_type(request) or JSON
    if world.reader is None or world.admission is not None or served.awaits:
        return _patch_later(call, chosen, media, options)
    if world.writer is None:
        return Prompt(_patch_later(call, chosen, media, options))
    place = (address.namespace, address.name or "")
    written = patch.patch_nowait(world, served, *place, media=media, body=request.body, options=options)
    return _written(call, chosen, options, written)


async def _patch_later(call: Call, chosen: Chosen, media: str, options: WriteOptions) -> Response:
    written = await patch.patch(
        call.world, call.served, call.namespace, call.name, media=media, body=call.request.body, options=options
    )
    return _written(call, chosen, options, written)


async def _delete(call: Call) -> Response:
    chosen = call.chosen
    options = _deleting(call)
    deleted = await delete.delete(call.world, call.served, call.namespace, call.name, options)
    tree = delete.answer(call.served, deleted)
    # 202 is only for those who still say `orphanDependents: false`, and must wait.
    status = 202 if not deleted.gone and options.old_orphan is False else 200
    made = render_tree(call.world, call.served, call.request, chosen=chosen, tree=tree, status=status)
    return made if options.asking is None else _warned(made, options.asking.warnings)


def _deleting(call: Call) -> DeleteOptions:
    """The options of a deletion, with those who are asked about it, if there are any."""
    options, chain = delete_options(call.request), call.world.admission
    if chain is None or not chain.concerns(call.served, "", call.world.catalog):
        return options
    return replace(options, asking=Asking(chain, _caller(call), [], None, _remarks(call)))


async def _delete_collection(call: Call) -> Response:
    request, served = call.request, call.served
    chosen = negotiate(request.headers.find("accept"), "list")
    query = parse_list(served, request.parameters)
    options = _deleting(call)
    selection = selection_of(served, request.parameters)
    trees = await delete.delete_collection(call.world, served, call.namespace, selection, options, limit=query.limit)
    metadata = {"resourceVersion": str(call.world.storage.revision)}
    items = [_listed(call, chosen, tree) for tree in trees]
    tree = {"kind": served.list_kind, "apiVersion": served.api_version, "metadata": metadata, "items": items}
    made = render_tree(call.world, served, request, chosen=chosen, tree=tree)
    return made if options.asking is None else _warned(made, options.asking.warnings)


def _listed(call: Call, chosen: Chosen, tree: Tree) -> Tree:
    if chosen.kind is not None or call.served.custom:
        return tree
    return {name: value for name, value in tree.items() if name not in ("kind", "apiVersion")}


def _answer_part(call: Call) -> Answer:
    """The answer to a request about a subresource."""
    part, method, served = call.address.subresource, call.request.method, call.served
    known = {"status": served.status, "scale": served.scale is not None, "log": served.logs is not None}
    if not known.get(part, part in served.subresources):
        # Built-in kinds have no such path at all; one handler answers for all the paths of a custom resource.
        raise not_found(served, call.name) if served.custom else no_such_resource(part)
    if part == "log" and method == "GET":
        assert served.logs is not None  # or it would not be known
        made: Answer = served.logs(call.world, served, call.namespace, call.name, call.request)
        return made
    if part in ("eviction", "token"):
        raise method_not_allowed(method, call.request.path)
    if method == "GET":
        return _get_scale(call) if part == "scale" else _get(call)
    if part == "log" or method not in ("PUT", "PATCH"):
        raise method_not_allowed(method, call.request.path)
    return _VERBS["update" if method == "PUT" else "patch"](call)


async def _get_scale(call: Call) -> Response:
    chosen = call.chosen
    found = get_and_list.get_item(call.world, call.served, call.namespace, call.name)
    item = await found if isawaitable(found) else found
    tree = scale.get_scale(call.served, served_tree(call.served, item))
    return render_tree(call.world, call.served, call.request, chosen=chosen, tree=tree)


def _written(call: Call, chosen: Chosen, options: WriteOptions, written: Written) -> Response:
    status, item = 201 if written.created else 200, written.item
    if item is not None:
        made = render_item(call.world, call.served, call.request, chosen=chosen, item=item, status=status)
    else:
        made = render_tree(call.world, call.served, call.request, chosen=chosen, tree=written.tree, status=status)
    return _warned(made, options.warnings) if options.warnings else made


def _warned(response: Response, warnings: list[str]) -> Response:
    headers = tuple(("Warning", warning_text(text)) for text in dict.fromkeys(warnings))
    return Response(response.status, response.headers + headers, response.body)


def warning_text(text: str) -> str:
    """The value of a Warning header: one line of printable ASCII in quotes."""
    plain = "".join(one if " " <= one <= "~" else "?" for one in text[:1024])
    return '299 - "' + plain.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _is_true(text: str | None) -> bool:
    """A flag in the query: there, and not said to be false."""
    return text is not None and text.lower() not in ("false", "0")


_VERBS: Final[dict[str, Action]] = {
    "get": _get,
    "list": _list,
    "watch": _watch,
    "create": _create,
    "update": _at_once(_update),
    "patch": _patch,
    "delete": _at_once(_delete),
    "deletecollection": _delete_collection,  # it begins with a list, which is awaited
}


_MOST_KEPT: Final = 4096
_LONGEST_KEPT: Final = 512
_NO_NAMES: Final = frozenset({"", ".", ".."})


class Route(msgspec.Struct, frozen=True, eq=False):
    """Where requests with one method and path go, as long as the catalog stays as it is."""

    address: Address
    served: ServedResource
    action: Action | None
    """None if it has to be found for each request anew."""


class Routes:
    """The routes of paths that were asked for, and of the others that differ from them in the name of the object only.

    The parts of a path decide together what each of them means, and none does so by being the name of an object: with
    another name in its place the address is the same but for that name, and the action, which goes by method and
    address, is the same too. Names that must be decoded, or are none, are left to those who read paths.
    """

    __slots__ = ("_alike", "known")

    def __init__(self) -> None:
        self.known: dict[tuple[str, str], Route] = {}
        """By method and path, exactly."""
        self._alike: dict[tuple[str, str, str], Route] = {}
        """By method, what precedes the name, and what follows it: nothing, or a subresource."""

    def __len__(self) -> int:
        return max(len(self.known), len(self._alike))

    def clear(self) -> None:
        """Forgets everything: what is served has changed."""
        self.known.clear()
        self._alike.clear()

    def keep(self, method: str, path: str, route: Route) -> Route:
        """Remembers the route of a path, and gives it."""
        address = route.address
        if len(path) < _LONGEST_KEPT:
            if len(self.known) >= _MOST_KEPT:
                self.known.clear()
            self.known[method, path] = route
            if address.name is not None and not address.watch:
                ending = f"/{address.subresource}" if address.subresource else ""
                before, _, name = path.removesuffix(ending).rpartition("/")
                # Neither is so for a path with an encoded name, or with a slash too many.
                if name == address.name and path.endswith(f"{name}{ending}"):
                    if len(self._alike) >= _MOST_KEPT:
                        self._alike.clear()
                    self._alike[method, before, address.subresource] = route
        return route

    def find_alike(self, method: str, path: str) -> Route | None:
        """The route of a path that was not asked for before, if one that differs from it in the name only was."""
        before, _, name = path.rpartition("/")
        alike = self._alike.get((method, before, ""))
        if alike is None:
            before, _, last = before.rpartition("/")
            alike, name = self._alike.get((method, before, name)), last
        if alike is None or name in _NO_NAMES or "%" in name or len(path) >= _LONGEST_KEPT:
            return None
        one = alike.address
        address = Address(one.group, one.version, one.plural, one.namespace, name, one.subresource)
        route = Route(address, alike.served, alike.action)
        known = self.known
        if len(known) >= _MOST_KEPT:
            known.clear()
        known[method, path] = route
        return route
