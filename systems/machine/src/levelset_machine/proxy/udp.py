"""A UDP proxy to endpoints that change; replies go back to the client."""

import asyncio
import random
import socket
from collections import deque
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, Final, cast

from levelset.aio import timing
from levelset_machine.proxy.endpoints import CannotListen, Choose, Endpoint, EndpointPicker, ProxyStats, check_port

__all__ = ["UdpProxy"]

_MAX_QUEUED: Final = 20
_IDLE: Final = 120.0
_MAX_CLIENTS: Final = 1000


class UdpProxy:
    """Listens, and forwards the packets of each client to one of its `endpoints`, over one socket per client.

    - Packets that cannot be forwarded yet are queued, 20 for each client; beyond that the oldest is dropped.
    - A client that is idle for `idle` seconds is forgotten; of more than 1000, the one that was idle for longest.
    - A client whose endpoint is removed, or refuses, gets another one with its next packet.
    - With `sticky`, a client gets the endpoint that its address had within so many seconds.
    """

    def __init__(self, *, choose: Choose = random.choice, sticky: float | None = None, idle: float = _IDLE) -> None:
        self._picker = EndpointPicker(choose, sticky=sticky)
        self._idle = idle
        self._endpoints: tuple[Endpoint, ...] = ()
        self._listeners: list[_Listener] = []
        self._sessions: dict[_Key, _Session] = {}
        self._sweep_timer: asyncio.TimerHandle | None = None
        self._opened = self._dropped = self._failed = 0

    async def listen(self, address: str, port: int = 0) -> int:
        """Listens on one more address, and returns the port, which the system chooses for 0; raises CannotListen."""
        loop = asyncio.get_running_loop()
        check_port(address, port)
        try:
            bound = await _bind(loop, address, port)
        except OSError as error:
            raise CannotListen.of(address, port, error) from error
        transport, listener = await loop.create_datagram_endpoint(partial(_Listener, self._received), sock=bound)
        self._listeners.append(listener)
        found: int = transport.get_extra_info("sockname")[1]
        return found

    @property
    def endpoints(self) -> tuple[Endpoint, ...]:
        """The endpoints for new clients."""
        return self._endpoints

    @endpoints.setter
    def endpoints(self, endpoints: Iterable[Endpoint]) -> None:
        self._endpoints = tuple(dict.fromkeys(endpoints))
        for session in tuple(self._sessions.values()):
            if session.endpoint is not None and session.endpoint not in self._endpoints:
                self._forget(session)
            elif session.endpoint is None:
                self._open(session)

    @property
    def sticky(self) -> float | None:
        """For how many seconds a client keeps its endpoint; None without session affinity."""
        return self._picker.sticky

    @sticky.setter
    def sticky(self, seconds: float | None) -> None:
        self._picker.sticky = seconds

    @property
    def stats(self) -> ProxyStats:
        """Counts of the clients and of dropped packets."""
        parked = sum(one.endpoint is None for one in self._sessions.values())
        return ProxyStats(len(self._sessions), parked, self._opened, self._dropped, self._failed)

    async def close(self) -> None:
        """Stops listening, and closes the sockets of all clients."""
        for listener in self._listeners:
            listener.transport.abort()
        self._listeners.clear()
        opening = [one.task for one in self._sessions.values() if one.task is not None]
        for session in tuple(self._sessions.values()):
            self._forget(session)
        if self._sweep_timer is not None:
            self._sweep_timer.cancel()
            self._sweep_timer = None
        await asyncio.gather(*opening, return_exceptions=True)
        await asyncio.sleep(0)  # transports close in the next iteration of the loop

    def _received(self, listener: "_Listener", data: bytes, client: "_Client") -> None:
        key = listener, client
        session = self._sessions.pop(key, None)
        if session is None:
            session = _Session(key, self._refused)
            self._opened += 1
        self._sessions[key] = session  # moved to the end: the first one was idle for longest
        session.used = timing.now()
        self._dropped += session.forward(data)
        if session.endpoint is None:
            self._open(session)
        if len(self._sessions) > _MAX_CLIENTS:
            self._forget(next(iter(self._sessions.values())))
        if self._sweep_timer is None:
            self._sweep_later()

    def _open(self, session: "_Session") -> None:
        endpoint = self._picker.pick(self._endpoints, session.host, now=timing.now())
        if endpoint is None:
            return
        session.endpoint = endpoint
        self._picker.note(session.host, endpoint, now=timing.now())
        session.task = asyncio.get_running_loop().create_task(self._connect(session, endpoint), name="proxy/udp")

    async def _connect(self, session: "_Session", endpoint: Endpoint) -> None:
        try:
            await asyncio.get_running_loop().create_datagram_endpoint(lambda: session, remote_addr=endpoint)
        except (OSError, OverflowError):
            self._refused(session)
        finally:
            session.task = None

    def _refused(self, session: "_Session") -> None:
        self._failed += 1
        self._forget(session)

    def _forget(self, session: "_Session") -> None:
        if self._sessions.get(session.key) is session:
            del self._sessions[session.key]
        session.close()

    def _sweep_later(self) -> None:
        self._sweep_timer = asyncio.get_running_loop().call_later(self._idle / 4, self._sweep)

    def _sweep(self) -> None:
        limit = timing.now() - self._idle
        for session in tuple(self._sessions.values()):
            if session.used <= limit:
                self._forget(session)
        self._sweep_timer = None
        if self._sessions:
            self._sweep_later()


