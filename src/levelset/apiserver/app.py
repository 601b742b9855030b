"""The API server as one callable: a request goes in, and whatever happens, a proper answer comes out.

`App.handle` finds out who asks, what the path means and which handler answers; it turns errors into Status objects and
puts on the headers that every answer has. What the server can answer from memory it answers at once, without a task.
"""

import asyncio
import gzip
import logging
import re
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from itertools import count
from typing import Final

from msgspec.structs import replace

from levelset.apiserver import routes as handlers
from levelset.apiserver.audit_log import AuditLog
from levelset.apiserver.authn.authenticator import is_public
from levelset.apiserver.authn.request_attributes import attempt_at, attempt_path, forbidden_attempt
from levelset.apiserver.authn.users import Caller
from levelset.apiserver.eager_coroutines import Prompt, run_promptly
from levelset.apiserver.priority_and_fairness import Flow
from levelset.apiserver.resources.server_state import World
from levelset.apiserver.routes import Answer, Call, Route, Routes, find_action, warning_text
from levelset.apiserver.verbs.response_format import JSON_HEADERS
from levelset.apiserver.wire.large_bodies import HEAVY, MOST_VALUES, Lightening, has_too_many, is_heavy
from levelset.apiserver.wire.negotiation import media_type
from levelset.apiserver.wire.protobuf import PROTOBUF
from levelset.apiserver.wire.request_paths import Address, read_address
from levelset.apiserver.wire.status_errors import (
    as_api_error,
    no_such_resource,
    page_not_found,
    status_response,
    too_large,
    too_many_values,
)
from levelset.errors import ApiError, BadRequest, ServerFailed
from levelset.http import Request, Response

__all__ = ["App", "Page"]

Page = Callable[[Request], Answer | None]
"""Answers paths that belong to no resource (discovery, health, ...); None if the path is not its own."""

log = logging.getLogger(__name__)

LARGEST_BODY: Final = 3 * 1024 * 1024
_WORTH_PACKING: Final = 128 * 1024
_LONG_TO_PACK: Final = 1024 * 1024
_LONGEST: Final = 60.0
_SELF_GROUPS: Final = ("authentication.k8s.io", "authorization.k8s.io")
_PRIVATE: Final = ("Cache-Control", "no-cache, private")
_PRIVATE_JSON: Final = (_PRIVATE, *JSON_HEADERS)
_PARTS: Final = re.compile(r"([0-9]+(?:\.[0-9]*)?|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h)")
_UNITS: Final = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "μs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}


