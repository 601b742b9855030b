"""The pages of a running manager for its owner: how it is doing, why it did what it did, and a way to ask for a look.

They are served on the loopback interface to whoever knows the token, which stands in a private file (see `records`).

| page | what it gives |
|---|---|
| `GET /status` | the controllers with their queues and last failures, and the watches |
| `GET /why?kind=&name=[&namespace=]` | the last looks at an object, with reasons and results |
| `POST /trigger?kind=&name=[&namespace=]` | has the object looked at |

What a running manager tells of itself, as plain data: its controllers, its watches, why it looked at an object.
"""

import asyncio
import hmac
import json
import os
import secrets
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

import msgspec

from levelset.client.object_types import View, view_of
from levelset.errors import ApiError, BadName, BadRequest, NotFound
from levelset.http import Request, Response, Server
from levelset.objects.ref import Ref
from levelset.runtime.cache.informer import Stats
from levelset.runtime.controller.actions import Outcome
from levelset.runtime.controller.running_controller import RunningController
from levelset.runtime.manager.process_records import Record, remove_record, write_record

__all__ = ["Admin", "Inside", "ask_for", "looks_of", "report_controllers", "report_watches"]

_ERRORS: Final = 5


def report_controllers(controllers: Mapping[str, RunningController[Any]]) -> Sequence[dict[str, Any]]:
    """Each controller with its numbers and its last failures, newest first."""
    return [
        {**msgspec.to_builtins(one.stats()), "kind": _kind_of(one), "errors": _errors(one.history)}
        for one in controllers.values()
    ]


def report_watches(stats: Iterable[Stats]) -> Sequence[dict[str, Any]]:
    """Each watch with its numbers."""
    return [asdict(one) for one in stats]


def looks_of(
    controllers: Mapping[str, RunningController[Any]], kind: str, name: str, namespace: str | None
) -> Sequence[dict[str, Any]]:
    """The last looks at an object, oldest first, each with its reasons and what came of it.

    The kind may be written as kubectl takes it: `Website`, `website`, `websites` or a short name. Without a namespace
    objects of that name in all namespaces are meant. NotFound, with what there is, if no controller looks at that kind.
    """
    return [
        {"controller": controller.name, **_look(one)}
        for controller in _of_kind(controllers, kind)
        for one in controller.history
        if one.ref.name == name and namespace in {None, one.ref.namespace}
    ]


def ask_for(
    controllers: Mapping[str, RunningController[Any]], kind: str, name: str, namespace: str | None
) -> Sequence[str]:
    """Has the controllers of a kind look at an object; gives their names. NotFound as `looks_of`."""
    asked = _of_kind(controllers, kind)
    for controller in asked:
        gvk = _view(controller).gvk
        try:
            ref: Ref[Any] = Ref(gvk, name, namespace)
        except BadName as error:
            raise NotFound(str(error)) from error
        controller.enqueue(ref, "somebody typed `levelset trigger`")
    return [one.name for one in asked]


def _of_kind(controllers: Mapping[str, RunningController[Any]], kind: str) -> Sequence[RunningController[Any]]:
    found = [one for one in controllers.values() if kind.lower() in _names_of(one)]
    if not found:
        there = ", ".join(sorted({_kind_of(one) for one in controllers.values()})) or "nothing"
        raise NotFound(f"no controller here looks at {kind}; they look at {there}")
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
    return [_look(one) for one in reversed(history) if one.is_error][:_ERRORS]


def _look(outcome: Outcome[Any]) -> dict[str, Any]:
    return {
        "object": str(outcome.ref),
        "result": outcome.result,
        "reasons": [str(one) for one in outcome.reasons],
        "error": None if outcome.error is None else f"{type(outcome.error).__name__}: {outcome.error}",
        "next": str(outcome.action),
        "attempt": outcome.attempt,
        "seconds": outcome.seconds,
        "waited": outcome.waited,
    }


_JSON: Final = (("Content-Type", "application/json"), ("X-Content-Type-Options", "nosniff"))
_SHUTDOWN: Final = 1.0

Page = Callable[[Request], Any]


@dataclass(frozen=True, slots=True)
class Inside:
    """What the pages look at: all of it as it is at the moment of the question."""

    controllers: Callable[[], Mapping[str, RunningController[Any]]]
    watches: Callable[[], Sequence[Stats]]
    is_leader: Callable[[], bool]


class Admin:
    """Serves the pages from `start` to `stop`, and keeps the file by which they are found."""

    def __init__(self, inside: Inside) -> None:
        self._inside = inside
        self._token = secrets.token_urlsafe(32)
        self._server = Server(self.handle)
        self._path: Path | None = None
        self._pages: dict[tuple[str, str], Page] = {
            ("GET", "status"): self._status,
            ("GET", "why"): self._why,
            ("POST", "trigger"): self._trigger,
        }

    @property
    def token(self) -> str:
        """What opens the pages."""
        return self._token

    @property
    def url(self) -> str:
        """Where they are, once they are served."""
        return self._server.url

    async def start(self) -> None:
        """Begins to serve."""
        await self._server.start()

    async def announce(self) -> None:
        """Writes the file by which it is found."""
        record = Record(pid=os.getpid(), url=self._server.url, token=self._token, program=sys.argv[0])
        self._path = await asyncio.to_thread(write_record, record)

    async def stop(self) -> None:
        """Ends, and leaves no file behind."""
        if self._path is not None:
            await asyncio.to_thread(remove_record, self._path)
        await self._server.stop(within=_SHUTDOWN)

    def handle(self, request: Request) -> Response:
        """Answers one request: 401 without the token, whatever is asked."""
        given = request.headers.get("authorization") or ""
        if not hmac.compare_digest(given.encode(), f"Bearer {self._token}".encode()):
            return _answer(401, {"error": "give the token that stands in the manager's file"})
        page = self._pages.get((request.method, "/".join(request.segments)))
        if page is None:
            there = ", ".join(f"{method} /{name}" for method, name in self._pages)
            return _answer(404, {"error": f"there is no such page; ask {there}"})
        try:
            return _answer(200, page(request))
        except ApiError as error:
            return _answer(error.code, {"error": error.message})

    def _status(self, _: Request) -> Any:
        inside = self._inside
        return {
            "pid": os.getpid(),
            "leads": inside.is_leader(),
            "controllers": report_controllers(inside.controllers()),
            "watches": report_watches(inside.watches()),
        }

    def _why(self, request: Request) -> Any:
        return {"looks": looks_of(self._inside.controllers(), *_object_of(request))}

    def _trigger(self, request: Request) -> Any:
        return {"asked": ask_for(self._inside.controllers(), *_object_of(request))}


def _object_of(request: Request) -> tuple[str, str, str | None]:
    kind, name = request.parameter("kind"), request.parameter("name")
    if not kind or not name:
        raise BadRequest("say which object: ?kind=KIND&name=NAME, and &namespace=NAMESPACE if it has one")
    return kind, name, request.parameter("namespace") or None


def _answer(status: int, value: Any) -> Response:
    return Response(status, _JSON, json.dumps(value).encode())
