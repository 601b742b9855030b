"""The admin API of a running manager: its state, why it reconciled an object, and a way to trigger a reconcile.

It is served on the loopback interface to clients that send the token from a private file (`process_records.py`); the
commands `levelset status`, `why` and `trigger` use it.

| request | response |
|---|---|
| `GET /status` | the controllers with their queues and last failures, and the watches |
| `GET /reconciles` | the last reconciles of all controllers, newest first |
| `GET /why?kind=&name=[&namespace=]` | the last reconciles of an object, with reasons and results |
| `POST /trigger?kind=&name=[&namespace=]` | enqueues the object; with shards, names the member that owns it |
| `POST /record[?file=&size=&time=&redact=]` | records the manager from now on, within these limits |
| `DELETE /record` | ends the recording |
"""

import asyncio
import os
import sys
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from heapq import nlargest
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec
from msgspec.structs import asdict

from levelset.aio import timing
from levelset.client.object_types import View, view_of
from levelset.errors import ApiError, BadRequest, ConfigError, NotFound
from levelset.http import Limits, Request, Response, Server
from levelset.objects.ref import Ref
from levelset.runtime.cache.informer import Stats
from levelset.runtime.controller.actions import Outcome
from levelset.runtime.controller.reconcile_history import count_repeats, failing_now, is_poll
from levelset.runtime.controller.running_controller import RunningController
from levelset.runtime.manager.process_records import ProcessRecord, remove_record, write_record
from levelset.runtime.recording import RecordingLimits

if TYPE_CHECKING:
    from levelset.runtime.controller.hot_loops import HotLoop
    from levelset.runtime.manager.sharding.member import MemberReport

__all__ = [
    "AdminServer",
    "ManagerView",
    "last_reconciles",
    "reconciles_of",
    "report_controllers",
    "report_requests",
    "report_watches",
    "trigger_reconcile",
    "wall_time",
]

_MAX_ERRORS: Final = 5
_MAX_COMPARED: Final = 10_000
"""How many names are compared with one that is not there."""
_MAX_FAILING: Final = 50
_MAX_RECONCILES: Final = 100
_JSON: Final = (("Content-Type", "application/json"), ("X-Content-Type-Options", "nosniff"))
# Every process of the machine can connect: what it sends is not kept in memory until the token is known.
_LIMITS: Final = Limits(connections=100, body_bytes=0)
_SHUTDOWN: Final = 1.0
_MINUTE: Final = 60.0
_SWITCHES: Final = frozenset({"POST", "DELETE"})

Handler = Callable[[Request], Any]


class ManagerView(msgspec.Struct, frozen=True):
    """What the admin API reads of a manager; each function returns the current state."""

    controllers: Callable[[], Mapping[str, RunningController[Any]]]
    watches: Callable[[], Sequence[Stats]]
    is_leader: Callable[[], bool]
    members: "Callable[[], Sequence[MemberReport] | None]" = lambda: None
    """The members of the shards; None without shards."""
    shard_counts: Callable[[], Mapping[str, tuple[int, int, int]]] = dict[str, tuple[int, int, int]]
    """For each controller how many objects this member owns, has gained and lost; empty without shards."""
    other_owner: "Callable[[str, str], MemberReport | None]" = lambda _, __: None
    """The other member that owns the object with a key, of a controller with a name; None if it is reconciled here."""
    hot_loops: "Callable[[], Sequence[tuple[datetime, str, HotLoop]]]" = tuple
    """The latest hot loops: when each was found, and in which controller."""
    requests: Callable[[], Mapping[tuple[int | None, str, str], int]] = dict[tuple[int | None, str, str], int]
    """The API requests so far, by status, method and host."""
    server: Callable[[], str] = str
    """The URL of the API server; empty if it has none."""
    record: Callable[[RecordingLimits | None], Awaitable[Mapping[str, Any]]] | None = None
    """Records the manager, or (None) ends the recording; returns the file and its size."""


