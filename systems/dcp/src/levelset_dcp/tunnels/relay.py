"""The side of a tunnel on the host: asks the one inside for ports, and leads what comes there to services."""

import asyncio
import contextlib
import json
import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

from levelset.aio import timing
from levelset.errors import LevelsetError
from levelset_dcp.tunnels.client import pipe

__all__ = ["PretendRelay", "Relay", "RelayFailed", "SocketRelay", "Target"]

Target = tuple[str, int]

_ANSWER: Final = 10.0
_TRIES: Final = 50
_PAUSE: Final = 0.2

log = logging.getLogger(__name__)


class RelayFailed(LevelsetError):
    """The side inside of the container cannot be reached, or refuses a port; the words say why."""


class Relay(Protocol):
    """Leads connections out of containers to this machine; a link is one container, known by a key."""

    async def connect(self, key: str, *, control: int, data: int, token: str, lost: Callable[[str], None]) -> None:
        """Connects to the side inside, which has these ports on loopback; `lost` is called if that ends by itself."""
        ...

    async def open(self, key: str, number: int, *, port: int, target: Target) -> int:
        """Has a port listened on inside, 0 for any, and leads it to a target; the port. Raises RelayFailed."""
        ...

    async def close(self, key: str, number: int) -> None:
        """Listens no longer inside; connections that are there go on."""
        ...

    async def disconnect(self, key: str) -> None:
        """Ends a link with everything that goes through it; fine if there is none."""
        ...


@dataclass(eq=False)
class _Link:
    writer: asyncio.StreamWriter
    data: int
    token: str
    targets: dict[int, Target] = field(default_factory=dict[int, Target])
    answers: dict[int, asyncio.Future[int]] = field(default_factory=dict[int, "asyncio.Future[int]"])
    tasks: set[asyncio.Task[None]] = field(default_factory=set[asyncio.Task[None]])


class SocketRelay:
    """Uses real sockets; `close_all` when it is over."""

    def __init__(self) -> None:
        self._links: dict[str, _Link] = {}

    async def connect(self, key: str, *, control: int, data: int, token: str, lost: Callable[[str], None]) -> None:
        """Connects to the side inside, as soon as it listens."""
        await self.disconnect(key)
        reader, writer = await _reach(control)
        writer.write(f"{token}\n".encode())
        link = self._links[key] = _Link(writer, data, token)
        task = asyncio.create_task(self._listen(key, link, reader, lost), name=f"tunnel {key}")
        link.tasks.add(task)
        task.add_done_callback(link.tasks.discard)

    async def open(self, key: str, number: int, *, port: int, target: Target) -> int:
        """Has a port listened on inside."""
        link = self._link(key)
        answer: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        link.answers[number] = answer
        link.targets[number] = target
        link.writer.write(json.dumps({"open": number, "port": port}).encode() + b"\n")
        try:
            async with timing.within(_ANSWER):
                return await answer
        except TimeoutError as error:
            raise RelayFailed(f"no answer from inside of the container within {_ANSWER:g} s") from error
        finally:
            link.answers.pop(number, None)

    async def close(self, key: str, number: int) -> None:
        """Listens no longer inside."""
        link = self._links.get(key)
        if link is not None and link.targets.pop(number, None) is not None:
            link.writer.write(json.dumps({"close": number}).encode() + b"\n")

    async def disconnect(self, key: str) -> None:
        """Ends a link with everything that goes through it."""
        link = self._links.pop(key, None)
        if link is None:
            return
        link.writer.close()
        for task in tuple(link.tasks):
            task.cancel()
        await asyncio.gather(*link.tasks, return_exceptions=True)

    async def close_all(self) -> None:
        """Ends everything."""
        for key in tuple(self._links):
            await self.disconnect(key)

    def _link(self, key: str) -> _Link:
        link = self._links.get(key)
        if link is None:
            raise RelayFailed("there is no connection to the inside of the container")
        return link

    async def _listen(self, key: str, link: _Link, reader: asyncio.StreamReader, lost: Callable[[str], None]) -> None:
        words = "the side inside of the container has ended"
        try:
            while line := await reader.readline():
                self._hear(link, json.loads(line))
        except (OSError, ValueError) as error:
            words = f"the side inside of the container cannot be understood: {error}"
        if self._links.get(key) is link:
            lost(words)

    def _hear(self, link: _Link, said: dict[str, Any]) -> None:
        if "came" in said:
            task = asyncio.create_task(self._join(link, int(said["came"]), int(said["tunnel"])))
            link.tasks.add(task)
            task.add_done_callback(link.tasks.discard)
            return
        answer = link.answers.get(int(said.get("opened", said.get("failed", 0))))
        if answer is None or answer.done():
            return
        if "opened" in said:
            answer.set_result(int(said["port"]))
        else:
            answer.set_exception(RelayFailed(f"the port cannot be listened on: {said.get('why', '')}"))

    async def _join(self, link: _Link, number: int, tunnel: int) -> None:
        """Fetches a connection from inside, and leads it to its target."""
        target = link.targets.get(tunnel)
        if target is None:
            return
        writers: list[asyncio.StreamWriter] = []
        try:
            inner, to_inner = await asyncio.open_connection("127.0.0.1", link.data)
            writers.append(to_inner)
            to_inner.write(f"{link.token} {number}\n".encode())
            outer, to_outer = await asyncio.open_connection(*target)
            writers.append(to_outer)
            await asyncio.gather(pipe(inner, to_outer), pipe(outer, to_inner))
        except OSError as error:
            log.info("a connection out of a container cannot reach %s:%s: %s", *target, error)
        finally:
            for one in writers:
                one.close()


