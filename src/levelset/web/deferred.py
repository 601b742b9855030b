"""An answer that is on its way and comes without a task: who waits for it is called in the moment it is there."""

import asyncio
import logging
from collections.abc import Callable

from levelset.web.messages import Response

__all__ = ["Deferred"]

log = logging.getLogger(__name__)


class Deferred(asyncio.Future[Response]):
    """A response that somebody will settle; it can be awaited as any future, and nothing can call it back.

    A task or the callback of a future comes one turn of the loop after what it waits for. That is as long as answering
    a request takes, so a server that is handed one of these asks to be called at once instead.
    """

    # Small, because many are there at a time: what is held in lists and dicts wakes the garbage collector.
    __slots__ = ("_calls",)

    def __init__(self) -> None:
        super().__init__()
        self._calls: tuple[Callable[[Deferred], object], ...] = ()

    def cancel(self, msg: object = None) -> bool:  # noqa: ARG002 - the signature is asyncio's
        """Refuses: what the answer tells of happens whether anybody listens or not."""
        return False

    def when_settled(self, call: Callable[["Deferred"], object]) -> None:
        """Has `call` called when the answer is there, before anybody who awaits it; at once if it is already."""
        if self.done():
            call(self)
        else:
            self._calls = (*self._calls, call)

    def settle(self, response: Response) -> None:
        """The answer is there."""
        self.set_result(response)
        if self._calls:
            self._tell()

    def fail(self, error: BaseException) -> None:
        """There will be no answer, because of the error."""
        self.set_exception(error)
        if self._calls:
            self._tell()

    def _tell(self) -> None:
        calls, self._calls = self._calls, ()
        for call in calls:
            try:
                call(self)
            except Exception:  # who settles many answers in a row must not stop at the first that cannot be sent
                log.exception("an answer could not be handed on")
