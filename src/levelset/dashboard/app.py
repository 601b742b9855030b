"""The HTTP handler of the dashboard: the page, its JSON queries, and the feed of changes.

| path | response |
|---|---|
| `/` | the page: one document with inline style and script |
| `/api/status` | controllers and watches |
| `/api/kinds` | the served kinds with the number of their objects |
| `/api/objects?kind=[&namespace=][&continue=][&limit=]` | a page of the objects of a kind |
| `/api/object?kind=&name=[&namespace=]` | one object with its Events, reconciles, owners and children |
| `/api/events` | the newest Events |
| `/feed?kind=...[&status=1]` | changes of these kinds, as server-sent events |

`dashboard()` is a System to run with controllers; its URL is printed at the start:

```python
from levelset import run
from levelset.dashboard import dashboard

run(websites, dashboard(), local=True)
```
"""

import asyncio
import base64
import hashlib
import json
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import cache, partial
from pathlib import Path
from typing import Any, Final

import msgspec

from levelset.dashboard.access import SAFE, AccessPolicy
from levelset.dashboard.event_feed import EventFeed
from levelset.dashboard.queries import DashboardSource, Queries
from levelset.dashboard.views import MOST_OBJECTS, read_kind
from levelset.errors import ApiError, BadRequest, LevelsetError, Malformed, NotReady, UnknownKind
from levelset.http import Limits, Request, Response, Server
from levelset.runtime.manager import Manager, System

__all__ = ["Dashboard", "Page", "dashboard", "read_page"]

_HERE: Final = Path(__file__).parent


class Page(msgspec.Struct, frozen=True):
    """The bytes of the document, and its Content-Security-Policy."""

    body: bytes
    policy: str


@cache
def read_page() -> Page:
    """The page, read and assembled once; it loads nothing else and is the same for every client."""
    style, script, document = [(_HERE / f"page.{ending}").read_text("utf-8") for ending in ("css", "js", "html")]
    policy = [
        "default-src 'none'",
        f"style-src {_hash(style)}",
        f"script-src {_hash(script)}",
        "connect-src 'self'",
        "img-src data:",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
        "require-trusted-types-for 'script'",
    ]
    return Page(document.replace("{style}", style).replace("{script}", script).encode(), "; ".join(policy))


