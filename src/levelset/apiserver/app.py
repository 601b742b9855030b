"""The HTTP handler of the API server: authenticates, authorizes and routes a request, and renders errors as Status.

`App.handle` never raises. It returns the response itself if that needs no waiting (the object is in memory), without
creating a task; otherwise an awaitable. `routes.py` maps a request to its verb, `verbs/` does the work.
"""

import asyncio
import gzip
import json
import logging
import zlib
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import aclosing
from functools import partial
from itertools import count
from typing import Final

from msgspec.structs import replace

from levelset.apiserver import routes as handlers
from levelset.apiserver.audit_log import AuditLog
from levelset.apiserver.authn.authenticator import is_public_path
from levelset.apiserver.authn.request_attributes import forbidden_error, non_resource_attributes, resource_attributes
from levelset.apiserver.authn.users import ANONYMOUS, User
from levelset.apiserver.eager_coroutines import run_eagerly
from levelset.apiserver.request_limits import UserLimiter
from levelset.apiserver.resources.server_state import ServerState
from levelset.apiserver.routes import Call, HandlerResult, Route, RouteCache, find_action, warning_text
from levelset.apiserver.verbs.response_format import JSON_HEADERS, render_error
from levelset.apiserver.verbs.subresources.stream_handlers import STREAMS
from levelset.apiserver.wire.large_bodies import (
    LARGE_YAML_BYTES,
    MAX_JSON_VALUES,
    BodyConverter,
    has_too_many_values,
    is_large_protobuf,
    is_large_yaml,
)
from levelset.apiserver.wire.negotiation import media_type
from levelset.apiserver.wire.protobuf import PROTOBUF
from levelset.apiserver.wire.request_paths import RequestPath, parse_request_path
from levelset.apiserver.wire.status_errors import (
    NoRoute,
    UnknownResource,
    as_api_error,
    no_such_resource,
    page_not_found,
    status_response,
    too_large,
    too_many_values,
)
from levelset.errors import ApiError, BadRequest, ServerFailed
from levelset.http import Deferred, Pieces, Request, Response, is_websocket, iterate
from levelset.objects.lazy_pattern import Pattern
from levelset.storage import SharedStorage, StorageUnavailable

__all__ = ["App", "Page"]

Page = Callable[[Request], HandlerResult | None]
"""Serves non-resource paths (discovery, health, ...); returns None for a path of another page."""

log = logging.getLogger(__name__)

MAX_BODY_BYTES: Final = 3 * 1024 * 1024
_MAX_PUBLIC_BODY_BYTES: Final = 1024
_MIN_GZIP_BYTES: Final = 128 * 1024
_MAX_INLINE_GZIP_BYTES: Final = 1024 * 1024
_MAX_TIMEOUT_SECONDS: Final = 60.0
_WITHOUT_END: Final = frozenset({"attach", "exec", "log", "portforward", "proxy"})
_SELF_GROUPS: Final = ("authentication.k8s.io", "authorization.k8s.io")
_PRIVATE: Final = ("Cache-Control", "no-cache, private")
(_JSON_TYPE,) = JSON_HEADERS
_DURATION_PART: Final = Pattern(r"([0-9]+(?:\.[0-9]*)?|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h)(?=[0-9.]|$)")
_DURATION_NUMBER: Final = Pattern(r"([0-9]+\.?[0-9]*|\.[0-9]+)([^0-9.]*)")
_MAY_BE_BEHIND: Final = frozenset({401, 403, 404, 409})
"""What a server may answer wrongly if it has not seen all writes of the others; nothing was written then."""
_UNITS: Final = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "μs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}


