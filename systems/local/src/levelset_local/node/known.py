"""What the node knows of a Pod between two looks: its address, and for each container what runs, and how it ended.

Frozen values that only the reconciler replaces. They are also what is kept on disk, so that the next manager finds the
processes that this one has started.
"""

from dataclasses import dataclass, replace
from datetime import datetime

from levelset_machine import Identity

__all__ = ["ContainerKnown", "End", "Failure", "Live", "News", "PodKnown", "Wait"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Wait:
    """Why a container does not run."""

    reason: str
    message: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class End:
    """How a container ended."""

    code: int
    reason: str
    message: str = ""
    container_id: str = ""
    started_at: datetime | None = None
    finished_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Live:
    """A process that runs, and what its hooks and probes have said of it."""

    identity: Identity
    started_at: datetime
    image: str = ""
    """The image it stands for; empty if nobody knows."""
    is_posted: bool = True
    """Whether its postStart hook is through."""
    is_started: bool = True
    """Whether its startup probe has succeeded."""
    is_ready: bool = False
    failing: str = ""
    """Why it has to be ended: its liveness probe, say."""
    failing_grace: int | None = None
    """How long it may take to end then, if that is not what the Pod says."""
    stopping: bool = False
    stopping_within: float | None = None
    """How many seconds it was given."""

    @property
    def container_id(self) -> str:
        """The process, as the status names it."""
        return f"levelset://{self.identity.pid}-{self.identity.started}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerKnown:
    """A container: what runs now, or how it ended, and how the run before that ended."""

    name: str
    live: Live | None = None
    ended: End | None = None
    """How the present run has ended."""
    before: End | None = None
    """How the run before the present one ended."""
    wait: Wait | None = None
    """Why the next run does not start, if something else than time is in its way."""
    restarts: int = 0
    streak: int = 0
    """How many restarts there were without ten minutes of peace between them."""

    @property
    def has_run(self) -> bool:
        """Whether it runs, or has ever run."""
        return self.live is not None or self.ended is not None or self.before is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class News:
    """A warning for people: an Event to be recorded."""

    reason: str
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """Why a whole Pod has failed."""

    reason: str
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PodKnown:
    """A Pod that this node runs."""

    uid: str
    name: str = ""
    namespace: str | None = None
    address: str = ""
    started_at: datetime | None = None
    containers: tuple[ContainerKnown, ...] = ()
    failure: Failure | None = None
    unmounted: str = ""
    """Why its volumes are not there."""
    is_mounted: bool = False
    news: tuple[News, ...] = ()
    """What is to be told as Events."""

    def container(self, name: str) -> ContainerKnown:
        """What is known of a container; nothing, if it was never heard of."""
        return next((one for one in self.containers if one.name == name), ContainerKnown(name=name))

    def with_container(self, changed: ContainerKnown) -> "PodKnown":
        """The same with what is known of one container replaced."""
        if any(one.name == changed.name for one in self.containers):
            kept = tuple(changed if one.name == changed.name else one for one in self.containers)
        else:
            kept = (*self.containers, changed)
        return replace(self, containers=kept)

    @property
    def living(self) -> tuple[ContainerKnown, ...]:
        """The containers that run."""
        return tuple(one for one in self.containers if one.live is not None)
