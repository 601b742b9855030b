"""Fair shares: how much one user may have under way at a time, so that nobody keeps the others waiting.

Requests that wait for something count, and so do open watches, apart from them. Whoever has their share is asked to
come again in a second. Masters, and questions about the health of the server, are always answered.

A bound on how much the server does at once: who comes on top of that is asked to come again in a second.
"""

from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from typing import Final

from levelset.apiserver.authn.authenticator import is_public
from levelset.apiserver.authn.users import Caller
from levelset.apiserver.wire.status_errors import status_response
from levelset.errors import TooManyRequests
from levelset.http import Deferred, Handler, Push, Request, Response, Sink, Tunnel

__all__ = ["Flow", "InFlight", "Shares"]

Answer = Response | Awaitable[Response]

_BUSY: Final = "too many requests, please try again later"


@dataclass(frozen=True, slots=True, kw_only=True)
class Shares:
    """The bounds: of all users together, and of each; zero means no bound."""

    in_flight: int = 400
    """Requests of all users that wait for an answer."""
    per_user: int = 100
    """Requests of one user that wait for an answer."""
    watches_per_user: int = 1000
    """Open streams of one user."""


class Flow:
    """Counts what is under way; used from one event loop."""

    __slots__ = ("_shares", "in_flight", "requests", "streams")

    def __init__(self, shares: Shares) -> None:
        self._shares = shares
        self.in_flight = 0
        self.requests: dict[str, int] = {}
        """Requests that wait, by user."""
        self.streams: dict[str, int] = {}
        """Open streams, by user."""

    def run(self, caller: Caller, answer: Callable[[], Answer]) -> Answer:
        """The answer to a request of this caller, counted while it is under way; raises TooManyRequests.

        Who speaks for others pays for them: otherwise a new name would be a new share.
        """
        payer = caller if caller.by is None else caller.by
        if payer.is_master:
            return answer()
        shares, user = self._shares, payer.name
        if shares.per_user and self.requests.get(user, 0) >= shares.per_user:
            raise TooManyRequests(f'{_BUSY}: user "{user}" has {shares.per_user} requests under way', retry_after=1)
        if shares.in_flight and self.in_flight >= shares.in_flight:
            raise TooManyRequests(_BUSY, retry_after=1)
        made = answer()
        return self._streamed(user, made) if isinstance(made, Response) else self._counted(user, made)

    async def _counted(self, user: str, answer: Awaitable[Response]) -> Response:
        self.in_flight += 1
        _add(self.requests, user)
        try:
            response = await answer
        finally:
            self.in_flight -= 1
            _remove(self.requests, user)
        return self._streamed(user, response)

    def _streamed(self, user: str, response: Response) -> Response:
        """The response; if it is a stream, one that counts while it is open."""
        body, upgrade = response.body, response.upgrade
        if isinstance(body, bytes) and upgrade is None:
            return response
        most = self._shares.watches_per_user
        if most and self.streams.get(user, 0) >= most:
            raise TooManyRequests(f'{_BUSY}: user "{user}" has {most} watches open', retry_after=1)
        if upgrade is not None:
            return Response(response.status, response.headers, body, self._tunnel(user, upgrade))
        if isinstance(body, bytes):
            return response
        made = self._push(user, body) if callable(body) else self._iterate(user, body)
        return Response(response.status, response.headers, made)

    def _push(self, user: str, push: Push) -> Push:
        def counted(sink: Sink) -> None:
            _add(self.streams, user)
            sink.when_closed(lambda: _remove(self.streams, user))
            push(sink)

        return counted

    def _tunnel(self, user: str, upgrade: Callable[[Tunnel], None]) -> Callable[[Tunnel], None]:
        def counted(tunnel: Tunnel) -> None:
            _add(self.streams, user)
            tunnel.when_closed(lambda: _remove(self.streams, user))
            upgrade(tunnel)

        return counted

    async def _iterate(self, user: str, body: AsyncIterable[bytes]) -> AsyncIterator[bytes]:
        _add(self.streams, user)
        try:
            async for piece in body:
                yield piece
        finally:
            _remove(self.streams, user)


def _add(counts: dict[str, int], user: str) -> None:
    counts[user] = counts.get(user, 0) + 1


def _remove(counts: dict[str, int], user: str) -> None:
    left = counts[user] - 1
    if left:
        counts[user] = left
    else:
        del counts[user]


_BUSY_RESPONSE: Final = status_response(TooManyRequests("too many requests, please try again later", retry_after=1))


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
            return _BUSY_RESPONSE
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
