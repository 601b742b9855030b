"""The host side of tunnels: controls client proxies, and forwards their connections to services of this machine."""

import asyncio
import contextlib
import json
import logging
from collections.abc import Callable
from typing import Any, Final, Protocol

import msgspec

from levelset.aio import timing
from levelset.errors import LevelsetError
from levelset_dcp.tunnels.client_proxy import pipe

__all__ = ["FakeRelay", "Relay", "RelayFailed", "SocketRelay", "Target"]

Target = tuple[str, int]

_ANSWER_TIMEOUT: Final = 10.0
_ATTEMPTS: Final = 50
_PAUSE: Final = 0.2

log = logging.getLogger(__name__)


class RelayFailed(LevelsetError):
    """The client proxy cannot be reached, or cannot listen on a port; the message says why."""


class Relay(Protocol):
    """Forwards connections from client proxies to this machine; a link to one client proxy is identified by a key."""

    async def connect(self, key: str, *, control: int, data: int, token: str, lost: Callable[[str], None]) -> None:
        """Connects to a client proxy at these loopback ports; `lost` is called if the connection breaks."""
        ...

    async def open(self, key: str, number: int, *, port: int, target: Target) -> int:
        """Opens a port inside, 0 for any, and forwards it to a target; returns the port. Raises RelayFailed."""
        ...

    async def close(self, key: str, number: int) -> None:
        """Closes a port inside; existing connections continue."""
        ...

    async def disconnect(self, key: str) -> None:
        """Closes a link with all its connections; does nothing if there is none."""
        ...


class _Link(msgspec.Struct, eq=False):
    writer: asyncio.StreamWriter
    data: int
    token: str
    targets: dict[int, Target] = msgspec.field(default_factory=dict[int, Target])
    answers: dict[int, asyncio.Future[int]] = msgspec.field(default_factory=dict[int, "asyncio.Future[int]"])
    tasks: set[asyncio.Task[None]] = msgspec.field(default_factory=set[asyncio.Task[None]])


class SocketRelay:
    """A relay over real sockets; call `close_all` in the end."""

    def __init__(self) -> None:
        self._links: dict[str, _Link] = {}

    async def connect(self, key: str, *, control: int, data: int, token: str, lost: Callable[[str], None]) -> None:
        """Connects to a client proxy, as soon as it listens."""
        await self.disconnect(key)
        reader, writer = await _connect_control(control, token)
        link = self._links[key] = _Link(writer, data, token)
        task = asyncio.create_task(self._listen(key, link, reader, lost), name=f"tunnel {key}")
        link.tasks.add(task)
        task.add_done_callback(link.tasks.discard)

    async def open(self, key: str, number: int, *, port: int, target: Target) -> int:
        """Opens a port inside."""
        link = self._link(key)
        answer: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        link.answers[number] = answer
        link.targets[number] = target
        link.writer.write(json.dumps({"open": number, "port": port}).encode() + b"\n")
        try:
            async with timing.within(_ANSWER_TIMEOUT):
                return await answer
        except TimeoutError as error:
            raise RelayFailed(f"the client proxy did not answer within {_ANSWER_TIMEOUT:g} s") from error
        finally:
            link.answers.pop(number, None)

    async def close(self, key: str, number: int) -> None:
        """Closes a port inside."""
        link = self._links.get(key)
        if link is not None and link.targets.pop(number, None) is not None:
            link.writer.write(json.dumps({"close": number}).encode() + b"\n")

    async def disconnect(self, key: str) -> None:
        """Closes a link with all its connections."""
        link = self._links.pop(key, None)
        if link is None:
            return
        link.writer.close()
        for task in tuple(link.tasks):
            task.cancel()
        await asyncio.gather(*link.tasks, return_exceptions=True)

    async def close_all(self) -> None:
        """Closes all links."""
        for key in tuple(self._links):
            await self.disconnect(key)

    def _link(self, key: str) -> _Link:
        link = self._links.get(key)
        if link is None:
            raise RelayFailed("there is no connection to the client proxy")
        return link

    async def _listen(self, key: str, link: _Link, reader: asyncio.StreamReader, lost: Callable[[str], None]) -> None:
        reason = "the client proxy has exited"
        try:
            while line := await reader.readline():
                self._handle(link, json.loads(line))
        except (OSError, ValueError) as error:
            reason = f"invalid message of the client proxy: {error}"
        if self._links.get(key) is link:
            lost(reason)

    def _handle(self, link: _Link, message: dict[str, Any]) -> None:
        if "came" in message:
            task = asyncio.create_task(self._join(link, int(message["came"]), int(message["tunnel"])))
            link.tasks.add(task)
            task.add_done_callback(link.tasks.discard)
            return
        answer = link.answers.get(int(message.get("opened", message.get("failed", 0))))
        if answer is None or answer.done():
            return
        if "opened" in message:
            answer.set_result(int(message["port"]))
        else:
            answer.set_exception(RelayFailed(f"cannot listen on the port: {message.get('why', '')}"))

    async def _join(self, link: _Link, number: int, tunnel: int) -> None:
        """Connects an accepted client connection with its target."""
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
            log.info("tunnel connection to %s:%s failed: %s", *target, error)
        finally:
            for one in writers:
                one.close()


