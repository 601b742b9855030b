"""The routing table of resource requests: from method and path to the action of a verb, with a cache of routes.

An action is a plain function. It returns the response itself if that needs no waiting, and otherwise an awaitable:
`_reading` and `_writing` make the action of a coroutine, which runs without a task if possible. `find_action` maps a
request to its action; `RouteCache` remembers the result for a method and path, because clients request the same paths
again, or paths that differ only in the name of the object.
"""

from collections.abc import Awaitable, Callable, Coroutine, Iterable, Iterator
from typing import Any, Final
from urllib.parse import quote

import msgspec
from msgspec.structs import replace

from levelset.apiserver.admission.chain import AdmissionContext
from levelset.apiserver.authn.authenticator import ADMIN, User
from levelset.apiserver.authz import access_reviews
from levelset.apiserver.authz.escalation import WriteAuthorizer
from levelset.apiserver.authz.rbac import RbacAuthorizer
from levelset.apiserver.eager_coroutines import run_eagerly
from levelset.apiserver.registry import metadata as meta
from levelset.apiserver.registry import strategy
from levelset.apiserver.registry.storage_codec import served_tree
from levelset.apiserver.resources.served_resource import ServedResource
from levelset.apiserver.resources.server_state import ServerState, Tree
from levelset.apiserver.verbs import create_and_update, delete, patch, response_format, watch
from levelset.apiserver.verbs.create_and_update import WriteResult
from levelset.apiserver.verbs.get_and_list import get_item, parse_list_options, read_item, read_list
from levelset.apiserver.verbs.response_format import render_deleted, render_item, render_listing, render_tree
from levelset.apiserver.verbs.subresources import connect_admission, scale
from levelset.apiserver.verbs.subresources.object_proxy import proxy
from levelset.apiserver.wire.negotiation import (
    JSON,
    PLAIN_JSON,
    Purpose,
    ResponseFormat,
    check_stream,
    media_type,
    negotiate,
    options_of_body,
    read_object,
)
from levelset.apiserver.wire.request_options import (
    DeleteOptions,
    WriteOptions,
    delete_options,
    is_true,
    write_options,
)
from levelset.apiserver.wire.request_paths import RequestPath
from levelset.apiserver.wire.status_errors import (
    Undecodable,
    method_not_allowed,
    no_such_resource,
    not_found,
    page_not_found,
    too_large,
    unsupported_verb,
)
from levelset.errors import ApiError, BadRequest
from levelset.http import Request, Response
from levelset.objects.field_selectors import escape_field_value
from levelset.objects.json_tree import is_map

__all__ = ["Action", "Call", "HandlerResult", "Route", "RouteCache", "find_action", "verb_of", "warning_text"]

HandlerResult = Response | Awaitable[Response]

_MAX_WARNING: Final = 1024
_MAX_WARNINGS: Final = 4096
"""Characters of one warning, and of all of a response."""
_COLLECTION_VERBS: Final = {"GET": "list", "POST": "create", "DELETE": "deletecollection"}
_WITHOUT_TABLE: Final = frozenset(
    {"approval", "binding", "ephemeralcontainers", "eviction", "finalize", "resize", "token"}
)
"""Subresources that upstream cannot show as a Table."""
_PARTS_WITHOUT_TABLE: Final = frozenset({("bindings", ""), ("resourceclaims", "status")})
_SYSTEM_METADATA: Final = ("creationTimestamp", "deletionGracePeriodSeconds", "deletionTimestamp", "selfLink", "uid")
_OBJECT_VERBS: Final = {"GET": "get", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}


class Call(msgspec.Struct, frozen=True, eq=False):
    """One request for one resource, as the actions get it."""

    state: ServerState
    served: ServedResource
    path: RequestPath
    request: Request

    @property
    def namespace(self) -> str | None:
        """The namespace in the path."""
        return self.path.namespace

    @property
    def name(self) -> str:
        """The object name in the path; only for requests of one object."""
        assert self.path.name is not None
        return self.path.name

    @property
    def chosen(self) -> ResponseFormat:
        """The response format that the client prefers for an object; raises 406 if it accepts none of ours."""
        path = self.path
        is_part = path.subresource in _WITHOUT_TABLE or (path.plural, path.subresource) in _PARTS_WITHOUT_TABLE
        purpose: Purpose = "part" if is_part else "object"
        return negotiate(self.request.headers.find("accept"), purpose, custom=self.served.custom)


