"""Model providers: an endpoint that speaks OpenAI's chat completions, with streaming, or a mock that needs no key.

`Provider.complete` sends a conversation and the tools to the model. It calls `on_text` with each piece of text as it
arrives, and returns the whole completion: its text, and the tools that the model wants to be called.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Final, Protocol

from levelset.runtime.manager import install_command
from levelset_omnia.agent.service_names import resolve
from levelset_omnia.agent.settings import ProviderSettings, Settings
from levelset_omnia.agent.tools import Tool

__all__ = ["Completion", "MockProvider", "OpenAIProvider", "Provider", "ProviderFailed", "ToolCall", "open_provider"]

_OPENAI: Final = "https://api.openai.com/v1"
_DEFAULT_MODEL: Final = "gpt-4o-mini"
_CONNECT_SECONDS: Final = 5.0
_SILENCE_SECONDS: Final = 60.0
"""The longest time without a piece of the answer: the model may think, but a lost connection must end."""
_MAX_ERROR: Final = 500


class ProviderFailed(Exception):
    """The provider did not answer; the message is for the user of the agent, and has no key."""


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A tool that the model wants to be called; `arguments` is JSON as the model wrote it."""

    id: str
    name: str
    arguments: str


@dataclass(frozen=True, slots=True)
class Completion:
    """One answer of a model."""

    text: str
    tool_calls: tuple[ToolCall, ...] = ()


class Provider(Protocol):
    """A model."""

    async def complete(
        self, messages: Sequence[Mapping[str, Any]], tools: Sequence[Tool], on_text: Callable[[str], None], /
    ) -> Completion:
        """The answer to a conversation; raises ProviderFailed."""
        ...

    async def problem(self) -> str | None:
        """Why it cannot be used; None if it can."""
        ...

    async def close(self) -> None:
        """Closes connections."""
        ...


def open_provider(settings: Settings) -> Provider:
    """The provider that the settings name; one that is not supported has a `problem`."""
    match settings.provider.type:
        case "mock":
            return MockProvider()
        case "openai":
            return OpenAIProvider(settings.provider, resolver=settings.resolver)
        case other:
            return _Unsupported(other)


class MockProvider:
    """Echoes the last message after the first line of the system prompt; `/tool NAME JSON` calls a tool."""

    async def complete(
        self, messages: Sequence[Mapping[str, Any]], _tools: Sequence[Tool], on_text: Callable[[str], None]
    ) -> Completion:
        """The echo, or the call of a tool, or its result."""
        last = messages[-1]
        text = str(last["content"])
        if last["role"] == "user" and text.startswith("/tool "):
            name, _, arguments = text.removeprefix("/tool ").partition(" ")
            return Completion("", (ToolCall("call-1", name, arguments.strip() or "{}"),))
        if last["role"] == "user":
            text = f"{_prefix(messages)}{text}"
        on_text(text)
        return Completion(text)

    async def problem(self) -> str | None:
        """It always answers."""
        return None

    async def close(self) -> None:
        """Nothing is open."""


class OpenAIProvider:
    """A model behind `POST <baseURL>/chat/completions`: OpenAI itself, or any endpoint that speaks its protocol."""

    def __init__(self, settings: ProviderSettings, *, resolver: str = "") -> None:
        self._settings = settings
        self._resolver = resolver
        self._client: Any = None  # of httpx, which is an extra
        self._opening = asyncio.Lock()

    async def complete(
        self, messages: Sequence[Mapping[str, Any]], tools: Sequence[Tool], on_text: Callable[[str], None]
    ) -> Completion:
        """The answer, streamed by server-sent events."""
        httpx = await _load_httpx()
        if httpx is None:
            raise ProviderFailed(_no_httpx())
        answer = _Answer(on_text)
        try:
            async for event in self._events(messages, tools):
                answer.add(event)
        except (httpx.HTTPError, httpx.InvalidURL, OSError) as error:
            reason = str(error) or type(error).__name__
            raise ProviderFailed(f"the model at {self._url} does not answer: {reason}") from error
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise ProviderFailed(f"the model at {self._url} does not speak OpenAI's protocol: {error}") from error
        return answer.completion()

    async def problem(self) -> str | None:
        """What is missing."""
        if await _load_httpx() is None:
            return _no_httpx()
        if not self._settings.key and not self._settings.base_url:
            return "provider openai: no key; put it into the Secret of secretRef, key OPENAI_API_KEY or api-key"
        return None

    async def close(self) -> None:
        """Closes the connections."""
        if self._client is not None:
            await self._client.aclose()

    @property
    def _url(self) -> str:
        return f"{(self._settings.base_url or _OPENAI).rstrip('/')}/chat/completions"

    async def _events(
        self, messages: Sequence[Mapping[str, Any]], tools: Sequence[Tool]
    ) -> AsyncIterator[Mapping[str, Any]]:
        """The decoded events of one answer, until `[DONE]`."""
        client = await self._connected()
        url = await resolve(self._url, self._resolver)
        async with client.stream("POST", url, json=_request(self._settings, messages, tools)) as response:
            if response.status_code != 200:
                body = (await response.aread()).decode("utf-8", "replace")
                raise ProviderFailed(f"the model at {self._url} answers {response.status_code}: {body[:_MAX_ERROR]}")
            async for line in response.aiter_lines():
                data = line.removeprefix("data:").strip() if line.startswith("data:") else ""
                if data == "[DONE]":
                    return
                if data:
                    yield json.loads(data)
        raise ValueError("the answer ended without [DONE]")

    async def _connected(self) -> Any:
        async with self._opening:
            if self._client is not None:
                return self._client
            httpx = await _load_httpx()
            key = self._settings.key
            headers = {"Authorization": f"Bearer {key}"} if key else {}
            timeout = httpx.Timeout(_SILENCE_SECONDS, connect=_CONNECT_SECONDS)
            # In a thread, since it reads the trusted certificates. Proxies of the environment are not for Services.
            self._client = await asyncio.to_thread(
                lambda: httpx.AsyncClient(headers=headers, timeout=timeout, trust_env=not self._resolver)
            )
            return self._client


