"""The tools of an agent: reads the tools file, and calls tools over HTTP with timeout and retries."""

import asyncio
import http.client
import json
import urllib.error
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, cast
from urllib.parse import urlsplit

from levelset.errors import ConfigError
from levelset_omnia.agent.metrics import AgentMetrics
from levelset_omnia.agent.service_names import NO_PROXY, resolve
from levelset_omnia.agent.settings import parse_duration

__all__ = ["Tool", "ToolFailed", "Tools", "read_tools"]

_MAX_RESPONSE: Final = 1024 * 1024
_MAX_ERROR: Final = 500
"""The bytes of an error that are passed on."""
_RETRY_DELAY: Final = 0.2
_TRY_LATER: Final = (408, 425, 429)
"""The statuses below 500 of a call that may succeed later."""


class ToolFailed(Exception):
    """A tool could not be called; the message is for the user of the agent."""


@dataclass(frozen=True, slots=True)
class Tool:
    """One tool of the tools file."""

    name: str
    endpoint: str
    type: str = "http"
    description: str = ""
    timeout: float = 30.0
    retries: int = 0
    input: Mapping[str, Any] | None = None
    """The JSON Schema of its argument."""


def read_tools(folder: Path) -> Mapping[str, Tool]:
    """The tools of `tools.json` in a folder by name; empty if it does not exist. Blocking: call it in a thread."""
    try:
        written = json.loads((folder / "tools.json").read_text(encoding="utf-8"))
    except (FileNotFoundError, NotADirectoryError):
        return {}
    found = [
        Tool(
            one["name"],
            one["endpoint"],
            one.get("type", "http"),
            one.get("description") or "",
            parse_duration("timeout", one.get("timeout") or "30s"),
            one.get("retries") or 0,
            _schema(one["name"], one.get("input")),
        )
        for one in written["tools"]
        if one.get("endpoint")
    ]
    return {one.name: one for one in found}


class Tools:
    """Calls tools over HTTP. `resolver` is the URL that resolves Service names where there is no cluster DNS."""

    def __init__(self, folder: Path, *, metrics: AgentMetrics, resolver: str = "") -> None:
        self._folder = folder
        self._metrics = metrics
        self._resolver = resolver

    async def known(self) -> Mapping[str, Tool]:
        """The current tools by name."""
        return await asyncio.to_thread(read_tools, self._folder)

    async def call(self, name: str, argument: Any) -> Any:
        """The response of a tool; raises ToolFailed if it is unknown, or fails after all retries.

        Each attempt has the timeout of the tool, from the connection to the last byte.
        """
        tool = (await self.known()).get(name)
        if tool is None:
            raise ToolFailed(f"tool {name} is not known; GET /tools lists the tools")
        with self._metrics.tool_call(name):
            return await self._call(tool, argument)

    async def _call(self, tool: Tool, argument: Any) -> Any:
        if tool.type == "grpc":
            raise ToolFailed(f"tool {tool.name}: this agent calls tools over HTTP, not over gRPC")
        for attempt in range(tool.retries + 1):
            try:
                async with asyncio.timeout(tool.timeout):
                    url = await resolve(tool.endpoint, self._resolver)
                    return await asyncio.to_thread(self._request, url, tool.timeout, argument)
            except (OSError, http.client.HTTPException, ValueError) as error:
                if attempt == tool.retries or not _is_transient(error):
                    raise ToolFailed(f"tool {tool.name} at {tool.endpoint} {_reason(error, tool)}") from error
                await asyncio.sleep(_RETRY_DELAY * 2**attempt)
        raise AssertionError("the last attempt returns or raises")

    def _request(self, url: str, timeout: float, argument: Any) -> Any:
        body = json.dumps(argument).encode()
        request = urllib.request.Request(url, body, {"Content-Type": "application/json"})  # noqa: S310 - checked below
        if urlsplit(url).scheme not in ("http", "https"):
            raise ValueError(f"{url} is not an HTTP URL")
        # Where a resolver gives addresses of this machine, a proxy of the environment cannot reach them.
        opener = NO_PROXY if self._resolver else urllib.request.build_opener()
        try:
            with opener.open(request, timeout=timeout) as answer:
                text = answer.read(_MAX_RESPONSE).decode("utf-8", "replace")
        except urllib.error.HTTPError as error:
            raise _ErrorStatus(error.code, error.read(_MAX_ERROR).decode("utf-8", "replace").strip()) from error
        try:
            return json.loads(text)
        except ValueError:
            return text


class _ErrorStatus(OSError):
    """A tool answered with an error."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(f"answers {status}: {text}" if text else f"answers {status}")
        self.status = status


def _is_transient(error: Exception) -> bool:
    """Whether the same call may succeed later: not if the tool rejects it."""
    return not isinstance(error, _ErrorStatus) or error.status >= 500 or error.status in _TRY_LATER


def _reason(error: Exception, tool: Tool) -> str:
    if isinstance(error, _ErrorStatus):
        return str(error)
    return f"does not answer: {str(error) or f'no answer within {tool.timeout:g} s'}"


def _schema(tool: str, text: str | None) -> Mapping[str, Any] | None:
    """The JSON Schema of a tool's argument; raises ConfigError if it is not one."""
    if not text:
        return None
    try:
        schema: Any = json.loads(text)
    except ValueError as error:
        raise ConfigError(f"tool {tool}: schema.input is not JSON: {error}") from error
    if not isinstance(schema, dict):
        raise ConfigError(f"tool {tool}: schema.input is not a JSON Schema, which is an object")
    return cast("dict[str, Any]", schema)
