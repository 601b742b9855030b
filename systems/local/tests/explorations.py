"""What the explorer plays with the controllers of workloads, and what must hold at every revision."""

from collections.abc import Sequence
from typing import Any

from levelset import Controller, MergePatch, Ref
from levelset.kinds.apps_v1 import Deployment, ReplicaSet
from levelset.kinds.batch_v1 import Job
from levelset.kinds.core_v1 import Pod
from levelset.testing import Cluster
from levelset.testing.explore import Exploration, State
from levelset_local import podstates
from levelset_local.deployments import deployments_controller, limits_of
from levelset_local.jobs import FINALIZER, jobs_controller
from levelset_local.replicasets import replicasets_controller
from systems.local.tests.kubelet import Fate, kubelet
from systems.local.tests.samples import deployment, job
from systems.local.tests.watching import told

__all__ = ["explorations", "jobs", "workloads"]

WEB = Ref(Deployment, "web")
SUM = Ref(Job, "sum")
SECONDS = 300.0  # a slow cache, a crash and a growing delay may come together


def image(name: str) -> MergePatch:
    return MergePatch({"spec": {"template": {"spec": {"containers": [{"name": "main", "image": name}]}}}})


def is_rolled(it: Deployment) -> bool:
    status, wanted = it.status, it.spec.replicas
    if status is None or status.observed_generation != it.metadata.generation:
        return False
    return status.updated_replicas == status.replicas == status.available_replicas == wanted


async def create(people: Cluster) -> None:
    await people.create(deployment(replicas=2))
    await people.until(WEB, is_rolled, within=SECONDS)


async def roll(people: Cluster) -> None:
    await create(people)
    await people.patch(WEB, image("web:2"))
    await people.until(WEB, is_rolled, within=SECONDS)


async def scale(people: Cluster) -> None:
    await create(people)
    await people.patch(WEB, MergePatch({"spec": {"replicas": 4}}))
    await people.until(WEB, is_rolled, within=SECONDS)
    await people.patch(WEB, MergePatch({"spec": {"replicas": 1}}))
    await people.until(WEB, is_rolled, within=SECONDS)


async def delete(people: Cluster) -> None:
    await create(people)
    await people.delete(WEB)
    await people.until_gone(WEB, within=SECONDS)


async def recreate(people: Cluster) -> None:
    await people.create(deployment(replicas=2, strategy={"type": "Recreate"}))
    await people.until(WEB, is_rolled, within=SECONDS)
    await people.patch(WEB, image("web:2"))
    await people.until(WEB, is_rolled, within=SECONDS)


def enough_are_available(state: State) -> None:
    """During a roll: as many available Pods as the limits say, and no more Pods than they say."""
    owner = state.find(WEB)
    if owner is None or owner.status is None or owner.metadata.deletion_timestamp is not None:
        return
    limits = limits_of(owner.spec)
    pods = [one for one in state.list(Pod) if podstates.is_active(one)]
    assert len(pods) <= limits.most, f"{len(pods)} Pods instead of {limits.most}"
    rolled = [one for one in owner.status.conditions if one.reason == "NewReplicaSetAvailable"]
    if rolled or len(state.list(ReplicaSet)) > 1:
        ready = sum(podstates.is_ready(one) for one in pods)
        assert ready >= limits.least, f"{ready} ready Pods instead of {limits.least}"


def never_two_templates_at_once(state: State) -> None:
    running = {one.spec.containers[0].image for one in state.list(Pod) if not podstates.is_finished(one)}
    assert len(running) <= 1, f"{running} run at the same time"


def workload_controllers() -> Sequence[Controller[Any]]:
    return [deployments_controller(), replicasets_controller(), kubelet(lambda pod: Fate(ready=2.0, stops=1.0))]


def workloads() -> list[Exploration]:
    """Deployments with their ReplicaSets, and a node that pretends."""
    rules: dict[str, Any] = {"roll": [enough_are_available], "create": [enough_are_available]}
    rules["recreate"] = [never_two_templates_at_once]
    return [
        Exploration(
            one,
            workload_controllers,
            invariants=rules.get(one.__name__, ()),
            older=False,  # Pods have names that the server makes up
            name=f"deployment-{one.__name__}",
        )
        for one in (create, roll, scale, delete, recreate)
    ]


def is_over(it: Job) -> bool:
    status = it.status
    return status is not None and any(one.type in {"Complete", "Failed"} for one in status.conditions)


async def complete(people: Cluster) -> None:
    await people.create(job(completions=3, parallelism=2))
    await people.until(SUM, is_over, within=SECONDS)


async def fail(people: Cluster) -> None:
    await people.create(job(backoffLimit=1, annotations={"fate": "fail"}))
    await people.until(SUM, is_over, within=SECONDS)


async def miss_the_deadline(people: Cluster) -> None:
    await people.create(job(completions=2, parallelism=2, activeDeadlineSeconds=30))
    await people.until(SUM, is_over, within=SECONDS)


async def suspend(people: Cluster) -> None:
    await people.create(job(completions=2, parallelism=2))
    await people.until(SUM, lambda it: it.status is not None and it.status.active == 2, within=SECONDS)
    await people.patch(SUM, MergePatch({"spec": {"suspend": True}}))
    await people.until(SUM, lambda it: told(it).active == told(it).terminating == 0, within=SECONDS)
    await people.patch(SUM, MergePatch({"spec": {"suspend": False}}))
    await people.until(SUM, is_over, within=SECONDS)


async def index(people: Cluster) -> None:
    await people.create(job(completions=3, parallelism=2, completionMode="Indexed"))
    await people.until(SUM, is_over, within=SECONDS)


async def remove(people: Cluster) -> None:
    await people.create(job(completions=2, parallelism=2))
    await people.until(SUM, lambda it: it.status is not None and it.status.active == 2, within=SECONDS)
    await people.delete(SUM)
    await people.until_gone(SUM, within=SECONDS)


def nobody_is_counted_twice(state: State) -> None:
    owner = state.find(SUM)
    if owner is None or owner.status is None:
        return
    status = owner.status
    wanted = owner.spec.completions or 1
    assert status.succeeded <= wanted, f"{status.succeeded} of {wanted} have succeeded"
    if is_over(owner):
        held = [one.name for one in state.list(Pod) if FINALIZER in one.metadata.finalizers]
        assert not held, f"{held} are not counted"


def fate(pod: Pod) -> Fate:
    return Fate(ends=40.0, code=1 if "fate" in pod.metadata.annotations else 0)


def jobs() -> list[Exploration]:
    """Jobs, and a node that pretends."""
    return [
        Exploration(
            one,
            lambda: [jobs_controller(), kubelet(fate)],
            invariants=[nobody_is_counted_twice],
            older=False,
            name=f"job-{one.__name__}",
        )
        for one in (complete, fail, miss_the_deadline, suspend, index, remove)
    ]


def explorations() -> list[Exploration]:
    return [*workloads(), *jobs()]