class _Answer:
    """Collects the events of one answer."""

    def __init__(self, on_text: Callable[[str], None]) -> None:
        self._on_text = on_text
        self._text: list[str] = []
        self._calls: dict[int, dict[str, str]] = {}

    def add(self, event: Mapping[str, Any]) -> None:
        """Adds one event; an error in it raises ProviderFailed."""
        if event.get("error"):
            raise ProviderFailed(f"the model answers with an error: {json.dumps(event['error'])[:_MAX_ERROR]}")
        for choice in event["choices"]:
            delta: Any = choice.get("delta") or {}
            if delta.get("content"):
                self._text.append(delta["content"])
                self._on_text(delta["content"])
            for one in delta.get("tool_calls") or ():
                call = self._calls.setdefault(one["index"], {"id": "", "name": "", "arguments": ""})
                function: Any = one.get("function") or {}
                call["id"] += one.get("id") or ""
                call["name"] += function.get("name") or ""
                call["arguments"] += function.get("arguments") or ""

    def completion(self) -> Completion:
        """The whole answer."""
        calls = (self._calls[index] for index in sorted(self._calls))
        return Completion("".join(self._text), tuple(ToolCall(**one) for one in calls))


class _Unsupported:
    """A provider that this agent does not speak to."""

    def __init__(self, kind: str) -> None:
        self._message = (
            f"provider {kind}: this agent speaks OpenAI's protocol; use type openai with a baseURL that speaks it"
        )

    async def complete(self, *_: object) -> Completion:
        raise ProviderFailed(self._message)

    async def problem(self) -> str | None:
        return self._message

    async def close(self) -> None:
        """Nothing is open."""


def _no_httpx() -> str:
    command = install_command("'levelset-omnia[openai]'")
    return f"provider openai: httpx is not installed; {command}"


async def _load_httpx() -> Any:
    """The module httpx, which is an extra; None if it is not installed. In a thread, since it reads many files."""
    try:
        return await asyncio.to_thread(import_module, "httpx")
    except ImportError:
        return None


def _request(
    settings: ProviderSettings, messages: Sequence[Mapping[str, Any]], tools: Sequence[Tool]
) -> dict[str, Any]:
    tuning = {"temperature": settings.temperature, "top_p": settings.top_p, "max_tokens": settings.max_tokens}
    functions = [{"type": "function", "function": _function(one)} for one in tools]
    return {
        "model": settings.model or _DEFAULT_MODEL,
        "messages": list(messages),
        "stream": True,
        **{name: value for name, value in tuning.items() if value is not None},
        **({"tools": functions} if functions else {}),
    }


def _function(tool: Tool) -> dict[str, Any]:
    return {"name": tool.name, "description": tool.description, "parameters": tool.input or {"type": "object"}}


def _prefix(messages: Sequence[Mapping[str, Any]]) -> str:
    """The first line of the system prompt in brackets; empty without one."""
    system = str(messages[0]["content"]) if messages[0]["role"] == "system" else ""
    first = system.strip().splitlines()[:1]
    return f"[{first[0]}] " if first else ""