Action = Callable[[Call], HandlerResult]
"""Handles a request, or raises the error that the client gets."""


def find_action(call: Call) -> Action:
    """Returns the action of a resource request; raises the errors that the client gets.

    It depends on the method and the path only, except for a GET of a collection, where the query decides.
    """
    if call.request.method == "HEAD" and call.served.custom:  # upstream has one handler for all of their paths
        return lambda call: _find_action(_as_get(call))(_as_get(call))
    return _find_action(call)


def _as_get(call: Call) -> Call:
    given = call.request
    return replace(call, request=Request("GET", given.path, given.query, given.headers, given.body, given.peer))


def _find_action(call: Call) -> Action:
    state, served, path, request = call.state, call.served, call.path, call.request
    if path.watch:
        if request.method != "GET":
            raise method_not_allowed()
        return _watch_deprecated_path
    verb = verb_of(path, request)
    if _has_wrong_scope(call, verb):
        return _wrong_scope
    stream = state.stream_handlers.get((served.group, served.plural, path.subresource)) if path.subresource else None
    if stream is not None and request.method in ("GET", "POST"):
        return _connecting(lambda call: stream(call.state, call.served, call.namespace, call.name, call.request))
    if path.subresource == "proxy" and "proxy" in served.subresources:
        return _connecting(lambda call: proxy(call.state, call.served, call.path, call.request))
    if request.method != "GET":
        handler = state.subresource_handlers.get((served.group, served.plural, path.subresource))
        if handler is not None:
            return lambda call: _post_part(handler, call)
    if path.subresource:
        # Same result as `_subresource`, decided once per path: status patches are frequent.
        return _patch if verb == "patch" and path.subresource == "status" and served.status else _subresource
    if verb is None or verb not in served.verbs:
        return _unsupported(call, verb)
    if verb == "create" and access_reviews.is_review(served):
        return _review if call.state.shared is None else _review_current
    if (reader := state.read_handlers.get((served.group, served.plural))) is not None and request.method == "GET":
        return lambda call: reader(call.state, call.served, call.path, call.request)
    return _VERBS[verb]


def _unsupported(call: Call, verb: str | None) -> Action:
    """Raises the error of a method that a path does not support; of a custom resource, its action does."""
    if not call.served.custom:
        raise method_not_allowed()
    # As upstream, where the handler of all paths looks for the name, after it has warned of a deprecated version.
    is_nameless = call.path.name is None and call.request.method in ("PUT", "PATCH")

    def refuse(call: Call) -> HandlerResult:
        if is_nameless and call.request.method == "PATCH":
            patch.check_media(call.served, media_type(call.request) or JSON)
        raise BadRequest("name must be provided") if is_nameless else unsupported_verb(call.served, verb or "")

    return refuse


def _writing(verb: Callable[[Call], Coroutine[Any, Any, Response]]) -> Action:
    """Returns the action of a verb that writes; it needs a task only if it may have to await a webhook."""

    def action(call: Call) -> HandlerResult:
        if call.state.admission is not None or call.served.converts_by_webhook:
            return verb(call)
        return run_eagerly(verb(call))

    return action


def _reading(verb: Callable[[Call], Coroutine[Any, Any, Response]]) -> Action:
    """Returns the action of a verb that reads; it needs a task only if it may have to await a webhook or etcd."""

    def action(call: Call) -> HandlerResult:
        if call.state.shared is not None or call.served.converts_by_webhook:
            return verb(call)
        return run_eagerly(verb(call))

    return action


def verb_of(path: RequestPath, request: Request) -> str | None:
    """Returns the verb of a request, as RBAC names it; None for a method that the path does not support."""
    if path.name is not None:
        return _OBJECT_VERBS.get(request.method)
    verb = _COLLECTION_VERBS.get(request.method)
    return "watch" if verb == "list" and is_true(request.parameter("watch")) else verb


def _watch_deprecated_path(call: Call) -> HandlerResult:
    """Serves a deprecated watch path, `/api/v1/watch/...`, like the list path with `watch=true`."""
    path, request = call.path, call.request
    query = f"{request.query}&watch=true"
    if path.name is not None:
        selection = watch.parse_watch_options(call.served, request.parameters).selection
        if selection is not None and not selection.fields.is_everything and selection.name != path.name:
            raise BadRequest("fieldSelector metadata.name doesn't match requested name")
        if selection is None or selection.fields.is_everything:  # the first one counts
            query = "fieldSelector=" + quote(f"metadata.name={escape_field_value(path.name)}", safe="") + f"&{query}"
    modern = Request(request.method, request.path, query, request.headers, request.body, request.peer)
    path = replace(path, name=None, subresource="", watch=False)
    modern_call = Call(call.state, call.served, path, modern)
    return find_action(modern_call)(modern_call)