class App:
    """The API server without its sockets; `handle` is a `levelset.http.Handler`."""

    def __init__(self, state: ServerState, *, pages: Sequence[Page] = ()) -> None:
        self._state = state
        self._pages = tuple(pages)
        # A random prefix per server and a counter: identifies a request in a log as a UUID does, and is much cheaper.
        random_hex = f"{state.random.getrandbits(80):020x}"
        self._audit_prefix = f"{random_hex[:8]}-{random_hex[8:12]}-{random_hex[12:16]}-{random_hex[16:]}-"
        self._request_numbers = count(1)
        self.user_limiter: UserLimiter | None = None
        """The limits per user; None without RBAC, when all authenticated users are masters."""
        self.audit_log: AuditLog | None = None
        """The audit log of all requests; None if there is none."""
        self._converter = BodyConverter()
        self._routes = RouteCache()
        state.catalog.listen(lambda _removed, _added: self._routes.clear())

    def add_page(self, page: Page) -> None:
        """Adds a page for non-resource paths, after the existing ones."""
        self._pages = (*self._pages, page)

    def handle(self, request: Request) -> HandlerResult:
        """Returns the response, or an awaitable of it if the request has to wait; never raises."""
        audit_id = f"{self._audit_prefix}{next(self._request_numbers):012x}"
        audit_log, authenticator, user = self.audit_log, self._state.authenticator, None
        began = None
        if audit_log is not None:
            began = audit_log.now()
            request = replace(request, remarks={})
        shared = self._state.shared
        revision = 0 if shared is None else self._state.storage.revision
        try:
            user = None if authenticator is None else authenticator.authenticate(request)
            user_limiter = self.user_limiter
            if user_limiter is None or user is None or user.is_master or is_public_path(request.path):
                outcome = self._dispatch(request, user)
            else:
                # No lambda: its closure would turn these names into cells, which every request pays for.
                outcome = user_limiter.run(user, partial(self._dispatch, request, user))
        except Exception as error:  # noqa: BLE001 - the client gets a Status, never a traceback
            outcome = _failure(error, request, audit_id)
        if shared is not None and (not isinstance(outcome, Response) or outcome.status in _MAY_BE_BEHIND):
            outcome = self._respond_current(request, outcome, audit_id, revision, shared)
        result: HandlerResult
        if isinstance(outcome, Response):
            result = _finish(request, outcome, audit_id)
        elif isinstance(outcome, Deferred) and "timeout" not in request.query:  # a timeout needs a task to cancel
            result = run_eagerly(self._later(request, outcome, audit_id))
        else:
            result = self._later(request, outcome, audit_id)
        if audit_log is None or began is None:
            return result
        if user is None and authenticator is not None:
            user = authenticator.credentials_user(request)  # the real user of a rejected impersonation
        return audit_log.observe(request, user, audit_id, began, result)

    async def _respond_current(
        self, request: Request, outcome: HandlerResult, audit_id: str, revision: int, shared: SharedStorage
    ) -> Response:
        """The response; of a second attempt if this server had not seen all writes of the others at the first one.

        That may be why it refuses a request: a kind, a namespace, an object or a role is not here yet.
        """
        try:
            response = outcome if isinstance(outcome, Response) else await outcome
        except Exception as error:  # noqa: BLE001 - as in `handle`
            response = _failure(error, request, audit_id)
        if response.status not in _MAY_BE_BEHIND or _exists_already(response):
            return response
        try:
            await shared.wait_current()
        except StorageUnavailable:
            return response
        if self._state.storage.revision == revision:
            return response
        again = self._dispatch(request, self._user(request))
        return again if isinstance(again, Response) else await again

    def _user(self, request: Request) -> User | None:
        authenticator = self._state.authenticator
        return None if authenticator is None else authenticator.authenticate(request)

    def check_head(self, request: Request) -> Response | str:
        """Authenticates and authorizes a request by its head: a response refuses it, otherwise its user's name.

        The HTTP server calls it before it reads a body that did not arrive with the head, so that only users who may
        make the request take memory. `handle` checks the complete request again.
        """
        authenticator = self._state.authenticator
        if authenticator is None:
            return ""
        user = None
        try:
            user = authenticator.authenticate(request)
            if user.name == ANONYMOUS.name and is_public_path(request.path) and not _is_small(request):
                raise too_large(_MAX_PUBLIC_BODY_BYTES)
            path = parse_request_path(request.segments)
            if path is None:
                self._authorize_page(request, user)
            elif not user.is_master:
                self._authorize(request, path, user)
        except Exception as error:  # noqa: BLE001 - the client gets a Status, never a traceback
            return self._refuse_head(request, user or authenticator.credentials_user(request), error)
        sender = user if user.impersonated_by is None else user.impersonated_by
        return f"user {sender.name}"

    def _refuse_head(self, request: Request, user: User | None, error: Exception) -> Response:
        audit_id = f"{self._audit_prefix}{next(self._request_numbers):012x}"
        response = _with_headers(_failure(error, request, audit_id), audit_id)
        if self.audit_log is not None:
            self.audit_log.observe(request, user, audit_id, self.audit_log.now(), response)
        return response

    async def _later(self, request: Request, outcome: Awaitable[Response], audit_id: str) -> Response:
        try:
            seconds = _timeout(request)
        except BadRequest:  # of a request without an end, or of none for a resource: it has no meaning there
            seconds = None
        try:
            if seconds is None:
                response = await outcome
            else:
                async with asyncio.timeout(seconds):
                    response = await outcome
        except TimeoutError:
            text = f"the server did not finish within the timeout of the request, {seconds:g} s; it may still do so"
            response = status_response(ServerFailed(text, code=504, reason="Timeout"))
        except Exception as error:  # noqa: BLE001 - as above
            response = _failure(error, request, audit_id)
        finished = _finish(request, response, audit_id)
        return finished if isinstance(finished, Response) else await finished

    def _dispatch(self, request: Request, user: User | None) -> HandlerResult:
        routes = self._routes
        route = routes.exact.get((request.method, request.path)) or routes.find_similar(request.method, request.path)
        if route is None or len(request.body) > LARGE_YAML_BYTES:
            return self._dispatch_uncached(request, user, route)
        if user is not None and not user.is_master:
            self._authorize(request, route.path, user)
        if "timeout" in request.query:
            _check_timeout(request, route.path)
        served = route.served
        call = Call(self._state, served, route.path, request)
        return (route.action or find_action(call))(call) if served.deprecation is None else _deprecated(route, call)

    def _dispatch_uncached(self, request: Request, user: User | None, route: Route | None) -> HandlerResult:
        """As `_dispatch`, for a path that is not in the route cache, or a body that may be too large."""
        state, routes = self._state, self._routes
        path = parse_request_path(request.segments) if route is None else route.path
        if path is None:
            return self._page(request, user)
        if user is not None and not user.is_master:
            self._authorize(request, path, user)
        if len(request.body) > MAX_BODY_BYTES:
            raise too_large(MAX_BODY_BYTES)
        if request.query and "timeout" in request.query:
            _check_timeout(request, path)
        is_forwarded = path.subresource == "proxy"  # its body is not ours
        if len(request.body) > LARGE_YAML_BYTES and not is_forwarded:
            if is_large_yaml(request):
                return self._dispatch_converted(request, user)
            if has_too_many_values(request.body) and media_type(request) != PROTOBUF:
                raise too_many_values(MAX_JSON_VALUES)
        served = state.catalog.find(path.group, path.version, path.plural) if route is None else route.served
        if served is None:
            return self._missing(path)
        if not served.custom and not is_forwarded and is_large_protobuf(request):
            return self._dispatch_converted(request, user)
        call = Call(state, served, path, request)
        if route is None:
            # The action of a GET of a collection depends on the query: with `watch` it is a watch, otherwise a list.
            action = None if request.method == "GET" and path.name is None else find_action(call)
            route = Route(path, served, action)
            if not is_forwarded:  # any path may follow: it must not be taken for one that differs in the name only
                routes.add(request.method, request.path, route)
        return (route.action or find_action(call))(call) if served.deprecation is None else _deprecated(route, call)

    async def _dispatch_converted(self, request: Request, user: User | None) -> Response:
        outcome = self._dispatch(await self._converter.convert(request), user)
        return outcome if isinstance(outcome, Response) else await outcome

    def _authorize(self, request: Request, path: RequestPath, user: User) -> None:
        """Raises Forbidden unless the user may do this, before the response reveals whether the object exists."""
        attributes = resource_attributes(path, request, handlers.verb_of(path, request))
        if self._state.rbac is not None:
            self._state.rbac.check(user, attributes)
            if path.subresource in STREAMS and is_websocket(request):
                # A handshake is a GET, but what it does is that of a POST: `get` alone must not run commands.
                self._state.rbac.check(user, replace(attributes, verb="create"))
        elif not _is_self_review(path):
            raise forbidden_error(user, attributes)

    def _authorize_page(self, request: Request, user: User) -> None:
        """Raises Forbidden unless the user may request this path outside of the resources."""
        if user.is_master:
            return
        if self._state.rbac is not None:
            self._state.rbac.check(user, non_resource_attributes(request))
        elif request.method != "GET":
            raise forbidden_error(user, non_resource_attributes(request))

    def _page(self, request: Request, user: User | None) -> HandlerResult:
        if user is not None:
            self._authorize_page(request, user)
        for page in self._pages:
            outcome = page(request)
            if outcome is not None:
                return outcome
        if request.path.startswith("/api/v1/"):
            raise no_such_resource()
        return page_not_found()

    def _missing(self, path: RequestPath) -> Response:
        if not path.group or self._state.catalog.is_builtin(path.group):
            raise no_such_resource()
        return page_not_found()