async def _reach(port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """A connection to the side inside, which may need a moment to begin."""
    for left in reversed(range(_TRIES)):
        with contextlib.suppress(OSError):
            return await asyncio.open_connection("127.0.0.1", port)
        if left:
            await timing.sleep(_PAUSE)
    raise RelayFailed(f"the side inside of the container does not listen on its control port, {port} here")


class PretendRelay:
    """Remembers what is led where; ports in `taken` are refused, and `lose` breaks a link."""

    def __init__(self, *, taken: frozenset[int] = frozenset(), is_reachable: bool = True) -> None:
        self.taken = taken
        self.is_reachable = is_reachable
        self.open_ports: dict[tuple[str, int], tuple[int, Target]] = {}
        self._lost: dict[str, Callable[[str], None]] = {}
        self._next = 30_001

    async def connect(self, key: str, *, control: int, data: int, token: str, lost: Callable[[str], None]) -> None:
        """Connects, unless it was told otherwise."""
        del control, data, token
        await timing.sleep(0)
        if not self.is_reachable:
            raise RelayFailed("told not to be reached")
        await self.disconnect(key)
        self._lost[key] = lost

    async def open(self, key: str, number: int, *, port: int, target: Target) -> int:
        """Takes the port, or another one for 0."""
        await timing.sleep(0)
        if key not in self._lost:
            raise RelayFailed("there is no connection to the inside of the container")
        others = {one for (link, other), (one, _) in self.open_ports.items() if link == key and other != number}
        if port in self.taken or port in others:
            raise RelayFailed(f"the port cannot be listened on: {port} is taken")
        if not port:
            port, self._next = self._next, self._next + 1
        self.open_ports[key, number] = (port, target)
        return port

    async def close(self, key: str, number: int) -> None:
        """Gives the port back."""
        self.open_ports.pop((key, number), None)

    async def disconnect(self, key: str) -> None:
        """Ends a link."""
        self._lost.pop(key, None)
        for one in [one for one in self.open_ports if one[0] == key]:
            del self.open_ports[one]

    def lose(self) -> None:
        """Breaks all links."""
        for key, lost in tuple(self._lost.items()):
            del self._lost[key]
            lost("told to be lost")
