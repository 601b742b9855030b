"""The dashboard as one handler: the page, the questions that it asks, and the feed that tells it what has changed.

| address | what it gives |
|---|---|
| `/` | the page |
| `/api/status` | controllers and watches |
| `/api/kinds` | the kinds that are served, with numbers |
| `/api/objects?kind=[&namespace=][&continue=][&limit=]` | a page of the objects of a kind |
| `/api/object?kind=&name=[&namespace=]` | one object with all around it |
| `/api/events` | what happened last |
| `/feed?kind=...[&status=1]` | what changes in these kinds, as server-sent events |

The page as it is sent: one document with style and script inside, and the policy that lets only these two work.

The dashboard as a part of a program: `run(websites, dashboard())` serves it, and says where it is.

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
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any, Final

from levelset.dashboard.access import SAFE, Access
from levelset.dashboard.event_feed import Feed
from levelset.dashboard.queries import Reader, Sight
from levelset.dashboard.views import MOST_OBJECTS, read_kind
from levelset.errors import ApiError, BadRequest, LevelsetError, Malformed, NotReady, UnknownKind
from levelset.http import Limits, Request, Response, Server
from levelset.runtime.manager import Manager, System

__all__ = ["Dashboard", "Page", "dashboard", "read_page"]

_HERE: Final = Path(__file__).parent


@dataclass(frozen=True, slots=True)
class Page:
    """The bytes of the document, and its Content-Security-Policy."""

    body: bytes
    policy: str


@cache
def read_page() -> Page:
    """The page, read and put together once; nothing in it comes from anywhere else, or depends on who asks."""
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
    """The name by which a policy knows an inline element."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


_TEXT: Final = (("Content-Type", "text/plain; charset=utf-8"), *SAFE)
_JSON: Final = (("Content-Type", "application/json"), *SAFE)
_EVENTS: Final = (("Content-Type", "text/event-stream"), *SAFE)

Question = Callable[[Reader, Request], Awaitable[Any]]


class Dashboard:
    """Answers requests about what it is shown; before that, with 503 and a sentence.

    `close` ends the feeds, and must be called before what they read from is closed.
    """

    def __init__(self, sight: Sight | None = None, *, token: str | None = None) -> None:
        self.access = Access(token)
        self._sight = sight
        self.feed = Feed(self._client, lambda: self._reader().pulse())

    def show(self, sight: Sight) -> None:
        """Looks at this from now on."""
        self._sight = sight

    def address(self, url: str) -> str:
        """What to open: where it is served, with what lets a browser in."""
        return f"{url}/?token={self.access.token}"

    async def close(self) -> None:
        """Ends all feeds and their watches."""
        await self.feed.close()

    async def handle(self, request: Request) -> Response:
        """Answers one request; whoever may not look gets nothing but a sentence."""
        refused = self.access.refuses(request)
        if refused is not None:
            return _say(*refused)
        try:
            return await self._answer(request)
        except LevelsetError as error:
            return Response(_code(error), _JSON, json.dumps({"error": str(error)}).encode())

    async def _answer(self, request: Request) -> Response:
        match request.segments:
            case ():
                return await self._page(request)
            case ("feed",):
                self._client()  # there is one to watch with
                kinds = [read_kind(one) for one in request.parameters.get("kind", ())]
                return Response(200, _EVENTS, self.feed.open(kinds, status=request.parameter("status") == "1"))
            case ("api", name) if name in _QUESTIONS:
                found = await _QUESTIONS[name](self._reader(), request)
                return Response(200, _JSON, json.dumps(found).encode())
            case _:
                there = ", ".join(f"/api/{name}" for name in _QUESTIONS)
                return _say(404, f"There is no such page. There is /, /feed, {there}.")

    async def _page(self, request: Request) -> Response:
        page = await asyncio.to_thread(read_page)  # the first time it reads files
        headers = [("Content-Type", "text/html; charset=utf-8"), ("Content-Security-Policy", page.policy), *SAFE]
        if self.access.has_token(request):
            # No redirect: a browser that came from another site would not send the cookie along with it. The page takes
            # the token out of the address bar by itself.
            headers.append(("Set-Cookie", self.access.cookie))
        return Response(200, tuple(headers), page.body)

    def _reader(self) -> Reader:
        return Reader(self._shown())

    def _client(self) -> Any:
        return self._shown().client()

    def _shown(self) -> Sight:
        if self._sight is None:
            raise NotReady("it has not come up yet: look again in a moment")
        return self._sight


async def _status(reader: Reader, _: Request) -> Any:
    return reader.status()


async def _kinds(reader: Reader, _: Request) -> Any:
    return await reader.kinds()


async def _events(reader: Reader, _: Request) -> Any:
    return await reader.events()


async def _objects(reader: Reader, request: Request) -> Any:
    limit = request.parameter("limit") or str(MOST_OBJECTS)
    if not (limit.isascii() and limit.isdecimal() and 1 <= int(limit[:9]) <= MOST_OBJECTS):
        raise BadRequest(f"limit={limit}: give a number from 1 to {MOST_OBJECTS}")
    return await reader.objects(
        read_kind(request.parameter("kind")),
        namespace=request.parameter("namespace") or None,
        continue_=request.parameter("continue") or None,
        limit=int(limit),
    )


async def _object(reader: Reader, request: Request) -> Any:
    name = request.parameter("name")
    if not name:
        raise BadRequest("say which object: ?kind=v1/Pod&name=NAME, and &namespace=NAMESPACE if it has one")
    return await reader.object(read_kind(request.parameter("kind")), name, request.parameter("namespace") or None)


_QUESTIONS: Final[dict[str, Question]] = {
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


def _say(status: int, sentence: str) -> Response:
    more = (("Allow", "GET"),) if status == 405 else ()
    return Response(status, (*_TEXT, *more), f"{sentence}\n".encode())


_LIMITS: Final = Limits(connections=100, body_bytes=0)
_SHUTDOWN: Final = 1.0


def dashboard(port: int = 0) -> System:
    """A part to run with others: serves the page on this port of the loopback interface, or on any free one.

    ConfigError, before anything else has begun, if the port cannot be had.
    """
    return System(name="dashboard", around=partial(_serve, port))


@asynccontextmanager
async def _serve(port: int) -> AsyncGenerator[System, None]:
    page = Dashboard()

    def show(manager: Manager) -> None:
        page.show(Sight.of(manager))
        manager.on_stop(page.close)  # before the client is closed that its watches use

    async with Server(page.handle, port=port, limits=_LIMITS) as server:
        try:
            yield System(name="dashboard", setup=show, urls={"dashboard": page.address(server.url)})
        finally:
            await page.close()
            await server.stop(within=_SHUTDOWN)