def _has_wrong_scope(call: Call, verb: str | None) -> bool:
    """Whether the scope of the path is wrong, which is a 404; raises 405 for a write across all namespaces."""
    served, path = call.served, call.path
    if path.namespace is not None and not served.namespaced:
        return True
    if not served.namespaced or path.namespace is not None:
        return False
    if "list" not in served.verbs:  # only a list has a path of all namespaces
        return True
    if verb in ("list", "watch"):
        return False
    if path.name is not None or served.custom:
        return True
    raise method_not_allowed()


def _wrong_scope(call: Call) -> HandlerResult:
    # As upstream: one handler serves all paths of custom resources, and none this path of a built-in kind.
    if call.served.custom:
        return page_not_found()
    raise no_such_resource()


def _get(call: Call) -> HandlerResult:
    # The most frequent request: the properties of `call` are inlined, which saves five function calls.
    state, served, path, request = call.state, call.served, call.path, call.request
    if request.query or served.converts_by_webhook or state.shared is not None:
        return _get_current(call)
    chosen = (
        call.chosen if path.subresource else negotiate(request.headers.find("accept"), "object", custom=served.custom)
    )
    assert path.name is not None
    item = get_item(state, served, path.namespace, path.name)
    return render_item(state, served, request, chosen=chosen, item=item)


@_reading
async def _get_current(call: Call) -> Response:
    """As `_get`, at the resourceVersion of the query, or after what other servers have written."""
    state, served, request, chosen = call.state, call.served, call.request, call.chosen
    if is_true(request.parameter("export")):
        raise BadRequest("the export parameter, deprecated since v1.14, is no longer supported")
    version = request.parameter("resourceVersion") or ""
    item = await read_item(state, served, call.namespace, call.name, resource_version=version)
    return render_item(state, served, request, chosen=chosen, item=item)


@_reading
async def _list(call: Call) -> Response:
    chosen = negotiate(call.request.headers.find("accept"), "list", custom=call.served.custom)
    query = parse_list_options(call.served, call.request.parameters)
    listing = await read_list(call.state, call.served, call.namespace, query)
    response = render_listing(call.state, call.served, call.request, chosen=chosen, listing=listing)
    return _with_warnings(response, warnings) if (warnings := _damage_warnings(call)) else response


def _damage_warnings(call: Call) -> list[str]:
    """Names the damaged objects that a list leaves out."""
    prefix = call.served.prefix_in(call.namespace)
    return [
        f"{call.served.qualified} {key.removeprefix(prefix)} is damaged in the storage and left out: delete it"
        for key in call.state.reader.damaged
        if key.startswith(prefix)
    ]


def _watch(call: Call) -> HandlerResult:
    chosen = negotiate(call.request.headers.find("accept"), "list", custom=call.served.custom)
    form = None
    if chosen.kind is not None:
        form = response_format.representation_of(
            chosen.kind, chosen.version, include=call.request.parameter("includeObject")
        )
    response = watch.watch(call.state, call.served, call.namespace, call.request, form=form)
    check_stream(chosen)  # as upstream, which has read the options before
    return response


@_writing
async def _create(call: Call) -> Response:
    state, served, request = call.state, call.served, call.request
    chosen = negotiate(request.headers.find("accept"), "object", custom=served.custom)
    options = options_of_body(request, "CreateOptions", custom=served.custom)
    try:
        body = read_object(request, custom=served.custom)
    except BadRequest as error:
        raise _unread(call, error) from error
    if body.duplicates:
        options = replace(options, duplicates=body.duplicates)
    if state.admission is not None or state.rbac is not None or served.prefix in state.write_checks:
        options = _with_admission(call, options)
    if served.rules.record_user is not None:
        options = replace(options, user=_user(call))
    try:
        written = await create_and_update.create(state, served, call.path.namespace, body.tree, options)
    except ApiError as error:
        raise _warned(error, options)  # noqa: B904 - it is the same error
    return _write_response(call, chosen, options, written)


