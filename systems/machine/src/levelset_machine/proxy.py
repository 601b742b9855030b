"""Passes TCP connections on to endpoints that come and go.

```python
proxy = TcpProxy()
port = await proxy.listen("127.0.0.1", 0)
proxy.endpoints = (("127.96.128.1", 8080), ("127.96.128.2", 8080))
...
await proxy.close()
```
"""

import asyncio
import errno
import random
from collections import deque
from collections.abc import Iterable
from functools import partial
from typing import Any, Final

from levelset.aio import Backoff, timing
from levelset_machine.proxy_choosing import CannotListen, Choose, Chooser, Endpoint, ProxyStats
from levelset_machine.proxy_pipe import Link, Side

__all__ = ["TcpProxy", "why_not"]

_PARKED: Final = 20
_DIAL: Final = 5.0
_RETRY: Final = Backoff(first=0.05, cap=2.0, jitter=0.0, quiet=None)
_CLOSING: Final = 2.0
_BACKLOG: Final = 1024


class TcpProxy:
    """Listens, and leads each connection to one of its `endpoints`, chosen anew each time.

    - While there are none, connections are parked: 20 of them, and 1 MB of what each client has sent; if another one
      comes, the oldest is dropped. They go on as soon as there is an endpoint.
    - An endpoint that does not answer within 5 seconds, or refuses, is left for another one. If all do, they are tried
      again after growing delays, and at once when the endpoints change; after `patience` seconds the client is dropped.
    - A change of the endpoints concerns new connections only: what is under way is finished.
    - With `sticky`, a client is led to the endpoint that it had within so many seconds.
    """

    def __init__(
        self,
        *,
        choose: Choose = random.choice,
        sticky: float | None = None,
        patience: float = 20.0,
        dial: float = _DIAL,
    ) -> None:
        self._chooser = Chooser(choose, sticky=sticky)
        self._patience = patience
        self._dial = dial
        self._endpoints: tuple[Endpoint, ...] = ()
        self._changed = asyncio.Event()
        self._servers: list[asyncio.Server] = []
        self._links: dict[Link, None] = {}
        self._parked: deque[Link] = deque()
        self._opened = self._dropped = self._failed = 0
        self._emptied = asyncio.Event()
        self._is_closed = False

    async def listen(self, address: str, port: int = 0) -> int:
        """Listens there, too, and gives the port, which the system chooses for 0; raises CannotListen."""
        loop = asyncio.get_running_loop()
        try:
            server = await loop.create_server(self._welcome, address, port, backlog=_BACKLOG)
        except (OSError, OverflowError) as error:
            raise CannotListen(address, port, why_not(error)) from error
        self._servers.append(server)
        found: int = server.sockets[0].getsockname()[1]
        return found

    @property
    def endpoints(self) -> tuple[Endpoint, ...]:
        """Where connections are led to."""
        return self._endpoints

    @endpoints.setter
    def endpoints(self, endpoints: Iterable[Endpoint]) -> None:
        self._endpoints = tuple(dict.fromkeys(endpoints))
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()
        if self._endpoints:
            parked, self._parked = self._parked, deque[Link]()
            for link in parked:
                self._start(link)

    @property
    def sticky(self) -> float | None:
        """For how many seconds a client is led to the endpoint that it had; None if each choice is new."""
        return self._chooser.sticky

    @sticky.setter
    def sticky(self, seconds: float | None) -> None:
        self._chooser.sticky = seconds

    @property
    def stats(self) -> ProxyStats:
        """How many connections there are, and what became of the others."""
        return ProxyStats(len(self._links), len(self._parked), self._opened, self._dropped, self._failed)

    async def close(self) -> None:
        """Listens no longer and cuts all connections; returns when they are gone, after 2 seconds at the latest."""
        self._is_closed = True
        for server in self._servers:
            server.close()
        self._servers.clear()
        self._parked.clear()
        leading = [link.task for link in self._links if link.task is not None]
        for link in tuple(self._links):
            self._cut(link)
        try:
            async with timing.within(_CLOSING):
                await asyncio.gather(*leading, return_exceptions=True)
                while self._links:
                    self._emptied.clear()
                    await self._emptied.wait()
        except TimeoutError:
            self._links.clear()  # a closed transport tells so in the next turn of the loop; nothing is left to wait for

    def _welcome(self) -> Side:
        return Link(self._came, self._ended).client

    def _came(self, link: Link) -> None:
        if self._is_closed:
            link.abort()
            return
        self._links[link] = None
        self._opened += 1
        if self._endpoints:
            self._start(link)
        else:
            self._park(link)

    def _park(self, link: Link) -> None:
        self._parked.append(link)
        if len(self._parked) > _PARKED:
            self._dropped += 1
            self._parked.popleft().abort()

    def _start(self, link: Link) -> None:
        task = asyncio.get_running_loop().create_task(self._lead(link), name=f"proxy/{link.host}")
        link.task = task
        task.add_done_callback(partial(self._led, link))

    def _led(self, link: Link, task: "asyncio.Task[None]") -> None:
        link.task = None
        if not task.cancelled() and (error := task.exception()) is not None:
            link.abort()
            context: dict[str, Any] = {"message": "a proxy could not lead a connection on", "exception": error}
            asyncio.get_running_loop().call_exception_handler(context)

    async def _lead(self, link: Link) -> None:
        """Finds an endpoint for a connection; parks it again if there is none any more."""
        delays = _RETRY.delays()
        deadline = timing.now() + self._patience
        while self._endpoints:
            changed = self._changed
            if await self._try_each(link):
                return
            if timing.now() >= deadline:
                self._failed += 1
                link.abort()
                return
            await _wait_set(changed, min(next(delays), deadline - timing.now()))
        self._park(link)

    async def _try_each(self, link: Link) -> bool:
        tried: set[Endpoint] = set()
        loop, host = asyncio.get_running_loop(), link.host
        while True:
            endpoint = self._chooser.pick(self._endpoints, host, now=timing.now(), tried=tried)
            if endpoint is None:
                return False
            tried.add(endpoint)
            try:
                async with timing.within(self._dial):
                    await loop.create_connection(link.side, *endpoint)
            except (OSError, OverflowError):  # a TimeoutError is an OSError
                continue
            self._chooser.note(host, endpoint, now=timing.now())
            return True

    def _ended(self, link: Link) -> None:
        if link.task is not None:
            link.task.cancel()
        if link in self._parked:
            self._parked.remove(link)
        self._links.pop(link, None)
        if not self._links:
            self._emptied.set()

    def _cut(self, link: Link) -> None:
        if link.task is not None:
            link.task.cancel()
        link.abort()


def why_not(error: Exception) -> str:
    """Says in words why nobody can listen on an address and port."""
    match getattr(error, "errno", None):
        case errno.EADDRINUSE:
            return "somebody else listens there; stop that program, or use another port"
        case errno.EACCES:
            return "this needs rights that the process does not have; use a port above 1023"
        case errno.EADDRNOTAVAIL:
            return "this machine does not have the address; use one of 127.0.0.0/8"
        case _:
            return str(error)


async def _wait_set(event: asyncio.Event, seconds: float) -> None:
    try:
        async with timing.within(max(0.0, seconds)):
            await event.wait()
    except TimeoutError:
        return
