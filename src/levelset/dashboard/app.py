"""The HTTP handler of the dashboard: the page, its JSON queries, and the feed of changes.

The paths are below `AccessPolicy.root`; outside of it there is only the printed URL, which leads there.

| path | response |
|---|---|
| `/`, `/assets/...` | the page, its style and its modules |
| `/api/problems` | what is broken now |
| `/api/status` | controllers and watches |
| `/api/kinds` | the served kinds with the number of their objects |
| `/api/table?kind=[&namespace=][&labels=][&q=][&sort=][&desc=][&offset=][&continue=]` | a page of a kind's table |
| `/api/search?q=` | objects of all kinds, by words and labels |
| `/api/object?kind=&name=[&namespace=][&whole=]` | one object with its Events, reconciles, owners and children |
| `/api/text?kind=&name=[&namespace=]` | one object as text to edit |
| `/api/diff?kind=&name=[&namespace=]&before=&after=` | how two versions of an object differ |
| `/api/events` | the newest Events |
| `/api/endpoints` | the addresses of Services |
| `/api/reconciles[?controller=][&polls=]` | the last reconciles of all controllers, or of one, with their spans |
| `/api/metrics[?last=]` | the metrics of the last hour, or the last samples |
| `/api/logs` | the objects whose log can be read |
| `/log?kind=&name=[&namespace=][&container=][&tail=][&follow=][&previous=][&download=]` | a log, as text |
| `/api/runs`, `/api/run?number=[&offset=]`, `/api/step?number=&step=` | files of past runs, steps of one, one step |
| `/report?number=` | the report of an exploration, as a document without rights |
| `POST /api/actions/...` | changes something, if actions are switched on |
| `/feed?kind=...[&status=1]` | changes of these kinds, as server-sent events |

`dashboard()` is a System to run with controllers; its URL is printed at the start:

```python
from levelset import run
from levelset.dashboard import dashboard

run(websites, dashboard(), local=True)
```
"""

import asyncio
import json
import re
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from levelset.dashboard.access import SAFE, AccessPolicy, token_of_port
from levelset.dashboard.activity import Activity
from levelset.dashboard.event_feed import EventFeed
from levelset.dashboard.log_streams import MOST_LINES, LogQuery, LogStreams
from levelset.dashboard.metrics_history import MOST_SAMPLES
from levelset.dashboard.page_actions import Actions
from levelset.dashboard.page_assets import content_policy, read_assets
from levelset.dashboard.queries import DashboardSource, Queries
from levelset.dashboard.recorded_runs import REPORT_POLICY, RecordedRuns
from levelset.dashboard.request_spans import IS_OWN
from levelset.dashboard.resource_table import PAGE_ROWS, TableQuery
from levelset.dashboard.views import read_kind
from levelset.errors import ApiError, BadRequest, LevelsetError, Malformed, NotReady, UnknownKind
from levelset.http import Limits, Request, Response, Server
from levelset.objects.ref import GroupVersionKind
from levelset.runtime.manager import Manager, System

if TYPE_CHECKING:
    from levelset.dashboard.managers import OtherManagers

__all__ = ["Dashboard", "dashboard", "open_dashboard"]

_TEXT: Final = (("Content-Type", "text/plain; charset=utf-8"), *SAFE)
_JSON: Final = (("Content-Type", "application/json"), *SAFE)
_EVENTS: Final = (("Content-Type", "text/event-stream"), *SAFE)

QueryHandler = Callable[[Queries, Request], Awaitable[Any]]


