"""The last API requests of reconciles: what the waterfall of a reconcile shows inside of it.

A `CallTap` of the client, attached while a dashboard is served. It notes only requests of reconciles, which it knows by
the context variable that marked workers set; so requests of tasks that a reconcile has started are among them. Those of
the dashboard itself it counts, so that the chart of API requests has those of the program.

If the program traces with an SDK of OpenTelemetry, the spans that its reconciles start themselves are noted with them.
"""

import sys
from collections import deque
from collections.abc import Awaitable, Callable, Iterable
from contextvars import ContextVar
from typing import Any, Final
from weakref import ref

import msgspec

from levelset.aio import timing
from levelset.client.transport.interface import Call, Response
from levelset.runtime.controller.traced_tasks import RECONCILE, RunningReconcile

__all__ = ["IS_OWN", "RequestSpan", "RequestSpans", "note_spans_of", "request_view"]

IS_OWN: Final = ContextVar("IS_OWN", default=False)
"""Whether what runs is a request of the page."""
MOST_REQUESTS: Final = 5_000
"""The requests that are remembered, of all controllers together."""
_READS: Final = frozenset({"GET", "HEAD"})
_OWN: Final = frozenset({"levelset.controller", "levelset.verb"})
"""Attributes of the spans that `Tracing` starts."""


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
    is_request: bool = True
    """Whether it is a request, or else a span that the program has started: its result is empty, or the error."""
    is_write: bool = False
    """Whether it is a request that does more than read."""


class RequestSpans:
    """The last requests of reconciles, oldest first."""

    def __init__(self, most: int = MOST_REQUESTS) -> None:
        self.spans: deque[RequestSpan] = deque(maxlen=most)
        self.clock: Callable[[], float] = timing.now
        """The clock of the loop; one that is quicker to read may be set."""
        self.own = 0
        """How many requests the dashboard has sent."""
        self.is_tracing = False
        """Whether spans of the program are noted."""

    def begin_call(self, call: Call) -> RequestSpan | None:
        """Notes a request of a reconcile."""
        reconcile = RECONCILE.get()
        if reconcile is None or call.is_stream:
            self.own += IS_OWN.get()
            return None
        is_write = call.method not in _READS
        found = RequestSpan(reconcile, call.about or f"{call.method} {call.path}", self.clock(), is_write=is_write)
        self.spans.append(found)
        return found

    def end_call(self, begun: RequestSpan, outcome: Response | BaseException, is_plain: bool = False) -> None:  # noqa: ARG002 -- the protocol's
        """Notes how long it took, and its result."""
        begun.seconds = self.clock() - begun.at
        begun.result = outcome.status if isinstance(outcome, Response) else type(outcome).__name__

    def discover(self, read: Callable[[], Awaitable[None]]) -> Awaitable[None]:
        """Awaits `read`: what a reconcile has to discover is a part of it."""
        return read()

    def begin_span(self, name: str) -> RequestSpan | None:
        """Notes a span that a reconcile has started itself."""
        reconcile = RECONCILE.get()
        if reconcile is None or not self.is_tracing:
            return None
        found = RequestSpan(reconcile, name, self.clock(), result="", is_request=False)
        self.spans.append(found)
        return found

    def by_reconcile(self) -> dict[tuple[str, str], list[RequestSpan]]:
        """The requests of each controller and key."""
        found: dict[tuple[str, str], list[RequestSpan]] = {}
        for one in self.spans:
            found.setdefault((one.reconcile.controller, one.reconcile.key), []).append(one)
        return found


def note_spans_of(tracers: Iterable[Any], spans: RequestSpans) -> None:
    """Has the SDK of these tracers, and of the global one, note the spans of reconciles while `is_tracing` is set.

    Those of levelset's own tracer are left out: the reconcile and its requests are known without them. A processor
    cannot be removed from an SDK, so it holds `spans` no longer than others do.
    """
    api, sdk = sys.modules.get("opentelemetry.trace"), sys.modules.get("opentelemetry.sdk.trace")
    if api is None or sdk is None:
        return
    all_ = (getattr(one, "span_processor", None) for one in (*tracers, api.get_tracer(__name__)))
    processors: set[Any] = {one for one in all_ if one is not None}
    begun: dict[int, RequestSpan] = {}
    noted = ref(spans)

    def start(_: Any, span: Any, parent_context: Any = None) -> None:  # noqa: ARG001 -- the interface's
        here = noted()
        if len(begun) > MOST_REQUESTS:
            begun.clear()  # they have not ended, and are no longer remembered
        is_known = not _OWN.isdisjoint(span.attributes or ())
        if here is not None and not is_known and (found := here.begin_span(str(span.name))) is not None:
            begun[span.get_span_context().span_id] = found

    def end(_: Any, span: Any) -> None:
        found, here = begun.pop(span.get_span_context().span_id, None), noted()
        if found is not None and here is not None:
            found.seconds = here.clock() - found.at
            is_failed = span.status.status_code is api.StatusCode.ERROR
            found.result = (span.status.description or "failed") if is_failed else ""

    processor = type("ReconcileSpans", (sdk.SpanProcessor,), {"on_start": start, "on_end": end})()
    for one in processors:
        one.add_span_processor(processor)


def request_view(span: RequestSpan, due: float, now: float) -> dict[str, Any]:
    """A request as a span of the waterfall; it begins so many seconds after the reconcile was `due`."""
    result = "under way" if span.seconds is None else str(span.result)
    return {
        "name": f"{span.about}"[:300],
        "from": span.at - due,
        "seconds": now - span.at if span.seconds is None else span.seconds,
        "result": result,
        "isFailed": span.seconds is not None and _is_failed(span.result),
    }


def _is_failed(result: int | str) -> bool:
    return bool(result) if isinstance(result, str) else result >= 400
