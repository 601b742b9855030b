"""How the Pods of an agent are divided between the version that is active and one that is tried.

Traffic goes to all ready Pods of a Service alike, so a share of traffic is a share of Pods. Pods of one side go only
when there are ready ones of the other side in their place: an agent never has fewer than it asks for.
"""

from dataclasses import dataclass

from levelset.kinds.apps_v1 import Deployment

__all__ = ["Arrangement", "arrange", "is_rolled_out", "ready_of", "split"]


@dataclass(frozen=True, slots=True)
class Arrangement:
    """How many Pods each side should have now."""

    stable: int
    candidate: int = 0
    """0 means that there should be none in the end; those that are there stay until the others are ready."""


def split(total: int, weight: int) -> tuple[int, int]:
    """How many Pods of so many go to the candidate, and how many stay; halves go up. One Pod goes at 50 %."""
    candidate = (total * weight + 50) // 100
    return candidate, total - candidate


def arrange(total: int, *, weight: int | None, candidate: Deployment | None) -> Arrangement:
    """The next arrangement, given what is ready of the candidate; without a weight nothing is tried."""
    wanted = 0 if weight is None else split(total, weight)[0]
    return Arrangement(total - min(wanted, ready_of(candidate)), wanted)


def ready_of(deployment: Deployment | None) -> int:
    """How many Pods of the present template are ready."""
    status = None if deployment is None else deployment.status
    if deployment is None or status is None or status.observed_generation < deployment.metadata.generation:
        return 0
    return min(status.updated_replicas, status.ready_replicas)


def is_rolled_out(deployment: Deployment, replicas: int) -> bool:
    """Whether all Pods are of the present template, and available, and there are no others."""
    status = deployment.status
    if status is None or status.observed_generation < deployment.metadata.generation:
        return False
    counts = {status.replicas, status.updated_replicas, status.available_replicas}
    return counts == {replicas}