def _hash(text: str) -> str:
    """The hash source of an inline element in a Content-Security-Policy."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


_TEXT: Final = (("Content-Type", "text/plain; charset=utf-8"), *SAFE)
_JSON: Final = (("Content-Type", "application/json"), *SAFE)
_EVENTS: Final = (("Content-Type", "text/event-stream"), *SAFE)

QueryHandler = Callable[[Queries, Request], Awaitable[Any]]


class Dashboard:
    """Handles the requests of the page; responds 503 before `show` was called.

    `close` ends the feeds, and must be called before the client that their watches use is closed.
    """

    def __init__(self, source: DashboardSource | None = None, *, token: str | None = None) -> None:
        self.access = AccessPolicy(token)
        self._source = source
        self.feed = EventFeed(self._client, lambda: self._queries().pulse())

    def show(self, source: DashboardSource) -> None:
        """Sets the source of the data."""
        self._source = source

    def address(self, url: str) -> str:
        """The URL to open in a browser, with the token."""
        return f"{url}/?token={self.access.token}"

    async def close(self) -> None:
        """Ends all feeds and their watches."""
        await self.feed.close()

    async def handle(self, request: Request) -> Response:
        """Handles one request; a rejected one gets only a message."""
        refused = self.access.refuses(request)
        if refused is not None:
            return _text_response(*refused)
        try:
            return await self._respond(request)
        except LevelsetError as error:
            return Response(_code(error), _JSON, json.dumps({"error": str(error)}).encode())

    async def _respond(self, request: Request) -> Response:
        match request.segments:
            case ():
                return await self._page(request)
            case ("feed",):
                self._client()  # raises NotReady if there is no client yet
                kinds = [read_kind(one) for one in request.parameters.get("kind", ())]
                return Response(200, _EVENTS, self.feed.open(kinds, status=request.parameter("status") == "1"))
            case ("api", name) if name in _QUERY_HANDLERS:
                found = await _QUERY_HANDLERS[name](self._queries(), request)
                return Response(200, _JSON, json.dumps(found).encode())
            case _:
                there = ", ".join(f"/api/{name}" for name in _QUERY_HANDLERS)
                return _text_response(404, f"Not found. There is /, /feed, {there}.")

    async def _page(self, request: Request) -> Response:
        page = await asyncio.to_thread(read_page)  # the first time it reads files
        headers = [("Content-Type", "text/html; charset=utf-8"), ("Content-Security-Policy", page.policy), *SAFE]
        if self.access.has_token(request):
            # No redirect: after a link from another site the browser would not send the SameSite cookie. The page
            # removes the token from the address bar itself.
            headers.append(("Set-Cookie", self.access.cookie))
        return Response(200, tuple(headers), page.body)

    def _queries(self) -> Queries:
        return Queries(self._shown())

    def _client(self) -> Any:
        return self._shown().client()

    def _shown(self) -> DashboardSource:
        if self._source is None:
            raise NotReady("the manager has not started yet; retry in a moment")
        return self._source


async def _status(queries: Queries, _: Request) -> Any:
    return queries.status()


async def _kinds(queries: Queries, _: Request) -> Any:
    return await queries.kinds()


async def _events(queries: Queries, _: Request) -> Any:
    return await queries.events()


async def _objects(queries: Queries, request: Request) -> Any:
    limit = request.parameter("limit") or str(MOST_OBJECTS)
    if not (limit.isascii() and limit.isdecimal() and 1 <= int(limit[:9]) <= MOST_OBJECTS):
        raise BadRequest(f"limit={limit}: expected a number from 1 to {MOST_OBJECTS}")
    return await queries.objects(
        read_kind(request.parameter("kind")),
        namespace=request.parameter("namespace") or None,
        continue_=request.parameter("continue") or None,
        limit=int(limit),
    )


async def _object(queries: Queries, request: Request) -> Any:
    name = request.parameter("name")
    if not name:
        raise BadRequest("name is missing: ?kind=v1/Pod&name=NAME, and &namespace=NAMESPACE for namespaced kinds")
    return await queries.object(read_kind(request.parameter("kind")), name, request.parameter("namespace") or None)


_QUERY_HANDLERS: Final[dict[str, QueryHandler]] = {
    "events": _events,
    "kinds": _kinds,
    "object": _object,
    "objects": _objects,
    "status": _status,
}


def _code(error: LevelsetError) -> int:
    match error:
        case ApiError():
            return error.code
        case UnknownKind():
            return 404
        case Malformed():
            return 400
        case NotReady():
            return 503
        case _:
            return 502


def _text_response(status: int, sentence: str) -> Response:
    more = (("Allow", "GET"),) if status == 405 else ()
    return Response(status, (*_TEXT, *more), f"{sentence}\n".encode())


_LIMITS: Final = Limits(connections=100, body_bytes=0)
_SHUTDOWN: Final = 1.0


def dashboard(port: int = 0) -> System:
    """A System that serves the dashboard on this port of the loopback interface, or on any free one.

    ConfigError at the start if the port is in use.
    """
    return System(name="dashboard", around=partial(_serve, port))


@asynccontextmanager
async def _serve(port: int) -> AsyncGenerator[System, None]:
    page = Dashboard()

    def show(manager: Manager) -> None:
        page.show(DashboardSource.of(manager))
        manager.on_stop(page.close)  # before the client of its watches is closed

    async with Server(page.handle, port=port, limits=_LIMITS) as server:
        try:
            yield System(name="dashboard", setup=show, urls={"dashboard": page.address(server.url)})
        finally:
            await page.close()
            await server.stop(within=_SHUTDOWN)