def _unread(call: Call, error: BadRequest) -> BadRequest:
    """The error of a body that cannot be read, with the words of upstream for the absence of one."""
    if call.request.body:
        return error
    problem = "couldn't get version/kind; json parse error: unexpected end of JSON input (<empty>)"
    return BadRequest(f"the object provided is unrecognized (must be of type {call.served.kind}): {problem}")


def _with_admission(call: Call, options: WriteOptions) -> WriteOptions:
    """Returns the options with the admission chain, if it handles this write, and the authorizer of the user."""
    chain, rbac = call.state.admission, call.state.rbac
    if call.served.prefix in call.state.write_checks:
        options = replace(options, annotations=_audit_annotations(call))
    if rbac is not None:
        options = _with_authorizer(call, rbac, options)
    if chain is None or not chain.handles(call.served, options.subresource, call.state.catalog):
        return options
    form = scale.SCALE_VIEW if options.subresource == "scale" else None
    return replace(
        options, admission=AdmissionContext(chain, _user(call), options.warnings, form, _audit_annotations(call))
    )


def _audit_annotations(call: Call) -> dict[str, str]:
    """Returns the map that collects the audit annotations of the request."""
    annotations = call.request.remarks
    return {} if annotations is None else annotations


def _with_authorizer(call: Call, rbac: RbacAuthorizer, options: WriteOptions) -> WriteOptions:
    user = _user(call)
    if user.is_master:
        return options
    return replace(
        options,
        authorizer=WriteAuthorizer(
            rbac,
            user,
            call.served,
            call.namespace,
            call.path.name,
            state=call.state,
            subresource=call.path.subresource,
        ),
    )


def _user(call: Call) -> User:
    authenticator = call.state.authenticator
    return ADMIN if authenticator is None else authenticator.authenticate(call.request)


async def _review_current(call: Call) -> Response:
    """As `_review`, by what other servers have written, too: the account of a token, or a role, may be new."""
    if call.state.shared is not None:
        await call.state.shared.wait_current()
    return _review(call)


def _complete_review(call: Call, metadata: Tree, version: str) -> None:
    """Makes the metadata of a review what upstream checks."""
    if not call.served.namespaced:
        metadata.pop("namespace", None)
    if version:
        metadata["resourceVersion"] = version
    if call.served.namespaced:
        metadata["namespace"] = call.namespace
    for name in _SYSTEM_METADATA:
        metadata.pop(name, None)
    if not metadata.get("generation"):
        metadata.pop("generation", None)


def _review(call: Call) -> Response:
    """Evaluates a review (an object that is a question, such as SelfSubjectAccessReview); nothing is stored."""
    state, served, request = call.state, call.served, call.request
    chosen = negotiate(request.headers.find("accept"), "part")
    options = options_of_body(request, "CreateOptions", custom=False)
    if len(request.body) > access_reviews.MAX_REVIEW_BYTES:
        raise too_large(access_reviews.MAX_REVIEW_BYTES)
    try:
        body = read_object(request)
    except BadRequest as error:
        raise _unread(call, error) from error
    if body.duplicates:
        options = replace(options, duplicates=body.duplicates)
    # What is wrong is found by the evaluation.
    decoded = strategy.decode_new(served, call.namespace, body.tree, options)
    reviewed = body.tree
    strategy.warn_of_owners(reviewed["metadata"], options)
    _complete_review(call, reviewed["metadata"], decoded.version)
    now = meta.write_timestamp(state)
    if served.kind == "SelfSubjectReview":  # as upstream, which makes an object of its own
        reviewed["metadata"] = {"creationTimestamp": now}
    elif served.kind != "SelfSubjectRulesReview":
        strategy.track_new_object(served, reviewed, manager=options.manager, now=now)
    given = reviewed.pop("status", None)  # of the client: Go clients send an empty one
    try:
        tree = access_reviews.evaluate_review(state, served, reviewed, _user(call))
    except ApiError as error:
        raise _warned(error, options)  # noqa: B904 - it is the same error
    if served.kind == "SelfSubjectRulesReview":
        tree |= {"spec": {}, "metadata": {}}  # as upstream, which returns the status only
    elif served.kind == "TokenReview" and is_map(given):
        # As upstream, which sets what it knows.
        user: Tree = {} if tree["status"].get("authenticated") else {"user": given.get("user") or {}}
        former = {name: given[name] for name in ("audiences",) if given.get(name)}
        tree["status"] = {**former, **tree["status"], **user}
    strategy.write_review(served, tree)
    try:
        response = render_tree(state, served, request, chosen=chosen, tree=tree, status=201)
    except ApiError as error:  # it has no such representation
        raise _warned(error, options)  # noqa: B904 - it is the same error
    return _with_warnings(response, options.warnings) if options.warnings else response


