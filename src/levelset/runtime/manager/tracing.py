"""Spans for OpenTelemetry: one for each reconcile, and inside it one for each request, if the client is hooked.

```python
tracing = Tracing()
manager = Manager(client.hooked(tracing.hook), observers=[tracing])
```

Needs the extra `otel`. What a reconciler traces itself becomes a child of its reconcile.
"""

from collections.abc import Callable
from importlib import import_module
from typing import Any

from levelset.client.transport.interface import Answer, Call, Send
from levelset.errors import ConfigError
from levelset.objects.ref import Ref
from levelset.runtime.controller.actions import Outcome
from levelset.runtime.controller.request import Reason

__all__ = ["Tracing"]


class Tracing:
    """An Observer, and a hook for clients, that write spans with this tracer, or with that of the program."""

    def __init__(self, tracer: Any = None) -> None:
        try:
            self._trace: Any = import_module("opentelemetry.trace")
            self._context: Any = import_module("opentelemetry.context")
        except ImportError as error:
            raise ConfigError("tracing needs OpenTelemetry: install levelset[otel]") from error
        self._tracer: Any = self._trace.get_tracer("levelset") if tracer is None else tracer
        self._open: dict[int, Callable[[Outcome[Any] | None], None]] = {}

    def queued(self, name: str, depth: int, /) -> None:
        """Nothing: what waits has no span."""

    def started(self, name: str, ref: Ref[Any], reasons: tuple[Reason, ...], /) -> None:
        """Begins the span of a reconcile, and makes it the current one."""
        if (abandoned := self._open.pop(id(ref), None)) is not None:
            abandoned(None)  # it was cancelled, and nobody says so
        attributes = {
            "levelset.runtime.controller": name,
            "levelset.ref": str(ref),
            "levelset.reasons": [str(reason) for reason in reasons],
        }
        span = self._tracer.start_span(f"reconcile {name}", attributes=attributes)
        token = self._context.attach(self._trace.set_span_in_context(span))

        def end(outcome: Outcome[Any] | None) -> None:
            if outcome is not None:
                self._context.detach(token)
                span.set_attribute("levelset.result", outcome.result)
                span.set_attribute("levelset.attempt", outcome.attempt)
                if outcome.error is not None and outcome.is_error:
                    self._blame(span, outcome.error)
            span.end()

        self._open[id(ref)] = end

    def finished(self, name: str, ref: Ref[Any], outcome: Outcome[Any], seconds: float, /) -> None:  # noqa: ARG002
        """Ends the span, with what came of it."""
        if (end := self._open.pop(id(ref), None)) is not None:
            end(outcome)

    async def hook(self, call: Call, send: Send) -> Answer:
        """A span for one request of a client."""
        attributes = {"http.request.method": call.method, "url.path": call.path, "levelset.verb": call.verb}
        with self._tracer.start_as_current_span(call.words or call.method, attributes=attributes) as span:
            answer = await send(call)
            span.set_attribute("http.response.status_code", answer.status)
            return answer

    def _blame(self, span: Any, error: Exception) -> None:
        span.record_exception(error)
        span.set_status(self._trace.StatusCode.ERROR, str(error))
