"""Calls and answers as plain values: what a client says to a transport, and what comes back.

A `Transport` carries a `Call` to a server and brings the `Answer`. Everything between the two (retries, tracing, faults
in a test) is a `Hook`: an async function that is given the call and the way on.
"""

from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import Protocol, final

import msgspec

from levelset.http.messages import Headers

__all__ = ["Answer", "Call", "Guard", "Hook", "Pieces", "Send", "Tallied", "Tally", "Transport"]


class Call(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """One request: `path` and `query` are percent-encoded, `words` says it as a person would.

    `timeout` is the number of seconds for the whole answer; with `is_stream`, for the head of the answer only, and the
    body then comes piece by piece for as long as the server sends. `verb` is the Kubernetes verb (`list`, `watch`).
    """

    method: str
    path: str
    query: str = ""
    headers: Mapping[str, str] = {}
    body: bytes = b""
    is_stream: bool = False
    timeout: float = 30.0
    verb: str = ""
    words: str = ""


class Pieces(Protocol):
    """The pieces of a body as they arrive; Unreachable if it is cut before its end. To be closed by who reads it."""

    def __aiter__(self) -> AsyncIterator[bytes]:
        """The pieces, for one reader."""
        ...

    async def aclose(self) -> None:
        """Ends the body; what was not read is dropped."""
        ...


class Answer(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """One answer: the body is whole, or comes in pieces if the call asked for that and the status is below 300."""

    status: int
    headers: Headers = Headers()
    body: bytes = b""
    pieces: Pieces | None = None


class Transport(Protocol):
    """Carries calls to one server."""

    async def send(self, call: Call, /) -> Answer:
        """The server's answer, whatever its status; Unreachable (or TimedOut) if there is none."""
        ...

    async def aclose(self) -> None:
        """Closes all connections; streams that are still open end with Unreachable."""
        ...


Send = Callable[[Call], Awaitable[Answer]]
"""The way on: to the next hook, and at last to the transport."""

Hook = Callable[[Call, Send], Awaitable[Answer]]
"""Stands between the client and its transport: may change the call, answer by itself, raise, or look at the answer."""


@final
class Guard:
    """A hook that only lets pass: `check` is given each call before it goes on, and raises if it must not.

    It is a hook as any other, and so is a `Tally`. Since both leave the way of a call as it is, a client need not go
    through them: it asks the one before and adds to the other afterwards, which spares a coroutine for each.
    """

    __slots__ = ("check",)

    def __init__(self, check: Callable[[Call], object], /) -> None:
        self.check = check

    async def __call__(self, call: Call, send: Send) -> Answer:
        """The answer as it came."""
        self.check(call)
        return await send(call)


@final
class Tally:
    """A hook that only counts: in `counts`, how many calls were answered how, by status, method and label.

    A call without an answer has no status (None). Several tallies may count in the same place.
    """

    __slots__ = ("counts", "label")

    def __init__(self, counts: "Tallied", label: str = "") -> None:
        self.counts = counts
        self.label = label

    async def __call__(self, call: Call, send: Send) -> Answer:
        """The answer as it came, once it was counted."""
        status: int | None = None
        try:
            answer = await send(call)
            status = answer.status
            return answer
        finally:
            self.add(call, status)

    def add(self, call: Call, status: int | None) -> None:
        """Counts one call."""
        self.counts[status, call.method, self.label] += 1


Tallied = defaultdict[tuple[int | None, str, str], int]
"""What a tally counts: numbers of calls, by status, method and label."""