def _exists_already(response: Response) -> bool:
    """Whether a create was refused since the object exists, which the storage has decided."""
    return isinstance(response.body, bytes) and b'"reason":"AlreadyExists"' in response.body


def _is_small(request: Request) -> bool:
    """Whether the body is announced to be small; a chunked one is not."""
    length = request.headers.find("content-length") or ""
    return length.isdecimal() and int(length) <= _MAX_PUBLIC_BODY_BYTES


def _is_self_review(path: RequestPath) -> bool:
    """Whether this is a review of the user's own permissions, which every authenticated user may create."""
    return path.plural.startswith("selfsubject") and path.group in _SELF_GROUPS


def _failure(error: Exception, request: Request, audit_id: str) -> Response:
    """Returns the Status for an error; an unexpected one is logged, and the client gets its audit ID."""
    known = as_api_error(error)
    if known is None:
        fields = {"audit_id": audit_id, "method": request.method, "path": request.path}
        log.error("request failed", exc_info=error, extra=fields)
        known = ServerFailed(f"Internal error occurred: the server's log has more under Audit-Id {audit_id}")
    response = render_error(status_response(_with_valid_code(known)), request)
    headers = tuple(("Warning", warning_text(text)) for text in known.warnings)
    return Response(response.status, response.headers + headers, response.body) if headers else response