class Dashboard:
    """Handles the requests of the page; responds 503 before `show` was called.

    `close` ends the feeds, and must be called before the client that their watches use is closed.
    """

    def __init__(
        self,
        source: DashboardSource | None = None,
        *,
        token: str | None = None,
        actions: bool = False,
        runs: RecordedRuns | None = None,
    ) -> None:
        self.access = AccessPolicy(token, actions=actions)
        self.actions = Actions(
            self._client, lambda: self._shown().controllers(), lambda: self.others, lambda: self._shown().panels()
        )
        self._source: DashboardSource | None = None
        self._queries_of_source: Queries | None = None
        self.activity: Activity | None = None
        self.others: OtherManagers | None = None
        self.logs = LogStreams()
        self.runs = runs or RecordedRuns()
        self.feed = EventFeed(self._client, lambda: self._queries().pulse())
        if source is not None:
            self.show(source)

    def show(self, source: DashboardSource) -> None:
        """Sets the source of the data."""
        self._source = source
        self.activity = Activity(source.controllers, source.clusters, source.requests, source.tracers)
        if source.server is not None:
            # Imported late: only `levelset dashboard` has a server whose managers are other processes.
            from levelset.dashboard.managers import OtherManagers  # noqa: PLC0415

            self.others = OtherManagers(source.client(), source.server, self.activity.metrics)
            self.others.start()
        self._queries_of_source = Queries(source, self.activity, self.others)

    def show_manager(self, manager: Manager) -> None:
        """Shows a manager that has not started yet, and follows what it does until it stops."""
        self.show(DashboardSource.of(manager))
        if self.activity is not None:
            manager.on_start(self.activity.start)
            manager.on_stop(self.activity.close)

    def address(self, url: str) -> str:
        """The URL to open in a browser, with the token."""
        return f"{url}/?token={self.access.token}"

    async def close(self) -> None:
        """Ends all feeds, their watches and all logs, and follows the controllers no longer."""
        await self.feed.close()
        await self.logs.close()
        if self.activity is not None:
            await self.activity.close()
        if self.others is not None:
            await self.others.close()

    async def handle(self, request: Request) -> Response:
        """Handles one request; a rejected one gets only a message."""
        refused = self.access.refuses(request)
        if refused is not None:
            return _text_response(*refused)
        below = self.access.below_root(request)
        if below is None:  # the printed URL, with its token
            return Response(303, (("Location", f"{self.access.root}?token={self.access.token}"), *SAFE))
        token = IS_OWN.set(True)
        try:
            return await self._respond(below)
        except LevelsetError as error:
            return Response(_code(error), _JSON, json.dumps({"error": str(error)}).encode())
        finally:
            IS_OWN.reset(token)

    async def _respond(self, request: Request) -> Response:
        match request.segments:
            case ():
                return await self._page(request)
            case ("assets", *path):
                return await self._asset("/".join(path))
            case ("feed",):
                self._client()  # raises NotReady if there is no client yet
                kinds = [read_kind(one) for one in request.parameters.get("kind", ())]
                return Response(200, _EVENTS, self.feed.open(kinds, status=request.parameter("status") == "1"))
            case ("api", "actions", name) if request.method == "POST":
                return Response(200, _JSON, json.dumps(await self.actions.run(name, request.body)).encode())
            case ("log",):
                return await self._log(request)
            case ("report",):
                headers = (("Content-Type", "text/html; charset=utf-8"), ("Content-Security-Policy", REPORT_POLICY))
                return Response(200, (*headers, *SAFE), await self.runs.report(_number(request, "number", 0, _FILES)))
            case ("api", "runs" | "run" | "step" as name):
                return Response(200, _JSON, json.dumps(await self._run(name, request)).encode())
            case ("api", name) if name in _QUERY_HANDLERS:
                found = await _QUERY_HANDLERS[name](self._queries(), request)
                if name == "status":
                    found["hasActions"] = self.access.has_actions
                return Response(200, _JSON, json.dumps(found).encode())
            case _:
                there = ", ".join(f"/api/{name}" for name in _QUERY_HANDLERS)
                return _text_response(404, f"Not found. There is /, /feed, {there}.")

    async def _page(self, request: Request) -> Response:
        page = (await asyncio.to_thread(read_assets))["index.html"]  # the first time it reads files
        policy = content_policy((request.headers.get("host") or "") + self.access.root)
        headers = [("Content-Type", page.content_type), ("Content-Security-Policy", policy), *SAFE]
        if self.access.has_token(request):
            # No redirect that depends on the cookie: after a link from another site the browser would not send it. The
            # page removes the token from the address bar itself.
            headers.append(("Set-Cookie", self.access.cookie))
        return Response(200, tuple(headers), page.body)

    async def _asset(self, name: str) -> Response:
        asset = (await asyncio.to_thread(read_assets)).get(name)
        if asset is None:
            return _text_response(404, "Not found.")
        return Response(200, (("Content-Type", asset.content_type), *SAFE), asset.body)

    async def _log(self, request: Request) -> Response:
        """A log as text, never as anything a browser would show as a document of its own."""
        gvk, name, namespace = _object_of(request)
        is_download = request.parameter("download") == "1"
        is_previous = request.parameter("previous") == "1"
        query = LogQuery(
            gvk=gvk,
            name=name,
            namespace=namespace,
            container=request.parameter("container"),
            tail=None if is_download else _number(request, "tail", PAST_LINES, range(MOST_LINES + 1)),
            is_followed=request.parameter("follow") == "1" and not is_download and not is_previous,
            is_previous=is_previous,
        )
        body = await self.logs.open(self._client(), query)
        file = re.sub(r"[^A-Za-z0-9._-]", "_", f"{name}.log")
        more = (("Content-Disposition", f'attachment; filename="{file}"'),) if is_download else ()
        return Response(200, (*_TEXT, *more), body)

    async def _run(self, name: str, request: Request) -> Any:
        """The files of past runs, the steps of one, or one step; there need be no server for it."""
        if name == "runs":
            return {"files": self.runs.files(), "isAlone": self._source is None and len(self.runs) > 0}
        number = _number(request, "number", 0, _FILES)
        if name == "run":
            return await self.runs.steps(number, _number(request, "offset", 0, _STEPS))
        return await self.runs.step(number, _number(request, "step", 0, _STEPS))

    def _queries(self) -> Queries:
        self._shown()
        assert self._queries_of_source is not None, "set with the source"
        return self._queries_of_source

    def _client(self) -> Any:
        return self._shown().client()

    def _shown(self) -> DashboardSource:
        if self._source is None:
            raise NotReady("the manager has not started yet; retry in a moment")
        return self._source


