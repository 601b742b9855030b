"""The interface between a client and its transport: `Call`, `Response`, `Transport` and `Hook`.

A `Transport` sends a `Call` to a server and returns the `Response`. Everything between client and transport (retries,
tracing, faults in a test) is a `Hook`: an async function that gets the call and the next function of the chain.
"""

from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import Any, Protocol, final

import msgspec

from levelset.http.messages import Headers

__all__ = [
    "BodyStream",
    "Call",
    "CallCounter",
    "CallCounts",
    "CallTap",
    "Guard",
    "Hook",
    "Response",
    "Send",
    "Transport",
]


class Call(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """One request: `path` and `query` are percent-encoded, `words` describes it in messages (`get Pod/default/web`).

    `timeout` is in seconds, for the whole response; with `is_stream` only for its head, and the body then arrives in
    chunks for as long as the server sends. `verb` is the Kubernetes verb (`list`, `watch`). `about` is the text of
    `words`, or an object that has it as its `str()`: few requests are ever described.
    """

    method: str
    path: str
    query: str = ""
    headers: Mapping[str, str] = {}
    body: bytes = b""
    is_stream: bool = False
    timeout: float = 30.0
    verb: str = ""
    about: object = ""

    @property
    def words(self) -> str:
        """The request in words."""
        return str(self.about)


class BodyStream(Protocol):
    """The chunks of a body as they arrive; Unreachable if it is cut before its end. The reader closes it."""

    def __aiter__(self) -> AsyncIterator[bytes]:
        """The chunks, for one reader."""
        ...

    async def aclose(self) -> None:
        """Ends the body; unread chunks are dropped."""
        ...


class Response(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """One response: the body is complete, or in `stream` if the call is a stream and the status is below 300."""

    status: int
    headers: Headers = Headers()
    body: bytes = b""
    stream: BodyStream | None = None


class Transport(Protocol):
    """Sends calls to one server."""

    async def send(self, call: Call, /) -> Response:
        """The response of the server, whatever its status; Unreachable (or TimedOut) if there is none."""
        ...

    async def aclose(self) -> None:
        """Closes all connections; streams that are still open end with Unreachable."""
        ...


Send = Callable[[Call], Awaitable[Response]]
"""The rest of the chain: the next hook, and finally the transport."""

Hook = Callable[[Call, Send], Awaitable[Response]]
"""Sits between the client and its transport: may change the call, respond itself, raise, or inspect the response."""


class CallTap(Protocol):
    """Sees each call of a client once, outside of all hooks and retries: what the caller sends, and what it gets.

    What it raises reaches the caller; it must be quick.
    """

    def begin_call(self, call: Call, /) -> object | None:
        """A call is about to be sent; a value for `end_call`, or None if the call is of no interest."""
        ...

    def end_call(self, begun: Any, outcome: Response | BaseException, is_plain: bool = False, /) -> None:
        """The call for which `begin_call` returned this has ended, with a response of any status or with an error.

        If it `is_plain` the response is a success without warnings: its headers are of no interest.
        """
        ...

    def discover(self, read: Callable[[], Awaitable[None]], /) -> Awaitable[None]:
        """A task of the caller needs a kind that the REST mapper does not know: awaits `read`, which discovers it."""
        ...


@final
class Guard:
    """A hook that only checks: `check` gets each call before it is sent, and before each retry; it raises to refuse it.

    Like a `CallCounter` it changes neither call nor response. So the client need not go through it as a hook: it runs
    the check before and the counter after the call, which saves a coroutine for each.
    """

    __slots__ = ("check",)

    def __init__(self, check: Callable[[Call], object], /) -> None:
        self.check = check

    async def __call__(self, call: Call, send: Send) -> Response:
        """The response, unchanged."""
        self.check(call)
        return await send(call)


@final
class CallCounter:
    """A hook that only counts calls in `counts`, by status, method and label.

    A call without a response has the status None. Several counters may share their counts.
    """

    __slots__ = ("counts", "label")

    def __init__(self, counts: "CallCounts", label: str = "") -> None:
        self.counts = counts
        self.label = label

    async def __call__(self, call: Call, send: Send) -> Response:
        """The response, after counting it."""
        status: int | None = None
        try:
            response = await send(call)
            status = response.status
            return response
        finally:
            self.add(call, status)

    def add(self, call: Call, status: int | None) -> None:
        """Counts one call."""
        self.counts[status, call.method, self.label] += 1


CallCounts = defaultdict[tuple[int | None, str, str], int]
"""The counts of a CallCounter: numbers of calls, by status, method and label."""
