"""The tools of an agent: where they are, and how they are called, with a limit of time and further tries."""

import asyncio
import http.client
import json
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit, urlunsplit

from levelset_omnia.agent.settings import read_span

__all__ = ["Tool", "ToolFailed", "Tools", "read_tools"]

_LARGEST: Final = 1024 * 1024
_PAUSE: Final = 0.2


class ToolFailed(Exception):
    """A tool did not answer as it should; the words are for whoever talks to the agent."""


@dataclass(frozen=True, slots=True)
class Tool:
    """One tool, as the operator writes it down for its agents."""

    name: str
    endpoint: str
    type: str = "http"
    description: str = ""
    timeout: float = 30.0
    retries: int = 0


def read_tools(folder: Path) -> Mapping[str, Tool]:
    """The tools of `tools.json` in a folder, by name; none if there is no such file. Not for the event loop."""
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
            read_span("timeout", one.get("timeout") or "30s"),
            one.get("retries") or 0,
        )
        for one in written["tools"]
        if one.get("endpoint")
    ]
    return {one.name: one for one in found}


class Tools:
    """Calls tools over HTTP. `resolver` is asked for names of the cluster that this machine does not know."""

    def __init__(self, folder: Path, *, resolver: str = "") -> None:
        self._folder = folder
        self._resolver = resolver

    async def known(self) -> Mapping[str, Tool]:
        """The tools that there are now."""
        return await asyncio.to_thread(read_tools, self._folder)

    async def call(self, name: str, argument: Any) -> Any:
        """What a tool answers; ToolFailed if it is not known, or does not answer after all tries."""
        tool = (await self.known()).get(name)
        if tool is None:
            raise ToolFailed(f"tool {name} is not known; ask for the list of tools")
        if tool.type == "grpc":
            raise ToolFailed(f"tool {name}: this agent calls tools over HTTP, not over gRPC")
        for attempt in range(tool.retries + 1):
            try:
                return await asyncio.to_thread(self._ask, tool, argument)
            except (OSError, http.client.HTTPException, ValueError) as error:
                if attempt == tool.retries:
                    raise ToolFailed(f"tool {name} at {tool.endpoint} does not answer: {error}") from error
                await asyncio.sleep(_PAUSE * 2**attempt)
        raise AssertionError("the last try either answers or fails")

    def _ask(self, tool: Tool, argument: Any) -> Any:
        where = self._resolve(tool.endpoint)
        body = json.dumps(argument).encode()
        request = urllib.request.Request(where, body, {"Content-Type": "application/json"})  # noqa: S310 - checked below
        if urlsplit(where).scheme not in ("http", "https"):
            raise ValueError(f"{where} is no address of HTTP")
        with urllib.request.urlopen(request, timeout=tool.timeout) as answer:  # noqa: S310 - checked above
            text = answer.read(_LARGEST).decode("utf-8", "replace")
        try:
            return json.loads(text)
        except ValueError:
            return text

    def _resolve(self, endpoint: str) -> str:
        """An address with the cluster's name in it, as one that this machine can reach."""
        parts = urlsplit(endpoint)
        host = parts.hostname or ""
        if not self._resolver or not host.endswith(".svc.cluster.local"):
            return endpoint
        with urllib.request.urlopen(f"{self._resolver}?name={host}", timeout=5.0) as answer:  # noqa: S310 - our own plane
            address = json.loads(answer.read(_LARGEST))["address"]
        return urlunsplit(parts._replace(netloc=f"{address}:{parts.port}" if parts.port else address))