@_writing
async def _update(call: Call) -> Response:
    state, served, path, request = call.state, call.served, call.path, call.request
    chosen = call.chosen
    part, name = path.subresource, path.name or ""
    custom = served.custom and part != "scale"
    options = options_of_body(request, "UpdateOptions", subresource=part, custom=custom)
    body = read_object(request, custom=custom)
    if body.duplicates:
        options = replace(options, duplicates=body.duplicates)
    if state.admission is not None or state.rbac is not None or served.prefix in state.write_checks:
        options = _with_admission(call, options)
    try:
        if part == "scale":
            written = await scale.update_scale(state, served, path.namespace, name, body.tree, options=options)
        else:
            update = create_and_update.update
            written = await update(state, served, path.namespace, name, body.tree, options=options, source=body.source)
    except ApiError as error:
        # As upstream, which decodes the body before it looks for the object.
        if part != "scale" and error.code in (404, 409, 422, 500):
            _decode_refused(call, options)
        raise _warned(error, options)  # noqa: B904 - it is the same error
    return _write_response(call, chosen, options, written)


@_writing
async def _patch(call: Call) -> Response:
    state, served, path, request = call.state, call.served, call.path, call.request
    media = media_type(request) or JSON
    patch.check_media(served, media)
    chosen = call.chosen
    is_apply = media == patch.APPLY_PATCH
    options = write_options(request, "PatchOptions", subresource=path.subresource, is_apply=is_apply)
    if state.admission is not None or state.rbac is not None or served.prefix in state.write_checks:
        options = _with_admission(call, options)
    if served.rules.record_user is not None:
        options = replace(options, user=_user(call))
    body, name = request.body, path.name or ""
    try:
        written = await patch.patch(state, served, path.namespace, name, media=media, body=body, options=options)
    except ApiError as error:
        raise _warned(error, options)  # noqa: B904 - it is the same error
    return _write_response(call, chosen, options, written)


@_writing
async def _delete(call: Call) -> Response:
    chosen, options = call.chosen, _delete_options_of(call)
    warnings = _preserved_pods(call, options)
    try:
        deleted = await delete.delete(call.state, call.served, call.namespace, call.name, options)
    except ApiError as error:
        error.warnings = tuple(warnings)
        raise
    tree = delete.response_body(call.served, deleted)
    # 202 only for the deprecated `orphanDependents: false`, while the deletion is pending.
    status = 202 if not deleted.gone and options.orphan_dependents is False else 200
    try:
        response = render_tree(call.state, call.served, call.request, chosen=chosen, tree=tree, status=status)
    except ApiError as error:  # it has no such representation
        error.warnings = tuple(warnings)
        raise
    warnings += [] if options.admission is None else options.admission.warnings
    return _with_warnings(response, warnings) if warnings else response


def _preserved_pods(call: Call, options: DeleteOptions) -> list[str]:
    """Warns of the default of Jobs, which is not that of other kinds."""
    if call.served.qualified != "jobs.batch" or options.propagation is not None:
        return []
    choices = "set propagationPolicy=Background to remove them or set propagationPolicy=Orphan to suppress this warning"
    return [f"child pods are preserved by default when jobs are deleted; {choices}"]


def _delete_options_of(call: Call) -> DeleteOptions:
    """Returns the delete options with the admission chain, if it handles this deletion."""
    options, chain = delete_options(call.request), call.state.admission
    if chain is None or not chain.handles(call.served, "", call.state.catalog):
        return options
    return replace(options, admission=AdmissionContext(chain, _user(call), [], None, _audit_annotations(call)))


async def _delete_collection(call: Call) -> Response:
    request, served = call.request, call.served
    chosen = call.chosen
    query = parse_list_options(served, request.parameters)
    options, revision = _delete_options_of(call), call.state.storage.revision
    warnings = _preserved_pods(call, options)
    try:
        deleted = await delete.delete_collection(
            call.state, served, call.namespace, query.selection, options, limit=query.limit
        )
        response = render_deleted(call.state, served, request, chosen=chosen, objects=deleted, revision=revision)
    except ApiError as error:  # also if the list has no such representation
        error.warnings = (*error.warnings, *warnings)
        raise
    warnings += [] if options.admission is None else options.admission.warnings
    return _with_warnings(response, warnings) if warnings else response