class AdminServer:
    """Serves the admin API from `start` to `stop`, and writes the file by which it is found."""

    def __init__(self, view: ManagerView) -> None:
        self._view = view
        self._token = os.urandom(32).hex()
        self._server = Server(self.handle, limits=_LIMITS)
        self._path: Path | None = None
        self._handlers: dict[tuple[str, str], Handler] = {
            ("GET", "status"): self._status,
            ("GET", "reconciles"): self._reconciles,
            ("GET", "why"): self._why,
            ("POST", "trigger"): self._trigger,
        }

    @property
    def token(self) -> str:
        """The bearer token that clients must send."""
        return self._token

    @property
    def url(self) -> str:
        """The URL of the API, once it is served."""
        return self._server.url

    async def start(self) -> None:
        """Starts to serve."""
        await self._server.start()

    async def announce(self) -> None:
        """Writes the file by which the commands find it."""
        url, server = self._server.url, self._view.server()
        record = ProcessRecord(pid=os.getpid(), url=url, token=self._token, program=sys.argv[0], server=server)
        self._path = await asyncio.to_thread(write_record, record)

    async def stop(self) -> None:
        """Stops to serve, and removes the file."""
        if self._path is not None:
            await asyncio.to_thread(remove_record, self._path)
        await self._server.stop(within=_SHUTDOWN)

    def handle(self, request: Request) -> Response | Awaitable[Response]:
        """Handles one request: 401 without the token, whatever the path."""
        given = request.headers.get("authorization") or ""
        import hmac  # noqa: PLC0415  # it loads OpenSSL's digests, which few programs need

        if not hmac.compare_digest(given.encode(), f"Bearer {self._token}".encode()):
            return _answer(401, {"error": "send the token from the manager's file as a bearer token"})
        if request.segments == ("record",) and request.method in _SWITCHES and self._view.record is not None:
            return self._record(self._view.record, request)
        handler = self._handlers.get((request.method, "/".join(request.segments)))
        if handler is None:
            there = ", ".join(f"{method} /{name}" for method, name in self._handlers)
            return _answer(404, {"error": f"not found; there is {there}"})
        try:
            return _answer(200, handler(request))
        except ApiError as error:
            return _answer(error.code, {"error": error.message})

    def _status(self, _: Request) -> Any:
        view = self._view
        return {
            "pid": os.getpid(),
            "is_leader": view.is_leader(),
            "members": msgspec.to_builtins(view.members()),
            "shards": {
                name: {"owned": owned, "gained": gained, "lost": lost}
                for name, (owned, gained, lost) in view.shard_counts().items()
            },
            "controllers": report_controllers(view.controllers()),
            "watches": report_watches(view.watches()),
            **report_requests(view.requests()),
            "hot_loops": [
                {"at": _stamp(at), "controller": name, "field": one.field, "message": str(one), **_ref_tree(one.ref)}
                for at, name, one in view.hot_loops()
            ],
        }

    def _reconciles(self, _: Request) -> Any:
        return {"pid": os.getpid(), "reconciles": last_reconciles(self._view.controllers())}

    @staticmethod
    async def _record(
        switch: Callable[[RecordingLimits | None], Awaitable[Mapping[str, Any]]], request: Request
    ) -> Response:
        find = request.parameter
        try:
            if request.method == "DELETE":
                return _answer(200, await switch(None))
            redact = tuple(filter(None, (find("redact") or "").split(",")))
            limits = RecordingLimits(find("file") or None, find("size") or None, find("time") or None, redact)
            return _answer(200, await switch(limits))
        except ConfigError as error:
            return _answer(400, {"error": str(error)})

    def _why(self, request: Request) -> Any:
        controllers, wanted = self._view.controllers(), _object_of(request)
        found = reconciles_of(controllers, *wanted)
        missing = "" if found else _missing_object(controllers, *wanted)
        return {"pid": os.getpid(), "reconciles": found, "missing": missing}

    def _trigger(self, request: Request) -> Any:
        return trigger_reconcile(self._view.controllers(), *_object_of(request), other_owner=self._view.other_owner)


def _object_of(request: Request) -> tuple[str, str, str | None]:
    kind, name = request.parameter("kind"), request.parameter("name")
    if not kind or not name:
        raise BadRequest("name the object: ?kind=KIND&name=NAME, and &namespace=NAMESPACE if it has one")
    return kind, name, request.parameter("namespace") or None


def _answer(status: int, value: Any) -> Response:
    return Response(status, _JSON, msgspec.json.encode(value))


def report_controllers(controllers: Mapping[str, RunningController[Any]]) -> Sequence[dict[str, Any]]:
    """Each controller with its numbers and its last failures, newest first."""
    return [
        {
            **msgspec.to_builtins(one.stats()),
            "kind": _kind_of(one),
            "api_version": _view(one).gvk.api_version,
            "is_paused": one.is_paused,
            "longest": max(one.ages(), default=0.0),
            "errors": _errors(one.history),
            "failing_objects": _failing_objects(one.history),
            "last_minute": _last_minute(one.history),
        }
        for one in controllers.values()
    ]