_Client = tuple[Any, ...]


class _Listener(asyncio.DatagramProtocol):
    """A socket on which packets of clients arrive."""

    transport: asyncio.DatagramTransport

    def __init__(self, received: "Callable[[_Listener, bytes, _Client], None]") -> None:
        self._received = received
        self.is_full = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.DatagramTransport", transport)

    def datagram_received(self, data: bytes, addr: _Client) -> None:
        self._received(self, data, addr)

    def pause_writing(self) -> None:
        self.is_full = True

    def resume_writing(self) -> None:
        self.is_full = False


_Key = tuple[_Listener, _Client]


class _Session(asyncio.DatagramProtocol):
    """One client, and the socket that connects it to its endpoint."""

    def __init__(self, key: _Key, refused: "Callable[[_Session], None]") -> None:
        self.key = key
        self.endpoint: Endpoint | None = None
        self.task: asyncio.Task[None] | None = None
        self.used = 0.0
        self._refused = refused
        self._transport: asyncio.DatagramTransport | None = None
        self._queue: deque[bytes] = deque(maxlen=_MAX_QUEUED)
        self._is_full = False
        self._is_closed = False

    @property
    def host(self) -> str:
        """The address of the client."""
        return str(self.key[1][0])

    def forward(self, data: bytes) -> int:
        """Sends a packet, or queues it; returns how many packets were dropped."""
        if self._transport is None:
            is_lost = len(self._queue) == _MAX_QUEUED
            self._queue.append(data)
            return int(is_lost)
        if self._is_full:
            return 1
        self._transport.sendto(data)
        return 0

    def close(self) -> None:
        """Closes the socket, or prevents it from being opened."""
        self._is_closed = True
        if self.task is not None:
            self.task.cancel()
        if self._transport is not None:
            self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        opened = cast("asyncio.DatagramTransport", transport)
        if self._is_closed:
            opened.abort()
            return
        self._transport = opened
        while self._queue:
            opened.sendto(self._queue.popleft())

    def datagram_received(self, data: bytes, addr: _Client) -> None:  # noqa: ARG002 -- the socket is connected: only its endpoint sends
        listener, client = self.key
        if not (self._is_closed or listener.is_full or listener.transport.is_closing()):
            self.used = timing.now()
            listener.transport.sendto(data, client)

    def error_received(self, exc: Exception) -> None:  # noqa: ARG002 -- the port is closed
        if not self._is_closed:
            self._refused(self)

    def pause_writing(self) -> None:
        self._is_full = True

    def resume_writing(self) -> None:
        self._is_full = False


async def _bind(loop: asyncio.AbstractEventLoop, address: str, port: int) -> socket.socket:
    """A bound socket. The event loops bind too, but uvloop's does not say why it could not."""
    found = await loop.getaddrinfo(address, port, type=socket.SOCK_DGRAM, flags=socket.AI_PASSIVE)
    family, kind, protocol, _, where = found[0]
    made = socket.socket(family, kind, protocol)
    try:
        made.setblocking(False)
        made.bind(where)
    except OSError:
        made.close()
        raise
    return made