async def _status(queries: Queries, _: Request) -> Any:
    return await queries.status()


async def _kinds(queries: Queries, _: Request) -> Any:
    return await queries.kinds()


async def _events(queries: Queries, _: Request) -> Any:
    return await queries.events()


async def _problems(queries: Queries, _: Request) -> Any:
    return await queries.problems()


async def _metrics(queries: Queries, request: Request) -> Any:
    return queries.metrics(_number(request, "last", MOST_SAMPLES, range(1, MOST_SAMPLES + 1)))


async def _logs(queries: Queries, _: Request) -> Any:
    return await queries.logs()


async def _endpoints(queries: Queries, _: Request) -> Any:
    return await queries.endpoints()


async def _reconciles(queries: Queries, request: Request) -> Any:
    has_polls = request.parameter("polls") == "1"
    return await queries.reconciles(request.parameter("controller") or "", has_polls=has_polls)


async def _search(queries: Queries, request: Request) -> Any:
    return await queries.search((request.parameter("q") or "")[:_LONGEST_TEXT])


async def _table(queries: Queries, request: Request) -> Any:
    find = request.parameter
    query = TableQuery(
        gvk=read_kind(find("kind")),
        namespace=find("namespace") or None,
        labels=find("labels") or "",
        text=(find("q") or "")[:_LONGEST_TEXT],
        sort=find("sort") or "",
        is_descending=bool(find("desc")),
        offset=_number(request, "offset", 0, range(1_000_000)),
        continue_=find("continue") or None,
        limit=_number(request, "limit", PAGE_ROWS, range(1, PAGE_ROWS + 1)),
    )
    return await queries.table(query)


def _number(request: Request, name: str, default: int, allowed: range) -> int:
    text = request.parameter(name) or str(default)
    if not (len(text) < 10 and text.isascii() and text.isdecimal() and int(text) in allowed):
        raise BadRequest(f"{name}={text[:20]}: expected a number from {allowed.start} to {allowed.stop - 1}")
    return int(text)


async def _object(queries: Queries, request: Request) -> Any:
    is_whole = request.parameter("whole") == "1"
    return await queries.object(*_object_of(request), is_whole=is_whole)


async def _text(queries: Queries, request: Request) -> Any:
    return await queries.text(*_object_of(request))


async def _diff(queries: Queries, request: Request) -> Any:
    before, after = (request.parameter(name) or "" for name in ("before", "after"))
    return await queries.diff(*_object_of(request), (before, after))


def _object_of(request: Request) -> tuple[GroupVersionKind, str, str | None]:
    name = request.parameter("name")
    if not name:
        raise BadRequest("name is missing: ?kind=v1/Pod&name=NAME, and &namespace=NAMESPACE for namespaced kinds")
    return read_kind(request.parameter("kind")), name, request.parameter("namespace") or None


_QUERY_HANDLERS: Final[dict[str, QueryHandler]] = {
    "diff": _diff,
    "endpoints": _endpoints,
    "events": _events,
    "kinds": _kinds,
    "logs": _logs,
    "metrics": _metrics,
    "object": _object,
    "problems": _problems,
    "reconciles": _reconciles,
    "search": _search,
    "status": _status,
    "table": _table,
    "text": _text,
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
_ACTION_LIMITS: Final = Limits(connections=100, body_bytes=1024 * 1024)
_SHUTDOWN: Final = 1.0
_LONGEST_TEXT: Final = 200
_FILES: Final = range(1000)
_STEPS: Final = range(100_000_000)
PAST_LINES: Final = 1000
"""The lines of the past that come with a log unless more are wanted."""


def dashboard(port: int = 0, *, actions: bool = False) -> System:
    """A System that serves the dashboard on this port of the loopback interface, or on any free one.

    With `actions` the page can change objects and pause controllers. ConfigError at the start if the port is in use.
    """
    return System(name="dashboard", around=partial(_serve, port, actions))


@asynccontextmanager
async def open_dashboard(
    port: int = 0, *, actions: bool = False, runs: RecordedRuns | None = None
) -> AsyncGenerator[tuple[Dashboard, str], None]:
    """Serves a dashboard for the length of a block: the dashboard, which shows only `runs` yet, and its URL."""
    page = Dashboard(token=await asyncio.to_thread(token_of_port, port), actions=actions, runs=runs)
    async with Server(page.handle, port=port, limits=_ACTION_LIMITS if actions else _LIMITS) as server:
        try:
            yield page, page.address(server.url)
        finally:
            await page.close()
            await server.stop(within=_SHUTDOWN)


@asynccontextmanager
async def _serve(port: int, actions: bool) -> AsyncGenerator[System, None]:
    async with open_dashboard(port, actions=actions) as (page, url):

        def show(manager: Manager) -> None:
            page.show_manager(manager)
            manager.on_stop(page.close)  # before the client of its watches is closed

        yield System(name="dashboard", setup=show, urls={"dashboard": url})
