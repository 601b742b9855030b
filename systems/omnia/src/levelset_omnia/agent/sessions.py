"""The conversations of an agent: in its memory, or in Redis, where all Pods of the agent share them.

`Sessions.history` has the messages so far, `append` stores those of one turn and returns its number. A store that does
not answer raises SessionsUnavailable, with what to do about it.
"""

import asyncio
import json
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any, Final, Protocol, cast
from urllib.parse import urlsplit

from levelset.runtime.manager import install_command
from levelset_omnia.agent.service_names import resolve
from levelset_omnia.agent.settings import Settings

__all__ = ["MemorySessions", "RedisSessions", "Sessions", "SessionsUnavailable", "open_sessions"]

Message = Mapping[str, Any]
"""One message in the form of OpenAI's chat completions: `role`, `content`, and for tools `tool_calls`."""

_MAX_SESSIONS: Final = 10_000
_MAX_MESSAGES: Final = 200
"""The messages of a session that are kept; what is older no model would read."""
_REDIS_TIMEOUT: Final = 2.0


class SessionsUnavailable(Exception):
    """The session store cannot be used; the message is for the status of the agent."""


class Sessions(Protocol):
    """A store of conversations."""

    async def history(self, name: str, /) -> Sequence[Message]:
        """The messages of a session, oldest first; empty if it is new or expired."""
        ...

    async def append(self, name: str, messages: Sequence[Message], /) -> int:
        """Stores the messages of one turn, and returns its number, from 1."""
        ...

    async def check(self) -> None:
        """Returns if the store answers, otherwise raises SessionsUnavailable."""
        ...

    async def close(self) -> None:
        """Closes connections."""
        ...


def open_sessions(settings: Settings, *, clock: Callable[[], float] = time.monotonic) -> Sessions:
    """The store that the settings name; one that is not supported raises SessionsUnavailable at each use."""
    session = settings.session
    if session.type == "memory":
        return MemorySessions(session.ttl, clock=clock)
    if session.type == "redis" and session.url:
        return RedisSessions(settings)
    if session.type == "redis":
        return _Unavailable("session store redis: there is no URL; put it into the Secret of storeRef, key url")
    return _Unavailable(f"session store {session.type}: this agent stores sessions in memory or in redis")


@dataclass(slots=True)
class _Session:
    turns: int = 0
    used: float = 0.0
    messages: list[Message] = field(default_factory=list[Message])


class MemorySessions:
    """Sessions in this process: each Pod has its own, and they end with it."""

    def __init__(self, ttl: float, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._ttl = ttl
        self._clock = clock
        self._sessions: dict[str, _Session] = {}

    async def history(self, name: str) -> Sequence[Message]:
        """The messages of a session."""
        found = self._sessions.get(name)
        return () if found is None or self._clock() - found.used > self._ttl else tuple(found.messages)

    async def append(self, name: str, messages: Sequence[Message]) -> int:
        """Stores a turn; expired sessions are evicted, and the least recently used beyond the limit."""
        now = self._clock()
        found = self._sessions.pop(name, None)
        if found is None or now - found.used > self._ttl:
            found = _Session()
        found.used, found.turns = now, found.turns + 1
        found.messages = [*found.messages, *messages][-_MAX_MESSAGES:]
        self._sessions[name] = found  # moved to the end: the dict is in order of use
        while len(self._sessions) > _MAX_SESSIONS or now - next(iter(self._sessions.values())).used > self._ttl:
            del self._sessions[next(iter(self._sessions))]
        return found.turns

    async def check(self) -> None:
        """Memory is always there."""

    async def close(self) -> None:
        """Nothing is open."""


class RedisSessions:
    """Sessions in Redis: a list of messages and a counter of turns for each, which expire together."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._redis: Any = None  # a client of redis-py, which is an extra and only partly typed

    async def history(self, name: str) -> Sequence[Message]:
        """The messages of a session."""
        found = await self._with_redis(lambda redis: redis.lrange(self._key(name), 0, -1))
        return [json.loads(one) for one in cast("list[bytes]", found)]

    async def append(self, name: str, messages: Sequence[Message]) -> int:
        """Stores a turn in one transaction, so that turns of two Pods do not mix."""
        key, ttl = self._key(name), max(1, round(self._settings.session.ttl))

        async def store(redis: Any) -> int:
            async with redis.pipeline(transaction=True) as pipeline:
                pipeline.rpush(key, *(json.dumps(one) for one in messages))
                pipeline.ltrim(key, -_MAX_MESSAGES, -1)
                pipeline.expire(key, ttl)
                pipeline.incr(f"{key}:turns")
                pipeline.expire(f"{key}:turns", ttl)
                results = await pipeline.execute()
            return int(results[3])

        turn: int = await self._with_redis(store)
        return turn

    async def check(self) -> None:
        """Pings the server."""
        await self._with_redis(lambda redis: redis.ping())

    async def close(self) -> None:
        """Closes the connections."""
        if self._redis is not None:
            await self._redis.aclose()
            self._redis = None

    def _key(self, name: str) -> str:
        return f"omnia:{self._settings.namespace}:{self._settings.name}:{name}"

    async def _with_redis(self, use: Callable[[Any], Awaitable[Any]]) -> Any:
        """Runs one use of the client; raises SessionsUnavailable with the address, never with the password."""
        try:  # in a thread, since loading a module reads files
            redis: Any = await asyncio.to_thread(import_module, "redis.asyncio")
        except ImportError as error:
            command = install_command("'levelset-omnia[redis]'")
            raise SessionsUnavailable(f"session store redis: redis-py is not installed; {command}") from error
        url = urlsplit(self._settings.session.url)
        place = f"session store redis at {url.hostname}:{url.port or 6379}"
        try:
            if self._redis is None:
                found = await resolve(self._settings.session.url, self._settings.resolver)
                limits = {"socket_timeout": _REDIS_TIMEOUT, "socket_connect_timeout": _REDIS_TIMEOUT}
                self._redis = redis.from_url(found, **limits)
            return await use(self._redis)
        except (redis.RedisError, OSError, ValueError) as error:
            raise SessionsUnavailable(f"{place}: {_reason(error)}; is it running, and is the url right?") from error


class _Unavailable:
    """A store that this agent does not have."""

    def __init__(self, message: str) -> None:
        self._message = message

    async def history(self, _name: str) -> Sequence[Message]:
        raise SessionsUnavailable(self._message)

    async def append(self, _name: str, _messages: Sequence[Message]) -> int:
        raise SessionsUnavailable(self._message)

    async def check(self) -> None:
        raise SessionsUnavailable(self._message)

    async def close(self) -> None:
        """Nothing is open."""


def _reason(error: Exception) -> str:
    return str(error).strip().rstrip(".") or type(error).__name__
