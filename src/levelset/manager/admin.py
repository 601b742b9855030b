"""The pages of a running manager for its owner: how it is doing, why it did what it did, and a way to ask for a look.

They are served on the loopback interface to whoever knows the token, which stands in a private file (see `records`).

| page | what it gives |
|---|---|
| `GET /status` | the controllers with their queues and last failures, and the watches |
| `GET /why?kind=&name=[&namespace=]` | the last looks at an object, with reasons and results |
| `POST /trigger?kind=&name=[&namespace=]` | has the object looked at |
"""

import asyncio
import hmac
import json
import os
import secrets
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from levelset.cache.stats import Stats
from levelset.controller.running import RunningController
from levelset.errors import ApiError, BadRequest
from levelset.manager.records import Record, remove_record, write_record
from levelset.manager.reporting import ask_for, looks_of, report_controllers, report_watches
from levelset.web import Request, Response, Server

__all__ = ["Admin", "Inside"]

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