async def _connect_control(port: int, token: str) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """A connection to the control port of a client proxy, which may still be starting.

    The engine may accept a connection to a published port before the proxy listens, and drop it then.
    """
    for left in reversed(range(_ATTEMPTS)):
        with contextlib.suppress(OSError):  # of which TimeoutError is one
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            if await _authenticate(reader, writer, token):
                return reader, writer
        if left:
            await timing.sleep(_PAUSE)
    raise RelayFailed(f"the client proxy does not listen on its control port, which is published on {port}")


async def _authenticate(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, token: str) -> bool:
    """Whether the proxy has answered; raises RelayFailed if it refuses the token, and OSError."""
    line = b""
    try:
        writer.write(f"{token}\n".encode())
        async with timing.within(_ANSWER_TIMEOUT):
            line = await reader.readline()
    finally:
        if b"ready" not in line:
            writer.close()
    if b"refused" in line:
        raise RelayFailed("the client proxy refuses the token")
    return b"ready" in line


class FakeRelay:
    """A relay for tests that only records targets; ports in `taken` fail, and `lose` breaks all links."""

    def __init__(self, *, taken: frozenset[int] = frozenset(), is_reachable: bool = True) -> None:
        self.taken = taken
        self.is_reachable = is_reachable
        self.open_ports: dict[tuple[str, int], tuple[int, Target]] = {}
        self._lost: dict[str, Callable[[str], None]] = {}
        self._next = 30_001

    async def connect(self, key: str, *, control: int, data: int, token: str, lost: Callable[[str], None]) -> None:
        """Connects, unless `is_reachable` is False."""
        del control, data, token
        await timing.sleep(0)
        if not self.is_reachable:
            raise RelayFailed("the client proxy is unreachable")
        await self.disconnect(key)
        self._lost[key] = lost

    async def open(self, key: str, number: int, *, port: int, target: Target) -> int:
        """Opens the port, or another one for 0."""
        await timing.sleep(0)
        if key not in self._lost:
            raise RelayFailed("there is no connection to the client proxy")
        others = {one for (link, other), (one, _) in self.open_ports.items() if link == key and other != number}
        if port in self.taken or port in others:
            raise RelayFailed(f"cannot listen on the port: {port} is taken")
        if not port:
            port, self._next = self._next, self._next + 1
        self.open_ports[key, number] = (port, target)
        return port

    async def close(self, key: str, number: int) -> None:
        """Closes the port."""
        self.open_ports.pop((key, number), None)

    async def disconnect(self, key: str) -> None:
        """Closes a link."""
        self._lost.pop(key, None)
        for one in [one for one in self.open_ports if one[0] == key]:
            del self.open_ports[one]

    def lose(self) -> None:
        """Breaks all links."""
        for key, lost in tuple(self._lost.items()):
            del self._lost[key]
            lost("the link was broken by the test")
