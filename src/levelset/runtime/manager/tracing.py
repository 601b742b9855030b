"""OpenTelemetry tracing: a span for each reconcile, and inside it one for each request, if the client has the hook.

```python
run(websites, tracing=Tracing())
```

With a manager of your own, `Manager(await Client.connect(hooks=[tracing.hook]), observers=[tracing])` is the same.

Needs the extra `otel`. Spans that a reconcile function starts itself become children of its reconcile.
"""

from collections.abc import Callable
from importlib import import_module
from typing import Any

from levelset.client.transport.interface import Call, Response, Send
from levelset.errors import ConfigError
from levelset.objects.ref import Ref
from levelset.runtime.controller.actions import Outcome
from levelset.runtime.controller.request import Reason

__all__ = ["Tracing"]


class Tracing:
    """An Observer and a client hook that start spans with this tracer, by default the global one."""

    def __init__(self, tracer: Any = None) -> None:
        try:
            self._trace: Any = import_module("opentelemetry.trace")
            self._context: Any = import_module("opentelemetry.context")
        except ImportError as error:
            raise ConfigError("tracing needs OpenTelemetry: install levelset[otel]") from error
        self._tracer: Any = self._trace.get_tracer("levelset") if tracer is None else tracer
        self._open: dict[int, Callable[[Outcome[Any] | None], None]] = {}

    @property
    def tracer(self) -> Any:
        """The tracer that spans are started with."""
        return self._tracer

    def queued(self, name: str, depth: int, /) -> None:
        """Does nothing: a queued request has no span."""

    def started(self, name: str, ref: Ref[Any], reasons: tuple[Reason, ...], /) -> None:
        """Starts the span of a reconcile, and makes it the current one."""
        if (abandoned := self._open.pop(id(ref), None)) is not None:
            abandoned(None)  # it was cancelled, which is not reported
        attributes = {
            "levelset.controller": name,
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
                    self._record_error(span, outcome.error)
            span.end()

        self._open[id(ref)] = end

    def finished(self, name: str, ref: Ref[Any], outcome: Outcome[Any], seconds: float, /) -> None:  # noqa: ARG002
        """Ends the span, with the result as attributes."""
        if (end := self._open.pop(id(ref), None)) is not None:
            end(outcome)

    async def hook(self, call: Call, send: Send) -> Response:
        """A span for one request of a client."""
        attributes = {"http.request.method": call.method, "url.path": call.path, "levelset.verb": call.verb}
        with self._tracer.start_as_current_span(call.words or call.method, attributes=attributes) as span:
            answer = await send(call)
            span.set_attribute("http.response.status_code", answer.status)
            return answer

    def _record_error(self, span: Any, error: Exception) -> None:
        span.record_exception(error)
        span.set_status(self._trace.StatusCode.ERROR, str(error))