def _with_valid_code(error: ApiError) -> ApiError:
    """Returns the error with a valid HTTP status: a code outside of 400 to 599 becomes 500."""
    if not 400 <= error.code <= 599:
        error.code = 500
    return error


def _finish(request: Request, response: Response, audit_id: str) -> HandlerResult:
    """Adds the headers of every response, and compresses large bodies if the client accepts gzip."""
    headers = response.headers
    body = response.body
    if headers is JSON_HEADERS and isinstance(body, bytes) and len(body) <= _MIN_GZIP_BYTES:  # most responses
        return Response(response.status, (("Audit-Id", audit_id), _PRIVATE, _JSON_TYPE), body, response.upgrade)
    response = _with_headers(response, audit_id)
    headers = response.headers
    if isinstance(body, bytes) and len(body) > _MIN_GZIP_BYTES and _accepts_gzip(request, headers):
        headers = (*headers, ("Content-Encoding", "gzip"), ("Vary", "Accept-Encoding"))
        if len(body) > _MAX_INLINE_GZIP_BYTES:
            return _compressed_later(response.status, headers, body)
        return Response(response.status, headers, gzip.compress(body, 1, mtime=0))
    if isinstance(body, Pieces) and _accepts_gzip(request, headers):
        headers = (*headers, ("Content-Encoding", "gzip"), ("Vary", "Accept-Encoding"))
        return Response(response.status, headers, Pieces(partial(_compressed_pieces, body)))
    return response