class App:
    """Everything behind the server edge; `handle` is a `levelset.http.Handler`."""

    def __init__(self, world: World, *, pages: Sequence[Page] = ()) -> None:
        self._world = world
        self._pages = tuple(pages)
        # One random half per server and a counter: as good as a UUID to find a request in a log, and much cheaper.
        half = f"{world.random.getrandbits(80):020x}"
        self._audit = f"{half[:8]}-{half[8:12]}-{half[12:16]}-{half[16:]}-"
        self._numbers = count(1)
        self.flow: Flow | None = None
        """The shares of users; None if nobody but masters has any."""
        self.journal: AuditLog | None = None
        """Where it is written down who asked for what; None if nowhere."""
        self._reading = Lightening()
        self._routes = Routes()
        world.catalog.listen(lambda _removed, _added: self._routes.clear())

    def add_page(self, page: Page) -> None:
        """Has paths that belong to no resource answered by this one, after those that are there."""
        self._pages = (*self._pages, page)

    def handle(self, request: Request) -> Answer:
        """Answers at once if it can, and otherwise gives the answer to wait for; raises nothing."""
        audit = f"{self._audit}{next(self._numbers):012x}"
        journal, access, caller = self.journal, self._world.access, None
        began = None
        if journal is not None:
            began = journal.now()
            request = replace(request, remarks={})
        try:
            caller = None if access is None else access.caller(request)
            flow = self.flow
            if flow is None or caller is None or caller.is_master or is_public(request.path):
                answer = self._answer(request, caller)
            else:
                # No lambda: names that one holds on to cost every request, also where there is no flow.
                answer = flow.run(caller, partial(self._answer, request, caller))
        except Exception as error:  # noqa: BLE001 - whatever went wrong, the client gets a Status and never a traceback
            answer = _failure(error, request, audit)
        made: Answer
        if isinstance(answer, Response):
            made = _finish(request, answer, audit)
        elif isinstance(answer, Prompt) and "timeout" not in request.query:  # which interrupts a task, and so needs one
            made = run_promptly(self._later(request, answer.coroutine, audit))
        else:
            made = self._later(request, answer, audit)
        if journal is None or began is None:
            return made
        if caller is None and access is not None:
            caller = access.sender(request)  # somebody who may not speak for whom they name
        return journal.observe(request, caller, audit, began, made)

    async def _later(self, request: Request, answer: Awaitable[Response], audit: str) -> Response:
        seconds = _timeout(request)  # was read before, when it could be refused
        try:
            if seconds is None:
                response = await answer
            else:
                async with asyncio.timeout(seconds):
                    response = await answer
        except TimeoutError:
            text = f"the server did not finish within the timeout of the request, {seconds:g} s; it may still do so"
            response = status_response(ServerFailed(text, code=504, reason="Timeout"))
        except Exception as error:  # noqa: BLE001 - as above
            response = _failure(error, request, audit)
        finished = _finish(request, response, audit)
        return finished if isinstance(finished, Response) else await finished

    def _answer(self, request: Request, caller: Caller | None) -> Answer:
        routes = self._routes
        route = routes.known.get((request.method, request.path)) or routes.find_alike(request.method, request.path)
        if route is None or len(request.body) > HEAVY:
            return self._answer_with_care(request, caller, route)
        if caller is not None and not caller.is_master:
            self._authorize(request, route.address, caller)
        if "timeout" in request.query:
            _timeout(request)
        served = route.served
        call = Call(self._world, served, route.address, request)
        answer = (route.action or find_action(call))(call)
        return answer if served.deprecation is None else _deprecated(answer, served.deprecation)

    def _answer_with_care(self, request: Request, caller: Caller | None, route: Route | None) -> Answer:
        """As `_answer`, for a path that is not known yet, or a body that may be too much."""
        world, routes = self._world, self._routes
        address = read_address(request.segments) if route is None else route.address
        if address is None:
            return self._page(request, caller)
        if caller is not None and not caller.is_master:
            self._authorize(request, address, caller)
        if len(request.body) > LARGEST_BODY:
            raise too_large(LARGEST_BODY)
        if request.query and "timeout" in request.query:
            _timeout(request)
        if len(request.body) > HEAVY:
            if is_heavy(request):
                return self._answer_lighter(request, caller)
            if has_too_many(request.body) and media_type(request) != PROTOBUF:
                raise too_many_values(MOST_VALUES)
        served = world.catalog.find(address.group, address.version, address.plural) if route is None else route.served
        if served is None:
            return self._missing(address)
        call = Call(world, served, address, request)
        if route is None:
            # What is done at a collection depends on the query too: a list may be a watch.
            action = None if request.method == "GET" and address.name is None else find_action(call)
            route = routes.keep(request.method, request.path, Route(address, served, action))
        answer = (route.action or find_action(call))(call)
        return answer if served.deprecation is None else _deprecated(answer, served.deprecation)

    async def _answer_lighter(self, request: Request, caller: Caller | None) -> Response:
        answer = self._answer(await self._reading.lighten(request), caller)
        return answer if isinstance(answer, Response) else await answer

    def _authorize(self, request: Request, address: Address, caller: Caller) -> None:
        """Raises Forbidden unless the caller may do this, before anything else is told about what is there."""
        attempt = attempt_at(address, request, handlers.verb_of(address, request))
        if self._world.rbac is not None:
            self._world.rbac.check(caller, attempt)
        elif not _is_about_self(address):
            raise forbidden_attempt(caller, attempt)

    def _page(self, request: Request, caller: Caller | None) -> Answer:
        if caller is not None and not caller.is_master:
            if self._world.rbac is not None:
                self._world.rbac.check(caller, attempt_path(request))
            elif request.method != "GET":
                raise forbidden_attempt(caller, attempt_path(request))
        for page in self._pages:
            answer = page(request)
            if answer is not None:
                return answer
        return page_not_found()

    def _missing(self, address: Address) -> Response:
        if self._world.catalog.resources(address.group, address.version):
            raise no_such_resource()
        return page_not_found()


