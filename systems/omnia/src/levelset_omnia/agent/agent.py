"""What an agent does with what it is told: prompts, sessions, tools, and a provider that needs no key."""

import asyncio
import hashlib
import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from levelset_omnia.agent.prompts import Prompts
from levelset_omnia.agent.settings import Settings
from levelset_omnia.agent.tools import ToolFailed, Tools

__all__ = ["Agent", "Reply"]

_MOST: Final = 10_000
_TOOL: Final = "/tool "


@dataclass(frozen=True, slots=True)
class Reply:
    """What an agent answers."""

    agent: str
    session: str
    turn: int
    text: str
    version: str
    prompts: str
    """A short mark of all prompts: another one if they have changed."""
    tool: str | None = None

    def as_json(self) -> bytes:
        """As it goes over the wire."""
        return json.dumps({name: getattr(self, name) for name in self.__slots__}, ensure_ascii=False).encode()


@dataclass(slots=True)
class _Session:
    turns: int = 0
    used: float = field(default=0.0)


class Agent:
    """Answers messages. The provider is a mock: it repeats what it was told, in the voice of its system prompt."""

    def __init__(self, settings: Settings, *, clock: Callable[[], float] = time.monotonic) -> None:
        self.settings = settings
        self.prompts = Prompts(settings.prompts)
        self.tools = Tools(settings.tools, resolver=settings.resolver)
        self._clock = clock
        self._sessions: dict[str, _Session] = {}

    async def answer(self, text: str, session: str = "default") -> Reply:
        """The answer to one message of a session; `/tool NAME JSON` has a tool called."""
        prompts = await asyncio.to_thread(self.prompts.read)
        known = self._session(session)
        known.turns += 1
        tool = None
        if text.startswith(_TOOL):
            tool, _, argument = text.removeprefix(_TOOL).partition(" ")
            said = await self._call(tool, argument)
        else:
            said = f"{_voice(prompts)}{text}"
        settings = self.settings
        return Reply(settings.name, session, known.turns, said, settings.version, _mark(prompts), tool)

    async def _call(self, tool: str, argument: str) -> str:
        try:
            value: Any = json.loads(argument) if argument.strip() else {}
        except ValueError as error:
            return f"{argument!r} is no JSON: {error}"
        try:
            answer = await self.tools.call(tool, value)
        except ToolFailed as error:
            return str(error)
        return answer if isinstance(answer, str) else json.dumps(answer, ensure_ascii=False)

    def _session(self, name: str) -> _Session:
        """The session of that name; those that nobody used for a while are forgotten, and the oldest if too many."""
        now = self._clock()
        found = self._sessions.pop(name, None)
        if found is None or now - found.used > self.settings.session_ttl:
            found = _Session()
        found.used = now
        self._sessions[name] = found  # at the end: they stay in the order of their use
        while len(self._sessions) > _MOST or now - next(iter(self._sessions.values())).used > self.settings.session_ttl:
            del self._sessions[next(iter(self._sessions))]
        return found


def _voice(prompts: Mapping[str, str]) -> str:
    """The first line of the system prompt, as the mock speaks with it."""
    written: Any = next((prompts[name] for name in ("system", "system.txt", "system.md") if name in prompts), "")
    first = written.strip().splitlines()[:1]
    return f"[{first[0]}] " if first else ""


def _mark(prompts: Mapping[str, str]) -> str:
    text = json.dumps(dict(sorted(prompts.items()))).encode()
    return hashlib.sha256(text).hexdigest()[:12]