def _with_headers(response: Response, audit_id: str) -> Response:
    """The response with the headers that every response has."""
    headers = response.headers
    private = () if any(name == "Cache-Control" for name, _ in headers) else (_PRIVATE,)
    return Response(response.status, (("Audit-Id", audit_id), *private, *headers), response.body, response.upgrade)


async def _compressed_later(status: int, headers: tuple[tuple[str, str], ...], body: bytes) -> Response:
    """Compresses in a thread, because a large body would block the event loop for too long."""
    return Response(status, headers, await asyncio.to_thread(gzip.compress, body, 1, mtime=0))


async def _compressed_pieces(body: Pieces) -> AsyncGenerator[bytes, None]:
    compressor = zlib.compressobj(1, wbits=31)  # gzip
    async with aclosing(iterate(body)) as pieces:
        async for piece in pieces:
            yield await asyncio.to_thread(compressor.compress, piece)
    yield compressor.flush()


def _accepts_gzip(request: Request, headers: tuple[tuple[str, str], ...]) -> bool:
    accepted = request.headers.find("accept-encoding")
    if accepted is None or any(name == "Content-Encoding" for name, _ in headers):
        return False
    return any(part.partition(";")[0].strip() == "gzip" for part in accepted.split(","))


def _deprecated(route: Route, call: Call) -> HandlerResult:
    """As the action of the route, with a warning before others, also beside an error."""
    text = call.served.deprecation or ""
    try:
        outcome = (route.action or find_action(call))(call)
    except ApiError as error:
        _warn_of_deprecation(error, text)
        raise
    return _with_warning(outcome, text) if isinstance(outcome, Response) else _deprecated_later(outcome, text)


async def _deprecated_later(outcome: Awaitable[Response], text: str) -> Response:
    try:
        return _with_warning(await outcome, text)
    except ApiError as error:
        _warn_of_deprecation(error, text)
        raise


def _warn_of_deprecation(error: ApiError, text: str) -> None:
    if not isinstance(error, NoRoute | UnknownResource):  # found before it is known that the kind is deprecated
        error.warnings = (text, *error.warnings)


def _with_warning(response: Response, text: str) -> Response:
    others = [one for one in response.headers if one[0] != "Warning"]
    warnings = [one for one in response.headers if one[0] == "Warning"]
    headers = (*others, ("Warning", warning_text(text)), *warnings)
    return Response(response.status, headers, response.body, response.upgrade)


def _check_timeout(request: Request, path: RequestPath) -> None:
    """Raises BadRequest for a `timeout` that cannot be read, unless the request has no end and so no timeout."""
    if path.subresource not in _WITHOUT_END and not path.watch and handlers.verb_of(path, request) != "watch":
        _timeout(request)


def _timeout(request: Request) -> float | None:
    """Returns the `timeout` parameter in seconds, at most 60; None if there is none. Raises BadRequest."""
    text = request.parameter("timeout") if request.query else None
    if not text:
        return None
    seconds = 0.0
    start = position = 1 if text[0] in "+-" else 0
    # `match` at the end of the last part: `search` would try every position of a long invalid text.
    while part := _DURATION_PART.match(text, position):
        seconds += float(part[1]) * _UNITS[part[2]]
        position = part.end()
    if (position != len(text) or position == start) and text[start:] != "0":
        problem = _duration_problem(text, position)
        raise BadRequest(f"invalid timeout specified in the request URL - time: {problem}")
    is_positive = seconds > 0 and text[0] != "-"
    return min(seconds if is_positive else _MAX_TIMEOUT_SECONDS, _MAX_TIMEOUT_SECONDS)


def _duration_problem(text: str, position: int) -> str:
    """What Go says of a duration that cannot be read further than to this position."""
    shown = json.dumps(text, ensure_ascii=False)
    number = _DURATION_NUMBER.match(text, position)
    if number is None:
        return f"invalid duration {shown}"
    if not number[2]:
        return f"missing unit in duration {shown}"
    return f"unknown unit {json.dumps(number[2], ensure_ascii=False)} in duration {shown}"