def report_requests(requests: Mapping[tuple[int | None, str, str], int]) -> dict[str, int]:
    """How many API requests there were, and how many of them failed: had no response, or one of 500 or more."""
    failed = sum(count for (status, *_), count in requests.items() if status is None or status >= 500)
    return {"requests": sum(requests.values()), "failed_requests": failed}


def report_watches(stats: Iterable[Stats]) -> Sequence[dict[str, Any]]:
    """Each watch with its numbers."""
    return [asdict(one) for one in stats]


def reconciles_of(
    controllers: Mapping[str, RunningController[Any]], kind: str, name: str, namespace: str | None
) -> Sequence[dict[str, Any]]:
    """The last reconciles of an object, oldest first, each with its reasons and its result.

    The kind may be written as in kubectl: `Website`, `website`, `websites` or a short name. Without a namespace,
    objects of that name in all namespaces are included. NotFound names the known kinds if no controller reconciles this
    one.
    """
    return [
        {"controller": controller.name, **_reconcile_tree(one)}
        for controller in _of_kind(controllers, kind)
        for one in controller.history
        if one.ref.name == name and namespace in {None, one.ref.namespace}
    ]


def _missing_object(
    controllers: Mapping[str, RunningController[Any]], kind: str, name: str, namespace: str | None
) -> str:
    """A sentence, with the nearest name, if no cache has this object; nothing if one has."""
    concerned = _of_kind(controllers, kind)
    if any(_keys_of(one, name, namespace) for one in concerned):
        return ""
    return _not_cached(concerned, kind, name, namespace)


def last_reconciles(controllers: Mapping[str, RunningController[Any]]) -> Sequence[dict[str, Any]]:
    """The last reconciles of all controllers, newest first, at most so many."""
    all_ = [(name, one) for name, controller in controllers.items() for one in controller.history[-_MAX_RECONCILES:]]
    newest = nlargest(_MAX_RECONCILES, all_, key=lambda one: one[1].at)
    return [{"controller": name, **_ref_tree(one.ref), **_reconcile_tree(one)} for name, one in newest]


def trigger_reconcile(
    controllers: Mapping[str, RunningController[Any]],
    kind: str,
    name: str,
    namespace: str | None,
    *,
    other_owner: "Callable[[str, str], MemberReport | None]" = lambda _, __: None,
) -> dict[str, Any]:
    """Enqueues an object at the controllers of its kind; returns their names. NotFound as in `reconciles_of`.

    Without a namespace, objects of that name in all namespaces are enqueued. Where another member of the shards owns
    the object nothing is enqueued: `elsewhere` has the member. NotFound, with the nearest name, if no cache has it.
    """
    triggered: dict[str, None] = {}
    elsewhere: list[dict[str, str]] = []
    concerned = _of_kind(controllers, kind)
    for controller in concerned:
        for key in _keys_of(controller, name, namespace):
            owner = other_owner(controller.name, key)
            if owner is None:
                controller.enqueue(_view(controller).ref_at(key), "requested by `levelset trigger`")
                triggered[controller.name] = None
            else:
                elsewhere.append({"controller": controller.name, "member": owner.name, "identity": owner.identity})
    if not triggered and not elsewhere:
        raise NotFound(_not_cached(concerned, kind, name, namespace))
    return {"triggered": list(triggered), "elsewhere": elsewhere}


def _keys_of(controller: RunningController[Any], name: str, namespace: str | None) -> list[str]:
    """The keys of the cached objects of this name, in one namespace or in all."""
    refs = [one for one in _cached_refs(controller) if one.name == name]
    return [one.key for one in refs if namespace in {None, one.namespace}]


def _cached_refs(controller: RunningController[Any]) -> list[Ref[Any]]:
    ref_at = _view(controller).ref_at
    listed: list[list[str]] = [store.keys() for store in controller.stores]
    return [ref_at(key) for keys in listed for key in keys]


def _not_cached(controllers: Sequence[RunningController[Any]], kind: str, name: str, namespace: str | None) -> str:
    """The message that no controller has an object in its cache, with the name that is nearest."""
    from levelset.command_parser import suggestion  # noqa: PLC0415  # for a mistake only

    names = {ref.name for one in controllers for ref in _cached_refs(one)[:_MAX_COMPARED]}
    where = f" in namespace {namespace}" if namespace else ""
    near = suggestion(name, names - {name})
    own = ", ".join(one.name for one in controllers)
    said = f"{own}: no {kind} {name}{where} is in the cache of process {os.getpid()}"
    return f"{said}. {near}" if near else said


