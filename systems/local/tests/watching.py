"""What tests look at: all that was written, and the Events that were recorded."""

from typing import Any

from levelset import GroupVersionKind
from levelset.kinds.apps_v1 import Deployment, ReplicaSet
from levelset.kinds.batch_v1 import Job
from levelset.kinds.core_v1 import Pod
from levelset.testing import Cluster

__all__ = ["events", "told", "versions"]

EVENT = GroupVersionKind("events.k8s.io", "v1", "Event")


def told(it: Any) -> Any:
    """The status, which is there."""
    assert it.status is not None
    return it.status


async def versions(cluster: Cluster) -> dict[Any, str]:
    """The version of each object; whatever is written changes one."""
    kinds: tuple[Any, ...] = (Deployment, ReplicaSet, Pod, Job)
    return {one.ref: one.metadata.resource_version for kind in kinds for one in await cluster.list(kind)}


async def events(cluster: Cluster, reason: str) -> int:
    """How often something was told."""
    found = [one.tree for one in await cluster.list(EVENT) if one.tree.get("reason") == reason]
    return sum(one.get("series", {}).get("count", 1) for one in found)
