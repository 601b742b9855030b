"""A bound on how much the server does at once: who comes on top of that is asked to come again in a second."""

from collections.abc import Awaitable
from typing import Final

from levelset.apiserver.access import is_public
from levelset.apiserver.statuses import status_response
from levelset.errors import TooManyRequests
from levelset.web import Deferred, Handler, Request, Response

__all__ = ["InFlight"]

_BUSY: Final = status_response(TooManyRequests("too many requests, please try again later", retry_after=1))


class InFlight:
    """A handler that answers 429 while `most` requests wait for another handler; watches do not count as waiting.

    Questions about the health of the server are answered all the same: a busy server is not a dead one.
    """

    __slots__ = ("_handler", "_most", "waiting")

    def __init__(self, handler: Handler, most: int) -> None:
        self._handler = handler
        self._most = most
        self.waiting = 0

    def handle(self, request: Request) -> Response | Awaitable[Response]:
        """As the other handler, within the bound."""
        if self.waiting >= self._most and not is_public(request.path):
            return _BUSY
        answer = self._handler(request)
        if isinstance(answer, Response):
            return answer
        if not isinstance(answer, Deferred):
            return self._count(answer)
        self.waiting += 1
        answer.when_settled(self._settled)
        return answer

    def _settled(self, _: Deferred) -> None:
        self.waiting -= 1

    async def _count(self, answer: Awaitable[Response]) -> Response:
        self.waiting += 1
        try:
            return await answer
        finally:
            self.waiting -= 1
