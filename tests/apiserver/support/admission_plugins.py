"""Admission plugins of this process, and the responses that they give."""

import base64
import json
from collections.abc import Callable
from typing import Any

__all__ = ["RecordingPlugin", "adding", "patching", "rejecting"]


class RecordingPlugin:
    """An admission plugin that records its requests and returns the given response."""

    def __init__(
        self,
        response: Callable[[dict[str, Any]], dict[str, Any]] | None = None,
        *,
        mutates: bool = False,
        name: str = "plugin.example.com",
        plural: str = "widgets",
        version: str = "v1",
        reinvokes: bool = False,
        operations: tuple[str, ...] = ("CREATE", "UPDATE", "DELETE"),
    ) -> None:
        self.name, self.mutates, self.reinvokes = name, mutates, reinvokes
        self.requests: list[dict[str, Any]] = []
        self.namespaces: list[Any] = []
        self._plural, self._version, self._operations = plural, version, operations
        self._respond = response

    def matches(self, operation: str, place: tuple[str, str, str], subresource: str, /) -> bool:
        return operation in self._operations and place[1:] == (self._version, self._plural)

    async def review(self, request: dict[str, Any], space: Any, /) -> dict[str, Any]:
        self.requests.append(json.loads(json.dumps(request)))
        self.namespaces.append(space)
        more = self._respond(request) if self._respond else {}
        return {"uid": request["uid"], "allowed": True, **more}


def patching(*operations: dict[str, Any]) -> Callable[[dict[str, Any]], dict[str, Any]]:
    patch = base64.b64encode(json.dumps(operations).encode()).decode()
    return lambda request: {} if request["object"] is None else {"patch": patch, "patchType": "JSONPatch"}


def adding(path: str, value: Any) -> Callable[[dict[str, Any]], dict[str, Any]]:
    return patching({"op": "add", "path": path, "value": value})


def rejecting(**status: Any) -> Callable[[dict[str, Any]], dict[str, Any]]:
    return lambda _: {"allowed": False, "status": status} if status else {"allowed": False}
