"""Passes UDP packets on to endpoints that come and go, and what is answered back to whoever asked."""

import asyncio
import random
from collections import deque
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, Final, cast

from levelset.aio import timing
from levelset_machine.proxy import why_not
from levelset_machine.proxy_choosing import CannotListen, Choose, Chooser, Endpoint, ProxyStats

__all__ = ["UdpProxy"]

_QUEUED: Final = 20
_IDLE: Final = 120.0
_CLIENTS: Final = 1000


class UdpProxy:
    """Listens, and leads the packets of each client to one of its `endpoints`, over a socket of the client's own.

    - Packets that cannot be passed on yet are queued, 20 for each client; the oldest is dropped.
    - A client that is silent for `idle` seconds is forgotten; so is, of more than 1000, whoever was silent for longest.
    - A client whose endpoint is removed, or refuses, is led to another one with its next packet.
    - With `sticky`, a client is led to the endpoint that its address had within so many seconds.
    """

    def __init__(self, *, choose: Choose = random.choice, sticky: float | None = None, idle: float = _IDLE) -> None:
        self._chooser = Chooser(choose, sticky=sticky)
        self._idle = idle
        self._endpoints: tuple[Endpoint, ...] = ()
        self._doors: list[_Door] = []
        self._streams: dict[_Key, _Stream] = {}
        self._sweeping: asyncio.TimerHandle | None = None
        self._opened = self._dropped = self._failed = 0

    async def listen(self, address: str, port: int = 0) -> int:
        """Listens there, too, and gives the port, which the system chooses for 0; raises CannotListen."""
        loop = asyncio.get_running_loop()
        try:
            transport, door = await loop.create_datagram_endpoint(
                partial(_Door, self._received), local_addr=(address, port)
            )
        except (OSError, OverflowError) as error:
            raise CannotListen(address, port, why_not(error)) from error
        self._doors.append(door)
        found: int = transport.get_extra_info("sockname")[1]
        return found

    @property
    def endpoints(self) -> tuple[Endpoint, ...]:
        """Where packets are led to."""
        return self._endpoints

    @endpoints.setter
    def endpoints(self, endpoints: Iterable[Endpoint]) -> None:
        self._endpoints = tuple(dict.fromkeys(endpoints))
        for stream in tuple(self._streams.values()):
            if stream.endpoint is not None and stream.endpoint not in self._endpoints:
                self._forget(stream)
            elif stream.endpoint is None:
                self._open(stream)

    @property
    def sticky(self) -> float | None:
        """For how many seconds a client is led to the endpoint that it had; None if each choice is new."""
        return self._chooser.sticky

    @sticky.setter
    def sticky(self, seconds: float | None) -> None:
        self._chooser.sticky = seconds

    @property
    def stats(self) -> ProxyStats:
        """How many clients there are, and what became of packets and of others."""
        parked = sum(one.endpoint is None for one in self._streams.values())
        return ProxyStats(len(self._streams), parked, self._opened, self._dropped, self._failed)

    async def close(self) -> None:
        """Listens no longer, and forgets all clients."""
        for door in self._doors:
            door.transport.abort()
        self._doors.clear()
        opening = [one.task for one in self._streams.values() if one.task is not None]
        for stream in tuple(self._streams.values()):
            self._forget(stream)
        if self._sweeping is not None:
            self._sweeping.cancel()
            self._sweeping = None
        await asyncio.gather(*opening, return_exceptions=True)
        await asyncio.sleep(0)  # transports close in the next turn of the loop

    def _received(self, door: "_Door", data: bytes, client: "_Client") -> None:
        key = door, client
        stream = self._streams.pop(key, None)
        if stream is None:
            stream = _Stream(key, self._refused)
            self._opened += 1
        self._streams[key] = stream  # at the end: whoever is at the front was silent for longest
        stream.used = timing.now()
        self._dropped += stream.pass_on(data)
        if stream.endpoint is None:
            self._open(stream)
        if len(self._streams) > _CLIENTS:
            self._forget(next(iter(self._streams.values())))
        if self._sweeping is None:
            self._sweep_later()

    def _open(self, stream: "_Stream") -> None:
        endpoint = self._chooser.pick(self._endpoints, stream.host, now=timing.now())
        if endpoint is None:
            return
        stream.endpoint = endpoint
        self._chooser.note(stream.host, endpoint, now=timing.now())
        stream.task = asyncio.get_running_loop().create_task(self._connect(stream, endpoint), name="proxy/udp")

    async def _connect(self, stream: "_Stream", endpoint: Endpoint) -> None:
        try:
            await asyncio.get_running_loop().create_datagram_endpoint(lambda: stream, remote_addr=endpoint)
        except (OSError, OverflowError):
            self._refused(stream)
        finally:
            stream.task = None

    def _refused(self, stream: "_Stream") -> None:
        self._failed += 1
        self._forget(stream)

    def _forget(self, stream: "_Stream") -> None:
        if self._streams.get(stream.key) is stream:
            del self._streams[stream.key]
        stream.close()

    def _sweep_later(self) -> None:
        self._sweeping = asyncio.get_running_loop().call_later(self._idle / 4, self._sweep)

    def _sweep(self) -> None:
        silent = timing.now() - self._idle
        for stream in tuple(self._streams.values()):
            if stream.used <= silent:
                self._forget(stream)
        self._sweeping = None
        if self._streams:
            self._sweep_later()


_Client = tuple[Any, ...]


class _Door(asyncio.DatagramProtocol):
    """A socket on which clients are listened to."""

    transport: asyncio.DatagramTransport

    def __init__(self, received: "Callable[[_Door, bytes, _Client], None]") -> None:
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


_Key = tuple[_Door, _Client]


class _Stream(asyncio.DatagramProtocol):
    """The packets of one client, and the socket over which they go to its endpoint."""

    def __init__(self, key: _Key, refused: "Callable[[_Stream], None]") -> None:
        self.key = key
        self.endpoint: Endpoint | None = None
        self.task: asyncio.Task[None] | None = None
        self.used = 0.0
        self._refused = refused
        self._transport: asyncio.DatagramTransport | None = None
        self._queue: deque[bytes] = deque(maxlen=_QUEUED)
        self._is_full = False
        self._is_closed = False

    @property
    def host(self) -> str:
        """Where the client is."""
        return str(self.key[1][0])

    def pass_on(self, data: bytes) -> int:
        """Sends a packet, or queues it; gives how many were dropped for it."""
        if self._transport is None:
            is_lost = len(self._queue) == _QUEUED
            self._queue.append(data)
            return int(is_lost)
        if self._is_full:
            return 1
        self._transport.sendto(data)
        return 0

    def close(self) -> None:
        """Closes the socket, or sees to it that it will not be opened."""
        self._is_closed = True
        if self.task is not None:
            self.task.cancel()
        if self._transport is not None:
            self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        made = cast("asyncio.DatagramTransport", transport)
        if self._is_closed:
            made.abort()
            return
        self._transport = made
        while self._queue:
            made.sendto(self._queue.popleft())

    def datagram_received(self, data: bytes, addr: _Client) -> None:  # noqa: ARG002 -- the endpoint's, as connected
        door, client = self.key
        if not (self._is_closed or door.is_full or door.transport.is_closing()):
            self.used = timing.now()
            door.transport.sendto(data, client)

    def error_received(self, exc: Exception) -> None:  # noqa: ARG002 -- nobody is there
        if not self._is_closed:
            self._refused(self)

    def pause_writing(self) -> None:
        self._is_full = True

    def resume_writing(self) -> None:
        self._is_full = False