def _of_kind(controllers: Mapping[str, RunningController[Any]], kind: str) -> Sequence[RunningController[Any]]:
    found = [one for one in controllers.values() if kind.lower() in _names_of(one)]
    if not found:
        from levelset.command_parser import suggestion  # noqa: PLC0415  # for a mistake only

        there = sorted({_kind_of(one) for one in controllers.values()})
        said = f"no controller in process {os.getpid()} reconciles {kind}"
        if near := suggestion(kind.lower(), {one.lower() for one in there}):
            raise NotFound(f"{said}. {near}")
        raise NotFound(f"{said} (it reconciles {', '.join(there) or 'nothing'})")
    return found


def _names_of(controller: RunningController[Any]) -> set[str]:
    view = _view(controller)
    names = {view.gvk.kind}
    if view.definition is not None:
        names |= {view.definition.plural, view.definition.singular, *view.definition.short_names}
        names.add(f"{view.definition.plural}.{view.gvk.group}")
    return {one.lower() for one in names}


def _view(controller: RunningController[Any]) -> View[Any]:
    return view_of(controller.controller.kind)


def _kind_of(controller: RunningController[Any]) -> str:
    return _view(controller).gvk.kind


def _errors(history: Sequence[Outcome[Any]]) -> Sequence[dict[str, Any]]:
    """The last errors, newest first; one that repeats at an object is there once, with its `count`."""
    failed = (one for one in reversed(history) if one.is_error)
    found = count_repeats(failed, lambda one: (one.ref.key, type(one.error), str(one.error)), _MAX_ERRORS)
    return [{**_reconcile_tree(one), "count": count} for one, count in found]


def _failing_objects(history: Sequence[Outcome[Any]]) -> Sequence[dict[str, Any]]:
    """The objects whose last reconcile failed: since when, and when it is retried."""
    return [
        {
            **_ref_tree(one.ref),
            **_reconcile_tree(one),
            "since": wall_time(since),
            "retry_at": None if one.action.after is None else wall_time(one.at + one.action.after),
        }
        for one, since in failing_now(history)[-_MAX_FAILING:]
    ]


def _last_minute(history: Sequence[Outcome[Any]]) -> dict[str, Any]:
    """How many reconciles of the last minute the history has, how many failed, and how long they took."""
    since = timing.now() - _MINUTE
    seconds = sorted((one.seconds, one.is_error) for one in history if one.at >= since)
    count = len(seconds)
    return {
        "reconciles": count,
        "errors": sum(is_error for _, is_error in seconds),
        "median": seconds[count // 2][0] if count else None,
        "p95": seconds[min(count * 95 // 100, count - 1)][0] if count else None,
    }


def wall_time(at: float) -> str:
    """The time of day, in UTC, of a moment on the loop's clock; to the millisecond, and the same each time."""
    return _stamp(datetime.fromtimestamp(at + _clock_offset(), UTC))


def _stamp(at: datetime) -> str:
    return at.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _ref_tree(ref: Ref[Any]) -> dict[str, Any]:
    return {"api_version": ref.gvk.api_version, "kind": ref.gvk.kind, "namespace": ref.namespace, "name": ref.name}


_offsets: Final = [0.0]
_OFFSET_NOISE: Final = 0.005


def _clock_offset() -> float:
    """What to add to the loop's clock to get the time of day; reused until one of the clocks was set.

    Two clocks cannot be read at once: without that a moment would be another millisecond from one call to the next.
    """
    now = time.time() - timing.now()
    if abs(now - _offsets[0]) > _OFFSET_NOISE:
        _offsets[0] = now
    return _offsets[0]


def _reconcile_tree(outcome: Outcome[Any]) -> dict[str, Any]:
    return {
        "object": str(outcome.ref),
        "result": outcome.result,
        "reasons": [str(one) for one in outcome.reasons],
        "error": None if outcome.error is None else f"{type(outcome.error).__name__}: {outcome.error}",
        "next": str(outcome.action),
        "attempt": outcome.attempt,
        "seconds": outcome.seconds,
        "waited": outcome.waited,
        "at": wall_time(outcome.at),
        "is_poll": is_poll((one.kind for one in outcome.reasons), outcome.result),
    }