async def _post_part(handler: Callable[..., Awaitable[dict[str, Any]]], call: Call) -> Response:
    """Handles what is posted to a subresource and not stored: bindings, evictions, requests for tokens."""
    state, served, request = call.state, call.served, call.request
    chosen = call.chosen if request.method == "POST" else PLAIN_JSON
    warnings: list[str] = []
    try:
        tree = await handler(state, served, call.path, request, warnings)
    except ApiError as error:
        error.warnings = tuple(_first_warnings(dict.fromkeys(warnings)))
        raise
    response = render_tree(state, served, request, chosen=chosen, tree=tree, status=201)
    return _with_warnings(response, warnings) if warnings else response


def _subresource(call: Call) -> HandlerResult:
    """Handles a request for a subresource."""
    part, method, served = call.path.subresource, call.request.method, call.served
    known = {"status": served.status, "scale": served.scale is not None, "log": served.logs is not None}
    if not known.get(part, part in served.subresources):
        # As upstream: built-in kinds have no such path, while one handler serves all paths of a custom resource.
        raise not_found(served, call.name) if served.custom else no_such_resource()
    if part == "log" and method == "GET":
        assert served.logs is not None  # otherwise it would not be in `known`
        negotiate(call.request.headers.find("accept"), "log")
        response: HandlerResult = served.logs(call.state, served, call.namespace, call.name, call.request)
        return response
    if part in ("attach", "binding", "eviction", "exec", "portforward", "token"):
        raise method_not_allowed()
    if method == "GET" and part == "finalize":
        raise method_not_allowed()
    if method == "GET":
        return _get_scale(call) if part == "scale" else _get(call)
    if part == "log" or method not in ("PUT", "PATCH") or (part == "finalize" and method == "PATCH"):
        verb = {"POST": "create", "DELETE": "delete"}.get(method, "")
        raise unsupported_verb(served, verb) if served.custom else method_not_allowed()
    return _VERBS["update" if method == "PUT" else "patch"](call)


def _connecting(handler: Callable[[Call], Awaitable[Response]]) -> Action:
    """Returns the action of a handler that connects to an object: it gets the request as admission leaves it."""

    async def action(call: Call) -> Response:
        state, served, path, chain = call.state, call.served, call.path, call.state.admission
        if chain is None or not chain.handles(served, path.subresource, state.catalog, ("CONNECT",)):
            return await handler(call)
        context = AdmissionContext(chain, _user(call), [], None, _audit_annotations(call))
        try:
            request = await connect_admission.admitted(state, served, path, call.request, context)
            response = await handler(replace(call, request=request))
        except ApiError as error:
            error.warnings = tuple(_first_warnings(dict.fromkeys(context.warnings)))
            raise
        return _with_warnings(response, context.warnings) if context.warnings else response

    return action


@_reading
async def _get_scale(call: Call) -> Response:
    chosen = call.chosen
    item = await read_item(call.state, call.served, call.namespace, call.name)
    tree = scale.get_scale(call.served, served_tree(call.served, item))
    return render_tree(call.state, call.served, call.request, chosen=chosen, tree=tree)


def _write_response(call: Call, chosen: ResponseFormat, options: WriteOptions, written: WriteResult) -> Response:
    status, item, state, served = 201 if written.created else 200, written.item, call.state, call.served
    try:
        if item is not None:
            response = render_item(state, served, call.request, chosen=chosen, item=item, status=status)
        else:
            response = render_tree(state, served, call.request, chosen=chosen, tree=written.tree, status=status)
    except ApiError as error:  # the object has no such representation
        raise _warned(error, options)  # noqa: B904 - it is the same error
    return _with_warnings(response, options.warnings) if options.warnings else response


def _with_warnings(response: Response, warnings: list[str]) -> Response:
    headers = tuple(("Warning", warning_text(text)) for text in _first_warnings(dict.fromkeys(warnings)))
    return replace(response, headers=response.headers + headers)


