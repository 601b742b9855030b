"""The tools of an agent: reads the tools file, and calls tools over HTTP with timeout and retries."""

import asyncio
import http.client
import json
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit, urlunsplit

from levelset_omnia.agent.settings import parse_duration

__all__ = ["Tool", "ToolFailed", "Tools", "read_tools"]

_MAX_RESPONSE: Final = 1024 * 1024
_RETRY_DELAY: Final = 0.2


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
        )
        for one in written["tools"]
        if one.get("endpoint")
    ]
    return {one.name: one for one in found}


class Tools:
    """Calls tools over HTTP. `resolver` is the URL that resolves Service names where there is no cluster DNS."""

    def __init__(self, folder: Path, *, resolver: str = "") -> None:
        self._folder = folder
        self._resolver = resolver

    async def known(self) -> Mapping[str, Tool]:
        """The current tools by name."""
        return await asyncio.to_thread(read_tools, self._folder)

    async def call(self, name: str, argument: Any) -> Any:
        """The response of a tool; raises ToolFailed if it is unknown, or fails after all retries."""
        tool = (await self.known()).get(name)
        if tool is None:
            raise ToolFailed(f"tool {name} is not known; GET /tools lists the tools")
        if tool.type == "grpc":
            raise ToolFailed(f"tool {name}: this agent calls tools over HTTP, not over gRPC")
        for attempt in range(tool.retries + 1):
            try:
                return await asyncio.to_thread(self._request, tool, argument)
            except (OSError, http.client.HTTPException, ValueError) as error:
                if attempt == tool.retries:
                    raise ToolFailed(f"tool {name} at {tool.endpoint} does not answer: {error}") from error
                await asyncio.sleep(_RETRY_DELAY * 2**attempt)
        raise AssertionError("the last attempt returns or raises")

    def _request(self, tool: Tool, argument: Any) -> Any:
        url = self._resolve(tool.endpoint)
        body = json.dumps(argument).encode()
        request = urllib.request.Request(url, body, {"Content-Type": "application/json"})  # noqa: S310 - checked below
        if urlsplit(url).scheme not in ("http", "https"):
            raise ValueError(f"{url} is not an HTTP URL")
        with urllib.request.urlopen(request, timeout=tool.timeout) as answer:  # noqa: S310 - checked above
            text = answer.read(_MAX_RESPONSE).decode("utf-8", "replace")
        try:
            return json.loads(text)
        except ValueError:
            return text

    def _resolve(self, endpoint: str) -> str:
        """The endpoint with a Service name replaced by its address."""
        parts = urlsplit(endpoint)
        host = parts.hostname or ""
        if not self._resolver or not host.endswith(".svc.cluster.local"):
            return endpoint
        with urllib.request.urlopen(f"{self._resolver}?name={host}", timeout=5.0) as answer:  # noqa: S310 - our own
            address = json.loads(answer.read(_MAX_RESPONSE))["address"]
        return urlunsplit(parts._replace(netloc=f"{address}:{parts.port}" if parts.port else address))
