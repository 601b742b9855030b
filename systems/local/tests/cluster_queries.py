"""Queries of tests: the status of an object, the resource versions of all objects, and recorded Events."""

from typing import Any

from levelset import GroupVersionKind
from levelset.kinds.apps_v1 import ControllerRevision, DaemonSet, Deployment, ReplicaSet, StatefulSet
from levelset.kinds.batch_v1 import Job
from levelset.kinds.core_v1 import Pod
from levelset.testing import Cluster

__all__ = ["events", "status_of", "versions"]

EVENT = GroupVersionKind("events.k8s.io", "v1", "Event")


def status_of(it: Any) -> Any:
    """The status of an object, which must have one."""
    assert it.status is not None
    return it.status


async def versions(cluster: Cluster) -> dict[Any, str]:
    """The resource version of each object; every write changes one."""
    kinds: tuple[Any, ...] = (Deployment, ReplicaSet, StatefulSet, DaemonSet, ControllerRevision, Pod, Job)
    return {one.ref: one.metadata.resource_version for kind in kinds for one in await cluster.list(kind)}


async def events(cluster: Cluster, reason: str) -> int:
    """How often an Event with this reason was recorded."""
    found = [one.tree for one in await cluster.list(EVENT) if one.tree.get("reason") == reason]
    return sum(one.get("series", {}).get("count", 1) for one in found)
