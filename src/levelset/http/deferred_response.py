"""A response that comes later, delivered without a task."""

import asyncio
import logging
from collections.abc import Callable

from levelset.http.messages import Response

__all__ = ["Deferred", "log"]


log = logging.getLogger(__name__)


class Deferred(asyncio.Future[Response]):
    """A future response; it can be awaited like any future, and cannot be cancelled.

    A task, or the callback of a future, runs one loop iteration after what it waits for. That takes as long as
    responding to a request, so the server registers with `when_settled`, which is called immediately.
    """

    # A tuple, not a list: many of these exist at a time, and containers trigger the garbage collector.
    __slots__ = ("_listeners",)

    def __init__(self) -> None:
        super().__init__()
        self._listeners: tuple[Callable[[Deferred], object], ...] = ()

    def cancel(self, msg: object = None) -> bool:  # noqa: ARG002 - the signature is asyncio's
        """Never cancels: the operation completes whether or not its response is awaited."""
        return False

    def when_settled(self, call: Callable[["Deferred"], object]) -> None:
        """Calls `call` when the response is there, before tasks that await it; at once if it is there already."""
        if self.done():
            call(self)
        else:
            self._listeners = (*self._listeners, call)

    def settle(self, response: Response) -> None:
        """Sets the response."""
        self.set_result(response)
        if self._listeners:
            self._notify()

    def fail(self, error: BaseException) -> None:
        """Sets the error that takes the place of the response."""
        self.set_exception(error)
        if self._listeners:
            self._notify()

    def _notify(self) -> None:
        listeners, self._listeners = self._listeners, ()
        for call in listeners:
            try:
                call(self)
            except Exception:  # one response that cannot be sent must not stop the others of a batch
                log.exception("a response could not be delivered")
