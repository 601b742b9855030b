"""The last API requests of reconciles: what the waterfall of a reconcile shows inside of it.

A `CallTap` of the client, attached while a dashboard is served. It notes only requests of reconciles, which it knows by
the context variable that marked workers set; so requests of tasks that a reconcile has started are among them. Those of
the dashboard itself it counts, so that the chart of API requests has those of the program.
"""

from collections import deque
from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from typing import Any, Final

import msgspec

from levelset.aio import timing
from levelset.client.transport.interface import Call, Response
from levelset.runtime.controller.traced_tasks import RECONCILE, RunningReconcile

__all__ = ["IS_OWN", "RequestSpan", "RequestSpans", "request_view"]

IS_OWN: Final = ContextVar("IS_OWN", default=False)
"""Whether what runs is a request of the page."""
MOST_REQUESTS: Final = 5_000
"""The requests that are remembered, of all controllers together."""


class RequestSpan(msgspec.Struct, gc=False):
    """One request of a reconcile: what it was about, when it began on the loop's clock, how long it took."""

    reconcile: RunningReconcile
    about: object
    """The request, or what has its words as its text."""
    at: float
    seconds: float | None = None
    """None while it is under way."""
    result: int | str = 0
    """The status of the response, or the name of the error."""


class RequestSpans:
    """The last requests of reconciles, oldest first."""

    def __init__(self, most: int = MOST_REQUESTS) -> None:
        self.spans: deque[RequestSpan] = deque(maxlen=most)
        self.clock: Callable[[], float] = timing.now
        """The clock of the loop; one that is quicker to read may be set."""
        self.own = 0
        """How many requests the dashboard has sent."""

    def begin_call(self, call: Call) -> RequestSpan | None:
        """Notes a request of a reconcile."""
        reconcile = RECONCILE.get()
        if reconcile is None or call.is_stream:
            self.own += IS_OWN.get()
            return None
        found = RequestSpan(reconcile, call.about or f"{call.method} {call.path}", self.clock())
        self.spans.append(found)
        return found

    def end_call(self, begun: RequestSpan, outcome: Response | BaseException, is_plain: bool = False) -> None:  # noqa: ARG002 -- the protocol's
        """Notes how long it took, and its result."""
        begun.seconds = self.clock() - begun.at
        begun.result = outcome.status if isinstance(outcome, Response) else type(outcome).__name__

    def discover(self, read: Callable[[], Awaitable[None]]) -> Awaitable[None]:
        """Awaits `read`: what a reconcile has to discover is a part of it."""
        return read()

    def by_reconcile(self) -> dict[tuple[str, str], list[RequestSpan]]:
        """The requests of each controller and key."""
        found: dict[tuple[str, str], list[RequestSpan]] = {}
        for one in self.spans:
            found.setdefault((one.reconcile.controller, one.reconcile.key), []).append(one)
        return found


def request_view(span: RequestSpan, due: float, now: float) -> dict[str, Any]:
    """A request as a span of the waterfall; it begins so many seconds after the reconcile was `due`."""
    result = "under way" if span.seconds is None else str(span.result)
    return {
        "name": f"{span.about}"[:300],
        "from": span.at - due,
        "seconds": now - span.at if span.seconds is None else span.seconds,
        "result": result,
        "isFailed": span.seconds is not None and (isinstance(span.result, str) or span.result >= 400),
    }
