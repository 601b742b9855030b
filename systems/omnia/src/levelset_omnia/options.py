"""What the operator may be told: the agents' image, how many objects are looked at at once, and how long it waits."""

from dataclasses import dataclass, field

from levelset import ConfigError
from levelset.aio import Backoff
from levelset_omnia.naming import DEFAULT_AGENT_IMAGE

__all__ = ["Options"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """The operator's configuration, with the values of its documentation."""

    agent_image: str = DEFAULT_AGENT_IMAGE
    workers: int = 1
    """How many objects each controller looks at at once; one object is never looked at twice at a time."""
    dependency_seconds: float = 30.0
    """How long to wait for something that is not there; it is also watched, so this is for what a watch misses."""
    retry_first: float = 5.0
    retry_longest: float = 300.0
    """After how many seconds a failure is tried again: the first time, and at the longest."""
    drain_seconds: int = 0
    """How long an agent's Pod that has to go still serves, so that nobody is sent to it when it stops."""
    readiness_delay: int = 5
    readiness_period: int = 10
    """How many seconds after its start an agent is first asked whether it is ready, and after how many again."""
    backoff: Backoff = field(init=False)

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
        if not self.agent_image:
            raise ConfigError("agent_image is empty; name the image that runs agents")
        growing = Backoff(first=self.retry_first, factor=2.0, cap=self.retry_longest, jitter=0.2, quiet=None)
        object.__setattr__(self, "backoff", growing)
