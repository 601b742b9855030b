"""Sample objects for tests of workload controllers."""

from datetime import datetime
from typing import Any, cast

from levelset import ObjectMeta
from levelset.kinds.apps_v1 import Deployment, ReplicaSet
from levelset.kinds.batch_v1 import Job
from levelset.kinds.core_v1 import (
    ContainerState,
    ContainerStateTerminated,
    ContainerStatus,
    Pod,
    PodCondition,
    PodSpec,
    PodStatus,
)
from levelset.objects import from_tree
from levelset.testing import START

__all__ = ["deployment", "job", "pod", "replica_set"]


def deployment(name: str = "web", *, replicas: int | None = 3, image: str = "web:1", **spec: Any) -> Deployment:
    labels = {"app": name}
    tree = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels},
                "spec": {"containers": [{"name": "main", "image": image}]},
            },
            **spec,
        },
    }
    return from_tree(Deployment, tree)


def job(name: str = "sum", *, restart: str = "Never", annotations: dict[str, str] | None = None, **spec: Any) -> Job:
    tree = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name},
        "spec": {
            "template": {
                "metadata": {"annotations": annotations or {}},
                "spec": {"restartPolicy": restart, "containers": [{"name": "main", "image": "sum:1"}]},
            },
            **spec,
        },
    }
    return from_tree(Job, tree)


def replica_set(
    name: str = "web-1", *, replicas: int = 1, min_ready: int = 0, generation: int = 1, deleted: datetime | None = None
) -> ReplicaSet:
    labels = {"app": "web"}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "main", "image": "web:1"}]}}
    selector = {"matchLabels": labels}
    spec = {"replicas": replicas, "minReadySeconds": min_ready, "selector": selector, "template": template}
    made = from_tree(
        ReplicaSet, {"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {"name": name}, "spec": spec}
    )
    return made.with_metadata(
        uid=f"uid-{name}", namespace="test", labels=labels, generation=generation, deletion_timestamp=deleted
    )


def pod(
    name: str,
    *,
    phase: str = "Running",
    node: str | None = "local",
    ready: datetime | None = None,
    deleted: datetime | None = None,
    created: datetime | None = None,
    restarts: int = 0,
    exit_code: int | None = None,
    ended: datetime | None = None,
    **metadata: Any,
) -> Pod:
    """A Pod as the server returns it."""
    condition = PodCondition(type="Ready", status="True" if ready else "False", last_transition_time=ready or START)
    state = ContainerState()
    if ended is not None:
        state = ContainerState(terminated=ContainerStateTerminated(exit_code=exit_code or 0, finished_at=ended))
    container = ContainerStatus(image="", image_id="", name="main", ready=False, restart_count=restarts, state=state)
    status: Any = PodStatus(phase=cast("Any", phase), conditions=(condition,), container_statuses=(container,))
    given = {"labels": {"app": "web"}, "uid": f"uid-{name}", "namespace": "test", **metadata}
    meta = ObjectMeta(name=name, creation_timestamp=created or START, deletion_timestamp=deleted, **given)
    return Pod(metadata=meta, spec=PodSpec(containers=(), node_name=node), status=status)
