"""Limits on concurrent requests: per user with RBAC (`UserLimiter`), otherwise for the server (`InFlightLimiter`).

Requests in flight and open watches are counted separately. A request beyond a limit gets 429 with `Retry-After: 1`.
Members of `system:masters` and the health endpoints are never limited. Unlike API Priority and Fairness, requests are
not queued.
"""

from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator, Awaitable, Callable
from contextlib import aclosing
from functools import partial
from typing import Final

import msgspec

from levelset.apiserver.authn.authenticator import is_public_path
from levelset.apiserver.authn.users import User
from levelset.apiserver.wire.status_errors import status_response
from levelset.errors import TooManyRequests
from levelset.http import Deferred, Handler, Pieces, Push, Request, Response, Sink, Tunnel, iterate

__all__ = ["InFlightLimiter", "UserLimiter", "UserLimits"]


HandlerResult = Response | Awaitable[Response]
_LARGE_RESPONSE: Final = 256 * 1024
_BUSY: Final = "too many requests, please try again later"
_BUSY_RESPONSE: Final = status_response(TooManyRequests("too many requests, please try again later", retry_after=1))


class UserLimits(msgspec.Struct, frozen=True, kw_only=True):
    """The limits for all users together and for each of them; 0 means no limit."""

    in_flight: int = 400
    """Requests in flight of all users."""
    per_user: int = 100
    """Requests in flight of one user."""
    watches_per_user: int = 1000
    """Open streams of one user."""


class UserLimiter:
    """Counts the requests in flight and the open streams by user; used from one event loop.

    A request with a large response is in flight until the client has read it: it takes memory as long.
    """

    __slots__ = ("_limits", "in_flight", "requests", "streams")

    def __init__(self, limits: UserLimits) -> None:
        self._limits = limits
        self.in_flight = 0
        self.requests: dict[str, int] = {}
        """Requests in flight, by user."""
        self.streams: dict[str, int] = {}
        """Open streams, by user."""

    def run(self, sender: User, handle: Callable[[], HandlerResult]) -> HandlerResult:
        """Runs the request of a user, and counts it while it is in flight; raises TooManyRequests.

        An impersonated request counts for the impersonating user: otherwise every new name would have its own limit.
        """
        limited_user = sender if sender.impersonated_by is None else sender.impersonated_by
        if limited_user.is_master:
            return handle()
        limits, user = self._limits, limited_user.name
        if limits.per_user and self.requests.get(user, 0) >= limits.per_user:
            raise TooManyRequests(f'{_BUSY}: user "{user}" has {limits.per_user} requests in flight', retry_after=1)
        if limits.in_flight and self.in_flight >= limits.in_flight:
            raise TooManyRequests(_BUSY, retry_after=1)
        result = handle()
        return self._streamed(user, result) if isinstance(result, Response) else self._counted(user, result)

    async def _counted(self, user: str, pending: Awaitable[Response]) -> Response:
        self.in_flight += 1
        _add(self.requests, user)
        try:
            response = await pending
        finally:
            self.in_flight -= 1
            _remove(self.requests, user)
        return self._streamed(user, response)

    def _streamed(self, user: str, response: Response) -> Response:
        """Returns the response; if it is a stream, one that is counted while it is open."""
        body, upgrade = response.body, response.upgrade
        if upgrade is None and isinstance(body, bytes | Pieces):
            if isinstance(body, bytes) and len(body) <= _LARGE_RESPONSE:
                return response
            pieces = Pieces(partial(self._count_until_sent, user, body))
            return Response(response.status, response.headers, pieces)
        limit = self._limits.watches_per_user
        if limit and self.streams.get(user, 0) >= limit:
            raise TooManyRequests(f'{_BUSY}: user "{user}" has {limit} watches open', retry_after=1)
        if upgrade is not None:
            return Response(response.status, response.headers, body, self._tunnel(user, upgrade))
        if isinstance(body, bytes):
            return response
        result = self._push(user, body) if callable(body) else self._iterate(user, body)
        return Response(response.status, response.headers, result)

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

    async def _count_until_sent(self, user: str, body: bytes | Pieces) -> AsyncGenerator[bytes, None]:
        self.in_flight += 1
        _add(self.requests, user)
        try:
            async with aclosing(iterate(body)) as pieces:
                async for piece in pieces:
                    yield piece
        finally:
            self.in_flight -= 1
            _remove(self.requests, user)

    async def _iterate(self, user: str, body: AsyncIterable[bytes]) -> AsyncIterator[bytes]:
        _add(self.streams, user)
        try:
            async for piece in body:
                yield piece
        finally:
            _remove(self.streams, user)


class InFlightLimiter:
    """Wraps a handler: responds 429 while `limit` requests of it are in flight; open watches do not count.

    The health endpoints are always served: a busy server is alive.
    """

    __slots__ = ("_handler", "_limit", "in_flight")

    def __init__(self, handler: Handler, limit: int) -> None:
        self._handler = handler
        self._limit = limit
        self.in_flight = 0

    def handle(self, request: Request) -> Response | Awaitable[Response]:
        """Calls the handler, or responds 429 beyond the limit."""
        if self.in_flight >= self._limit and not is_public_path(request.path):
            return _BUSY_RESPONSE
        pending = self._handler(request)
        if isinstance(pending, Response):
            return pending
        if not isinstance(pending, Deferred):
            return self._count(pending)
        self.in_flight += 1
        pending.when_settled(self._settled)
        return pending

    def _settled(self, _: Deferred) -> None:
        self.in_flight -= 1

    async def _count(self, pending: Awaitable[Response]) -> Response:
        self.in_flight += 1
        try:
            return await pending
        finally:
            self.in_flight -= 1


def _add(counts: dict[str, int], user: str) -> None:
    counts[user] = counts.get(user, 0) + 1


def _remove(counts: dict[str, int], user: str) -> None:
    left = counts[user] - 1
    if left:
        counts[user] = left
    else:
        del counts[user]
