"""What is to be done with a container next, from its spec and from what is known; pure."""

from typing import Literal

from levelset_dcp.checks.containers import container_mode_of
from levelset_dcp.containers.known import ContainerKnown
from levelset_dcp.kinds import Container, ContainerSpec
from levelset_dcp.modes import HABITS, Habits

__all__ = ["Step", "habits_of", "name_of", "plan"]

Step = Literal["rest", "find", "start", "stop", "refuse"]
"""Nothing; ask the engine what is there; start; stop; be told not to start."""


def habits_of(spec: ContainerSpec) -> Habits:
    """What the mode of a container means."""
    return HABITS[container_mode_of(spec)]


def name_of(container: Container) -> str:
    """What the engine calls it: the same each time, so that it is found again."""
    return container.spec.container_name or f"{container.name[:200]}-{container.metadata.uid[:8]}"


def plan(container: Container, known: ContainerKnown) -> Step:
    """The next step of a container that is not being deleted."""
    spec = container.spec
    if known.is_over:
        return "rest"
    if known.state in ("Running", "Paused", "Stopping"):
        return "stop" if spec.stop or known.is_stopping else "rest"
    if not known.is_resolved:
        return "find" if _is_wanted(spec) else "rest"
    if spec.stop:
        return "refuse"
    return "start" if spec.start else "rest"


def _is_wanted(spec: ContainerSpec) -> bool:
    """Whether there is a reason to ask the engine: one that only waits to be started needs none."""
    return spec.start or spec.stop or habits_of(spec).finds
