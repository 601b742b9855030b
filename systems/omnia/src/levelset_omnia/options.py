"""Options of the operator: the agents' image, concurrency, retry delays and probe timing."""

import msgspec
from msgspec.structs import force_setattr

from levelset.aio import Backoff
from levelset.errors import ConfigError
from levelset_omnia.well_known import DEFAULT_AGENT_IMAGE

__all__ = ["Options"]


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """The operator's configuration; the defaults are those of Omnia's documentation."""

    agent_image: str = DEFAULT_AGENT_IMAGE
    workers: int = 1
    """How many objects each controller reconciles concurrently; never the same object twice."""
    dependency_seconds: float = 30.0
    """Requeue interval for a missing dependency. It is watched too: this only covers events that a watch has missed."""
    retry_first: float = 5.0
    retry_longest: float = 300.0
    """The first and the longest backoff after a failure, in seconds."""
    drain_seconds: int = 0
    """The preStop delay of an agent's Pod, so that no request is routed to it when it stops."""
    readiness_delay: int = 5
    readiness_period: int = 10
    """Initial delay and period of the readiness probe, in seconds."""
    report_seconds: float = 5.0
    """How often the reports of an agent's Pods are read, while none is ready or a canary is judged by errors."""
    backoff: Backoff = msgspec.field(default_factory=Backoff)
    """Set from `retry_first` and `retry_longest`."""

    def __post_init__(self) -> None:
        if self.workers < 1:
            raise ConfigError(f"workers={self.workers}: at least 1")
        if self.dependency_seconds <= 0:
            raise ConfigError(f"dependency_seconds={self.dependency_seconds}: a number of seconds above 0")
        if not 0 < self.retry_first <= self.retry_longest:
            raise ConfigError(f"retry_first={self.retry_first}: above 0, and at most {self.retry_longest}")
        if not 0 <= self.drain_seconds <= 600:
            raise ConfigError(f"drain_seconds={self.drain_seconds}: 0 to 600")
        if not 0 <= self.readiness_delay <= 600:
            raise ConfigError(f"readiness_delay={self.readiness_delay}: 0 to 600")
        if not 1 <= self.readiness_period <= 600:
            raise ConfigError(f"readiness_period={self.readiness_period}: 1 to 600")
        if self.report_seconds <= 0:
            raise ConfigError(f"report_seconds={self.report_seconds}: a number of seconds above 0")
        if not self.agent_image:
            raise ConfigError("agent_image is empty; name the image that runs agents")
        backoff = Backoff(first=self.retry_first, factor=2.0, cap=self.retry_longest, jitter=0.2, quiet=None)
        force_setattr(self, "backoff", backoff)
