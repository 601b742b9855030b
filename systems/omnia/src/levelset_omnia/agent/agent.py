"""The sample agent: prompts, sessions, tools, and a mock provider that needs no key."""

import asyncio
import hashlib
import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from levelset_omnia.agent.settings import Settings
from levelset_omnia.agent.tools import ToolFailed, Tools

__all__ = ["Agent", "Prompts", "Reply"]

_MAX_SESSIONS: Final = 10_000
_TOOL_COMMAND: Final = "/tool "


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

    def as_json(self) -> bytes:
        """The reply encoded as JSON."""
        return json.dumps({name: getattr(self, name) for name in self.__slots__}, ensure_ascii=False).encode()


@dataclass(slots=True)
class _Session:
    turns: int = 0
    used: float = field(default=0.0)


class Agent:
    """Answers messages with a mock provider, which echoes the message after the first line of the system prompt."""

    def __init__(self, settings: Settings, *, clock: Callable[[], float] = time.monotonic) -> None:
        self.settings = settings
        self.prompts = Prompts(settings.prompts)
        self.tools = Tools(settings.tools, resolver=settings.resolver)
        self._clock = clock
        self._sessions: dict[str, _Session] = {}

    async def answer(self, text: str, session: str = "default") -> Reply:
        """The reply to one message of a session; `/tool NAME JSON` calls a tool."""
        prompts = await asyncio.to_thread(self.prompts.read)
        state = self._session(session)
        state.turns += 1
        tool = None
        if text.startswith(_TOOL_COMMAND):
            tool, _, argument = text.removeprefix(_TOOL_COMMAND).partition(" ")
            reply = await self._call(tool, argument)
        else:
            reply = f"{_prefix(prompts)}{text}"
        settings = self.settings
        return Reply(settings.name, session, state.turns, reply, settings.version, _hash(prompts), tool)

    async def _call(self, tool: str, argument: str) -> str:
        try:
            value: Any = json.loads(argument) if argument.strip() else {}
        except ValueError as error:
            return f"{argument!r} is not JSON: {error}"
        try:
            answer = await self.tools.call(tool, value)
        except ToolFailed as error:
            return str(error)
        return answer if isinstance(answer, str) else json.dumps(answer, ensure_ascii=False)

    def _session(self, name: str) -> _Session:
        """The session with this name; expired sessions are evicted, and the least recently used beyond the limit."""
        now = self._clock()
        found = self._sessions.pop(name, None)
        if found is None or now - found.used > self.settings.session_ttl:
            found = _Session()
        found.used = now
        self._sessions[name] = found  # moved to the end: the dict is in order of use
        while (
            len(self._sessions) > _MAX_SESSIONS
            or now - next(iter(self._sessions.values())).used > self.settings.session_ttl
        ):
            del self._sessions[next(iter(self._sessions))]
        return found


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


def _prefix(prompts: Mapping[str, str]) -> str:
    """The first line of the system prompt in brackets; empty without one."""
    written: Any = next((prompts[name] for name in ("system", "system.txt", "system.md") if name in prompts), "")
    first = written.strip().splitlines()[:1]
    return f"[{first[0]}] " if first else ""


def _hash(prompts: Mapping[str, str]) -> str:
    text = json.dumps(dict(sorted(prompts.items()))).encode()
    return hashlib.sha256(text).hexdigest()[:12]
