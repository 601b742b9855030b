"""The agent: answers a message with its prompts, the conversation so far, a model and tools."""

import asyncio
import hashlib
import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from levelset.errors import ConfigError
from levelset_omnia.agent.metrics import AgentMetrics
from levelset_omnia.agent.providers import Completion, Provider, ProviderFailed, ToolCall, open_provider
from levelset_omnia.agent.sessions import Sessions, SessionsUnavailable, open_sessions
from levelset_omnia.agent.settings import Settings
from levelset_omnia.agent.tools import ToolFailed, Tools

__all__ = ["Agent", "AgentFailed", "AgentProblem", "Prompts", "Reply"]

_MAX_ROUNDS: Final = 8
"""How often a model may call tools before it has to answer."""
_SYSTEM_PROMPTS: Final = ("system", "system.txt", "system.md")


class AgentFailed(Exception):
    """A message could not be answered; the text is for the client."""


@dataclass(frozen=True, slots=True)
class AgentProblem:
    """What keeps an agent from answering: `part` is `facade`, `session` or `provider`."""

    part: str
    message: str


@dataclass(frozen=True, slots=True)
class Reply:
    """The reply of an agent."""

    agent: str
    session: str
    turn: int
    text: str
    version: str
    prompts: str
    """A short hash of all prompts."""
    tool: str | None = None
    """The tool that was called last."""

    def as_json(self) -> bytes:
        """The reply encoded as JSON."""
        return json.dumps({name: getattr(self, name) for name in self.__slots__}, ensure_ascii=False).encode()


class Agent:
    """Answers messages."""

    def __init__(self, settings: Settings, *, clock: Callable[[], float] = time.monotonic) -> None:
        self.settings = settings
        self.metrics = AgentMetrics(settings)
        self.prompts = Prompts(settings.prompts)
        self.tools = Tools(settings.tools, metrics=self.metrics, resolver=settings.resolver)
        self._sessions: Sessions = open_sessions(settings, clock=clock)
        self._provider: Provider = open_provider(settings)

    async def answer(
        self, text: str, session: str = "default", *, on_text: Callable[[str], None] = lambda _text: None
    ) -> Reply:
        """The reply to one message of a session; `on_text` gets its text piece by piece. Raises AgentFailed."""
        with self.metrics.request():
            try:
                return await self._answer(text, session, on_text)
            except (ProviderFailed, SessionsUnavailable, ConfigError) as error:
                raise AgentFailed(str(error)) from error

    async def problems(self) -> Sequence[AgentProblem]:
        """What keeps it from answering, now; empty if it is ready."""
        found: list[AgentProblem] = []
        if self.settings.facade != "websocket":
            message = f"facade {self.settings.facade}: this agent serves websocket only; choose that in spec.facade"
            found.append(AgentProblem("facade", message))
        problem = await self._provider.problem()
        if problem is not None:
            found.append(AgentProblem("provider", problem))
        try:
            await self._sessions.check()
        except SessionsUnavailable as error:
            found.append(AgentProblem("session", str(error)))
        return found

    async def close(self) -> None:
        """Closes the connections to the provider and the session store."""
        await self._provider.close()
        await self._sessions.close()

    async def _answer(self, text: str, session: str, on_text: Callable[[str], None]) -> Reply:
        prompts = await asyncio.to_thread(self.prompts.read)
        system = next((prompts[name] for name in _SYSTEM_PROMPTS if prompts.get(name)), "")
        before: list[Mapping[str, Any]] = [{"role": "system", "content": system}] if system else []
        history = _from_user(await self._sessions.history(session))
        added: list[Mapping[str, Any]] = [{"role": "user", "content": text}]
        tool: str | None = None
        for _ in range(_MAX_ROUNDS):
            known = await self.tools.known()
            completion = await self._provider.complete([*before, *history, *added], list(known.values()), on_text)
            added.append(_message(completion))
            if not completion.tool_calls:
                break
            tool = completion.tool_calls[-1].name
            added += await asyncio.gather(*(self._call(one) for one in completion.tool_calls))
        else:
            raise ProviderFailed(f"the model called tools {_MAX_ROUNDS} times without an answer")
        turn = await self._sessions.append(session, added)
        settings = self.settings
        return Reply(settings.name, session, turn, completion.text, settings.version, _hash(prompts), tool)

    async def _call(self, call: ToolCall) -> Mapping[str, Any]:
        """The result of a tool as a message for the model; a failure is a result, too, which the model can explain."""
        try:
            answer = await self.tools.call(call.name, json.loads(call.arguments or "{}"))
            text = answer if isinstance(answer, str) else json.dumps(answer, ensure_ascii=False)
        except ValueError as error:
            text = f"{call.arguments!r} is not JSON: {error}"
        except ToolFailed as error:
            text = str(error)
        return {"role": "tool", "tool_call_id": call.id, "content": text}


class Prompts:
    """The prompt files of a mounted ConfigMap, read again when they change.

    A kubelet swaps the folder of a ConfigMap as a whole, so the files always belong together.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._seen: object = None
        self._files: Mapping[str, str] = {}

    def read(self) -> Mapping[str, str]:
        """The current prompts by file name; empty if the folder does not exist. Blocking: call it in a thread."""
        try:
            now = self._stamp()
            if now != self._seen:
                names = sorted(one for one in self._folder.iterdir() if not one.name.startswith("."))
                self._files = {
                    one.name: one.read_text(encoding="utf-8", errors="replace") for one in names if one.is_file()
                }
                self._seen = now
        except FileNotFoundError:
            self._files, self._seen = {}, None
        return self._files

    def _stamp(self) -> object:
        """A value that changes with the files: the target of `..data`, or the modification times."""
        data = self._folder / "..data"
        if data.is_symlink():
            return data.readlink()
        return [(one.name, one.stat().st_mtime_ns) for one in sorted(self._folder.iterdir())]


def _from_user(history: Sequence[Mapping[str, Any]]) -> Sequence[Mapping[str, Any]]:
    """The history from the first message of a user: a store drops the oldest, and a model rejects half of a turn."""
    first = next((at for at, one in enumerate(history) if one["role"] == "user"), len(history))
    return history[first:]


def _message(completion: Completion) -> Mapping[str, Any]:
    calls = [
        {"id": one.id, "type": "function", "function": {"name": one.name, "arguments": one.arguments}}
        for one in completion.tool_calls
    ]
    return {"role": "assistant", "content": completion.text, **({"tool_calls": calls} if calls else {})}


def _hash(prompts: Mapping[str, str]) -> str:
    text = json.dumps(dict(sorted(prompts.items()))).encode()
    return hashlib.sha256(text).hexdigest()[:12]