def _decode_refused(call: Call, options: WriteOptions) -> None:
    """Decodes the body of a refused update for its warnings; raises BadRequest if it is no object of the kind."""
    body = read_object(call.request, custom=call.served.custom)
    try:
        strategy.decode_replacement(call.served, call.namespace, call.name, body.tree, options)
    except ApiError as error:
        raise _warned(error, options)  # noqa: B904 - it is the same error


def _warned(error: ApiError, options: WriteOptions) -> ApiError:
    """The error of a write with the warnings that came before it."""
    if not isinstance(error, Undecodable) or error.is_decoded:
        error.warnings = tuple(_first_warnings(dict.fromkeys(options.warnings)))
    return error


def _first_warnings(warnings: Iterable[str]) -> Iterator[str]:
    """The warnings, or the first of them if they are more than a client takes as headers, as upstream."""
    size = 0
    for text in warnings:
        size += min(len(text), _MAX_WARNING)
        if size > _MAX_WARNINGS:
            return
        yield text


def warning_text(text: str) -> str:
    """The value of a Warning header: one line of printable text in quotes, in UTF-8 as upstream."""
    plain = "".join(one if one.isprintable() else "?" for one in text[:_MAX_WARNING])
    plain = plain.encode("utf-8", "replace").decode("latin-1")
    return '299 - "' + plain.replace("\\", "\\\\").replace('"', '\\"') + '"'


_VERBS: Final[dict[str, Action]] = {
    "get": _get,
    "list": _list,
    "watch": _watch,
    "create": _create,
    "update": _update,
    "patch": _patch,
    "delete": _delete,
    "deletecollection": _delete_collection,  # many writes: a task can be cancelled between them
}


_MAX_ROUTES: Final = 4096
_MAX_PATH_LENGTH: Final = 512
_INVALID_NAMES: Final = frozenset({"", ".", ".."})


class Route(msgspec.Struct, frozen=True, eq=False):
    """The resource and action of one method and path; valid until the catalog changes."""

    path: RequestPath
    served: ServedResource
    action: Action | None
    """None if it depends on the query and has to be found for each request."""


class RouteCache:
    """A bounded cache of routes by method and path, which also finds paths that differ only in the object name.

    The meaning of a path never depends on the name of the object in it: with another name, the parsed path is the same
    except for that name, and so is the action. Names that are percent-encoded, empty or dots are not matched here, and
    go through `parse_request_path`.
    """

    __slots__ = ("_by_pattern", "exact")

    def __init__(self) -> None:
        self.exact: dict[tuple[str, str], Route] = {}
        """By method and exact path."""
        self._by_pattern: dict[tuple[str, str, str], Route] = {}
        """By method, the path before the object name, and the subresource after it (empty: none)."""

    def __len__(self) -> int:
        return max(len(self.exact), len(self._by_pattern))

    def clear(self) -> None:
        """Drops all routes, because the catalog has changed."""
        self.exact.clear()
        self._by_pattern.clear()

    def add(self, method: str, path: str, route: Route) -> Route:
        """Stores the route of a path and returns it."""
        parsed = route.path
        if len(path) < _MAX_PATH_LENGTH:
            if len(self.exact) >= _MAX_ROUTES:
                self.exact.clear()
            self.exact[method, path] = route
            if parsed.name is not None and not parsed.watch:
                ending = f"/{parsed.subresource}" if parsed.subresource else ""
                before, _, name = path.removesuffix(ending).rpartition("/")
                # False for a path with an encoded name or a trailing slash.
                if name == parsed.name and path.endswith(f"{name}{ending}"):
                    if len(self._by_pattern) >= _MAX_ROUTES:
                        self._by_pattern.clear()
                    self._by_pattern[method, before, parsed.subresource] = route
        return route

    def find_similar(self, method: str, path: str) -> Route | None:
        """Returns the route of a new path from a cached one that differs only in the object name, or None."""
        before, _, name = path.rpartition("/")
        similar = self._by_pattern.get((method, before, ""))
        if similar is None:
            before, _, last = before.rpartition("/")
            similar, name = self._by_pattern.get((method, before, name)), last
        if similar is None or name in _INVALID_NAMES or "%" in name or len(path) >= _MAX_PATH_LENGTH:
            return None
        one = similar.path
        parsed = RequestPath(one.group, one.version, one.plural, one.namespace, name, one.subresource)
        route = Route(parsed, similar.served, similar.action)
        exact = self.exact
        if len(exact) >= _MAX_ROUTES:
            exact.clear()
        exact[method, path] = route
        return route
