"""Whether and when a container that has ended runs again: its policy, and a back-off that doubles until there is peace.

The first restart comes at once, as with a kubelet; the next after 10 seconds, 20, 40, and so on to five minutes. A run
of ten minutes starts the count anew.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta

from levelset.kinds.core_v1 import Container, Pod
from levelset_local.node.known import ContainerKnown

__all__ = ["Restarts", "is_sidecar", "restarts_again", "roles"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Restarts:
    """How long a container that ends again and again waits."""

    first: float = 10.0
    most: float = 300.0
    peace: float = 600.0
    """A run of so many seconds is forgiven what was before."""

    def streak(self, known: ContainerKnown) -> int:
        """How many restarts count."""
        end = known.ended
        if end is None or end.started_at is None or end.finished_at is None:
            return known.streak
        return 0 if end.finished_at - end.started_at >= timedelta(seconds=self.peace) else known.streak

    def delay(self, known: ContainerKnown) -> float:
        """How many seconds after its end a container runs again."""
        streak = self.streak(known)
        return 0.0 if streak == 0 else min(self.first * 2.0 ** min(streak - 1, 32), self.most)

    def due(self, known: ContainerKnown) -> datetime | None:
        """When a container that has ended may run again; None if it may at once."""
        delay = self.delay(known)
        finished = None if known.ended is None else known.ended.finished_at
        return None if delay == 0.0 or finished is None else finished + timedelta(seconds=delay)


def is_sidecar(container: Container) -> bool:
    """Whether an init container is one that runs beside the others."""
    return container.restart_policy == "Always"


def restarts_again(pod: Pod, container: Container, known: ContainerKnown) -> bool:
    """Whether a container that has ended is to run again."""
    if known.ended is None:
        return False
    policy = container.restart_policy or pod.spec.restart_policy or "Always"
    is_init = any(one.name == container.name for one in pod.spec.init_containers)
    if is_init and not is_sidecar(container):
        return known.ended.code != 0 and policy != "Never"
    return policy == "Always" or (policy == "OnFailure" and known.ended.code != 0)


def roles(pod: Pod) -> tuple[tuple[Container, ...], tuple[Container, ...]]:
    """The sidecars of a Pod, and its containers."""
    return tuple(one for one in pod.spec.init_containers if is_sidecar(one)), pod.spec.containers
