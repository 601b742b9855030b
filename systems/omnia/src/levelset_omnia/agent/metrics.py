"""The metrics of an agent, in the names of upstream's: requests, tool calls and open connections."""

from collections.abc import Callable, Generator
from contextlib import contextmanager
from time import monotonic

from levelset.runtime.manager import Counter, Gauge, Histogram, Registry
from levelset_omnia.agent.settings import Settings

__all__ = ["AgentMetrics"]

_LABELS = ["agent", "namespace", "version"]


class AgentMetrics:
    """The metrics of one agent, and the counts that the operator reads to judge a canary."""

    def __init__(self, settings: Settings, *, clock: Callable[[], float] = monotonic) -> None:
        self._clock = clock
        self._values = settings.name, settings.namespace, settings.version
        self.registry = Registry()
        self.requests = 0
        """The requests that ended."""
        self.errors = 0
        """Those of them that failed: the model or the session store did not answer."""
        self._requests = Counter(
            "omnia_agent_requests_total", "Requests that ended.", [*_LABELS, "status"], registry=self.registry
        )
        self._seconds = Histogram(
            "omnia_agent_request_duration_seconds", "Duration of requests.", _LABELS, registry=self.registry
        )
        self._inflight = Gauge(
            "omnia_agent_requests_inflight", "Requests that are being answered.", _LABELS, registry=self.registry
        )
        self._connections = Gauge(
            "omnia_agent_connections_active", "Open conversations.", _LABELS, registry=self.registry
        )
        self._tools = Counter(
            "omnia_agent_tool_calls_total", "Calls of tools.", [*_LABELS, "tool", "status"], registry=self.registry
        )
        # From the first scrape on, so that rates and ratios have a beginning; the tools are only known later.
        for status in ("success", "error"):
            self._requests.labels(*self._values, status)
        for one in (self._seconds, self._inflight, self._connections):
            one.labels(*self._values)

    @contextmanager
    def request(self) -> Generator[None]:
        """Counts one request; an exception is an error, a cancellation (the client went away) is neither."""
        started = self._clock()
        self._inflight.labels(*self._values).inc()
        try:
            yield
        except Exception:
            self.errors += 1
            self._end("error", started)
            raise
        else:
            self._end("success", started)
        finally:
            self._inflight.labels(*self._values).dec()

    @contextmanager
    def tool_call(self, tool: str) -> Generator[None]:
        """Counts one call of a tool, with all of its retries."""
        status = "error"
        try:
            yield
            status = "success"
        finally:
            self._tools.labels(*self._values, tool, status).inc()

    @contextmanager
    def connection(self) -> Generator[None]:
        """Counts one open conversation."""
        gauge = self._connections.labels(*self._values)
        gauge.inc()
        try:
            yield
        finally:
            gauge.dec()

    def _end(self, status: str, started: float) -> None:
        self.requests += 1
        self._requests.labels(*self._values, status).inc()
        self._seconds.labels(*self._values).observe(self._clock() - started)
