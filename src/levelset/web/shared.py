"""What all the connections of one server share: the application, the limits, one buffer, one clock."""

import asyncio
import logging
from collections.abc import Callable
from typing import Any, Protocol

from levelset.web.failures import Failure, to_status
from levelset.web.heads import HeadWriter, encode_head
from levelset.web.known import KnownHeads
from levelset.web.limits import Limits
from levelset.web.messages import Handler, Response
from levelset.web.reading import Phase
from levelset.web.sinks import Flusher

__all__ = ["Closable", "Shared"]

log = logging.getLogger(__name__)


class Closable(Protocol):
    """A connection, as far as the server has to know it."""

    deadline: float

    def expire(self) -> None:
        """The deadline has passed."""

    def wind_down(self) -> None:
        """The server stops: end what can end now."""

    def hurry(self) -> None:
        """The server stops: wait for the client no longer."""

    def abort(self) -> None:
        """The server stops: end now."""


class Shared:
    """The common ground of the connections of one server."""

    __slots__ = (
        "_emptied", "_on_error", "_tasks", "buffer", "connections", "flusher", "handler", "heads", "is_stopping",
        "known", "limits", "now", "patience",
    )  # fmt: skip

    def __init__(
        self,
        handler: Handler,
        *,
        limits: Limits,
        on_error: Callable[[Failure], Response],
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        self.handler = handler
        self.limits = limits
        self.heads = HeadWriter()
        self.known = KnownHeads(limits)
        self.flusher = Flusher(loop)
        self.buffer = memoryview(bytearray(64 * 1024))
        self.connections: set[Closable] = set()
        # Read with every request, so it is not the real clock but the time of the last sweep.
        self.now = loop.time()
        self.is_stopping = False
        self.patience = {
            Phase.IDLE: limits.idle_within,
            Phase.HEAD: limits.head_within,
            Phase.BODY: limits.body_within,
        }
        self._on_error = on_error
        self._tasks: set[asyncio.Future[Any]] = set()
        self._emptied: asyncio.Future[None] | None = None

    def tell(self, failure: Failure) -> Response:
        """The answer to a failure; if the application's own words fail too, those of Kubernetes."""
        try:
            response = self._on_error(failure)
            encode_head(response.status, response.headers)
            if isinstance(response.body, bytes) and response.status >= 200:
                return response
            log.error("on_error must give a final response with a body of bytes")
        except Exception:
            log.exception("on_error failed")
        return to_status(failure)

    def own(self, task: asyncio.Future[Any]) -> None:
        """Remembers a task until it has ended, so that `stop` leaves none behind."""
        self._tasks.add(task)
        task.add_done_callback(self.release)

    def hold(self, task: asyncio.Future[Any]) -> None:
        """As `own`, for a caller that is told of the end anyway: it calls `release` then."""
        self._tasks.add(task)

    def release(self, task: asyncio.Future[Any]) -> None:
        """Forgets a task that has ended."""
        self._tasks.discard(task)
        self._look_whether_empty()

    def leave(self, connection: Closable) -> None:
        """A connection is closed."""
        self.connections.discard(connection)
        self._look_whether_empty()

    def sweep(self, now: float) -> None:
        """Sets the clock, and expires every connection whose deadline has passed."""
        self.now = now
        for connection in [one for one in self.connections if one.deadline <= now]:
            connection.expire()

    def hurry(self) -> None:
        """Has every connection end that waits for more from its client."""
        for connection in tuple(self.connections):
            connection.hurry()

    async def wait_empty(self) -> None:
        """Waits until no connection and no task is left."""
        if self.connections or self._tasks:
            self._emptied = asyncio.get_running_loop().create_future()
            await self._emptied

    def cut(self) -> None:
        """Cuts every connection, and cancels what still runs."""
        for connection in tuple(self.connections):
            connection.abort()
        for task in tuple(self._tasks):
            task.cancel()

    def _look_whether_empty(self) -> None:
        waiter = self._emptied
        if waiter is not None and not waiter.done() and not self.connections and not self._tasks:
            waiter.set_result(None)