def _is_about_self(address: Address) -> bool:
    """Whether it is a question about the caller's own rights, which everybody who is known may ask."""
    return address.plural.startswith("selfsubject") and address.group in _SELF_GROUPS


def _failure(error: Exception, request: Request, audit: str) -> Response:
    """The Status for an error; one that nobody foresaw is logged, and the client is told where to look."""
    known = as_api_error(error)
    if known is None:
        fields = {"audit_id": audit, "method": request.method, "path": request.path}
        log.error("request failed", exc_info=error, extra=fields)
        known = ServerFailed(f"Internal error occurred: the server's log has more under Audit-Id {audit}")
    return status_response(_complete(known))


def _complete(error: ApiError) -> ApiError:
    """The same error, with a code that is one: an HTTP answer needs one between 400 and 599."""
    if not 400 <= error.code <= 599:
        error.code = 500
    return error


def _finish(request: Request, response: Response, audit: str) -> Answer:
    """Puts on the headers of every answer, and packs large ones for those who can unpack them."""
    headers = response.headers
    body = response.body
    if headers is JSON_HEADERS and isinstance(body, bytes) and len(body) <= _WORTH_PACKING:  # most answers
        return Response(response.status, (("Audit-Id", audit), *_PRIVATE_JSON), body, response.upgrade)
    if all(name != "Cache-Control" for name, _ in headers):
        headers = (("Audit-Id", audit), _PRIVATE, *headers)
    else:
        headers = (("Audit-Id", audit), *headers)
    if isinstance(body, bytes) and len(body) > _WORTH_PACKING and _can_unpack(request, headers):
        headers = (*headers, ("Content-Encoding", "gzip"), ("Vary", "Accept-Encoding"))
        if len(body) > _LONG_TO_PACK:
            return _packed_later(response.status, headers, body)
        return Response(response.status, headers, gzip.compress(body, 1, mtime=0))
    return Response(response.status, headers, body, response.upgrade)


async def _packed_later(status: int, headers: tuple[tuple[str, str], ...], body: bytes) -> Response:
    """Packs in a thread what would hold up everybody else for too long."""
    return Response(status, headers, await asyncio.to_thread(gzip.compress, body, 1, mtime=0))


def _can_unpack(request: Request, headers: tuple[tuple[str, str], ...]) -> bool:
    accepted = request.headers.find("accept-encoding")
    if accepted is None or any(name == "Content-Encoding" for name, _ in headers):
        return False
    return any(part.partition(";")[0].strip() == "gzip" for part in accepted.split(","))


def _deprecated(answer: Answer, text: str) -> Answer:
    if isinstance(answer, Response):
        headers = (*answer.headers, ("Warning", warning_text(text)))
        return Response(answer.status, headers, answer.body, answer.upgrade)
    return _deprecated_later(answer, text)


async def _deprecated_later(answer: Awaitable[Response], text: str) -> Response:
    response = await answer
    headers = (*response.headers, ("Warning", warning_text(text)))
    return Response(response.status, headers, response.body, response.upgrade)


def _timeout(request: Request) -> float | None:
    """The seconds that the request gives the server; None if it does not say. Raises BadRequest."""
    text = request.parameter("timeout") if request.query else None
    if not text:
        return None
    seconds, position = 0.0, 0
    # Only where the last one ended: a search for the next one would try every place of a long text.
    while part := _PARTS.match(text, position):
        seconds += float(part[1]) * _UNITS[part[2]]
        position = part.end()
    if position != len(text) and text != "0":
        raise BadRequest(f"invalid timeout specified in the request URL: {text[:40]!r}; write it as 30s or 1m30s")
    return min(seconds or _LONGEST, _LONGEST)
