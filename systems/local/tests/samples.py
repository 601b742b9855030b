"""Sample objects for tests of workload controllers."""

from datetime import datetime
from typing import Any, cast

from levelset import ObjectMeta
from levelset.kinds.apps_v1 import DaemonSet, Deployment, ReplicaSet, StatefulSet
from levelset.kinds.batch_v1 import CronJob, Job
from levelset.kinds.core_v1 import (
    ContainerState,
    ContainerStateTerminated,
    ContainerStatus,
    Pod,
    PodCondition,
    PodSpec,
    PodStatus,
)
from levelset.objects import from_tree, to_tree
from levelset.testing import START

__all__ = ["cron_job", "daemon_set", "deployment", "job", "pod", "replica_set", "stateful_set"]


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


def stateful_set(
    name: str = "db", *, replicas: int = 3, image: str = "db:1", claims: int = 0, **spec: Any
) -> StatefulSet:
    """A StatefulSet; `claims` is the number of its claim templates."""
    claim = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    names = [f"data{number}" if number else "data" for number in range(claims)]
    tree = to_tree(deployment(name, replicas=replicas, image=image))
    tree |= {"kind": "StatefulSet", "spec": {**tree["spec"], "serviceName": name, **spec}}
    tree["spec"]["volumeClaimTemplates"] = [{"metadata": {"name": one}, "spec": claim} for one in names]
    return from_tree(StatefulSet, tree)


def daemon_set(
    name: str = "agent", *, image: str = "agent:1", pod: dict[str, Any] | None = None, **spec: Any
) -> DaemonSet:
    """A DaemonSet; `pod` are further fields of its Pods' spec."""
    tree = to_tree(deployment(name, image=image))
    template = {**tree["spec"]["template"], "spec": {**tree["spec"]["template"]["spec"], **(pod or {})}}
    given = {"selector": tree["spec"]["selector"], "template": template, **spec}
    return from_tree(DaemonSet, {**tree, "kind": "DaemonSet", "spec": given})


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


def cron_job(schedule: str = "*/5 * * * *", *, name: str = "tick", **spec: Any) -> CronJob:
    template = {"spec": to_tree(job())["spec"]}
    tree = {"apiVersion": "batch/v1", "kind": "CronJob", "metadata": {"name": name}}
    return from_tree(CronJob, {**tree, "spec": {"schedule": schedule, "jobTemplate": template, **spec}})


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
