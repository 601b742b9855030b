"""ExecutableReplicaSets: scaling, the order of removal, and health, in virtual time."""

from random import Random
from typing import Any

import pytest

from levelset import Controller, Ref
from levelset.testing import Cluster, faults
from levelset_dcp.kinds import (
    Executable,
    ExecutableReplicaSet,
    ExecutableReplicaSetSpec,
    ExecutableReplicaSetStatus,
    ExecutableSpec,
    ExecutableStatus,
    ExecutableTemplate,
)
from levelset_dcp.names import DISPLAY_NAME, REPLICA_STATE
from levelset_dcp.replica_sets import replicasets_controller

SET = Ref(ExecutableReplicaSet, "web")


def wanted(replicas: int, **more: Any) -> ExecutableReplicaSet:
    template = ExecutableTemplate(spec=ExecutableSpec(executable_path="/bin/web"), labels={"app": "web"})
    return ExecutableReplicaSet.new("web", ExecutableReplicaSetSpec(template=template, replicas=replicas, **more))


def controller() -> Controller[ExecutableReplicaSet]:
    return replicasets_controller(random=Random(1))


async def scale(cluster: Cluster, replicas: int) -> None:
    found = await cluster.get(SET)
    await cluster.update(found.with_spec(replicas=replicas))
    await cluster.advance(10)


async def replicas(cluster: Cluster) -> list[Executable]:
    await cluster.settled()
    return sorted(await cluster.list(Executable), key=lambda one: one.name)


async def status(cluster: Cluster) -> ExecutableReplicaSetStatus:
    await cluster.settled()
    found = (await cluster.get(SET)).status
    assert found is not None
    return found


async def set_status(cluster: Cluster, one: Executable, state: Any, health: Any) -> None:
    changed = one.with_status(ExecutableStatus(state=state, health_status=health))
    await cluster.update(changed, subresource="status")


async def test_a_set_scales_and_replaces_deleted_replicas(cluster: Cluster) -> None:
    async with cluster.running(controller()):
        await cluster.create(wanted(3))
        first = await replicas(cluster)
        assert len(first) == 3
        assert {one.metadata.annotations[DISPLAY_NAME] for one in first} == {"web-1", "web-2", "web-3"}
        assert all(one.metadata.labels == {"app": "web"} for one in first)
        await scale(cluster, 5)
        assert len(await replicas(cluster)) == 5
        await scale(cluster, 1)
        (last,) = await replicas(cluster)
        await cluster.delete(last.ref)
        await cluster.advance(10)
        (other,) = await replicas(cluster)
        assert other.name != last.name


async def test_scalings_are_two_seconds_apart(cluster: Cluster) -> None:
    async with cluster.running(controller()):
        await cluster.create(wanted(1))
        await cluster.settled()
        found = await cluster.get(SET)
        await cluster.update(found.with_spec(replicas=2))
        assert len(await replicas(cluster)) == 1
        await cluster.advance(2.1)
        assert len(await replicas(cluster)) == 2
        found = await cluster.get(SET)
        await cluster.update(found.with_spec(replicas=0))
        assert await replicas(cluster) == []


async def test_inactive_replicas_are_stopped_and_deleted_with_the_set(cluster: Cluster) -> None:
    async with cluster.running(controller()):
        await cluster.create(wanted(2, stop_on_scale_down=True))
        await cluster.settled()
        await scale(cluster, 1)
        both = await replicas(cluster)
        assert sorted(one.metadata.annotations[REPLICA_STATE] for one in both) == ["active", "inactive"]
        assert [one.spec.stop for one in both if one.metadata.annotations[REPLICA_STATE] == "inactive"] == [True]
        assert (await status(cluster)).observed_replicas == 1
        await cluster.delete(SET)
        await cluster.until_gone(SET)
        assert await replicas(cluster) == []


async def test_a_changed_template_affects_new_replicas_only(cluster: Cluster) -> None:
    async with cluster.running(controller()):
        await cluster.create(wanted(1))
        (old,) = await replicas(cluster)
        found = await cluster.get(SET)
        template = ExecutableTemplate(spec=ExecutableSpec(executable_path="/bin/other"))
        await cluster.update(found.with_spec(template=template, replicas=2))
        await cluster.advance(10)
        paths = {one.name: one.spec.executable_path for one in await replicas(cluster)}
        assert paths.pop(old.name) == "/bin/web"
        assert list(paths.values()) == ["/bin/other"]


async def test_the_health_of_a_set_follows_its_replicas(cluster: Cluster) -> None:
    async with cluster.running(controller()):
        await cluster.create(wanted(2))
        first, second = await replicas(cluster)
        assert (await status(cluster)).health_status == "Unhealthy"
        await set_status(cluster, first, "Running", "Healthy")
        found = await status(cluster)
        assert (found.health_status, found.running_replicas) == ("Caution", 1)
        await set_status(cluster, second, "Running", "Healthy")
        assert (await status(cluster)).health_status == "Healthy"
        await set_status(cluster, await cluster.get(first.ref), "Finished", "Caution")
        found = await status(cluster)
        assert (found.health_status, found.finished_replicas, found.observed_replicas) == ("Caution", 1, 2)
        await cluster.delete(first.ref)
        await cluster.advance(10)
        assert len(await replicas(cluster)) == 2


async def test_finished_replicas_are_removed_first(cluster: Cluster) -> None:
    async with cluster.running(controller()):
        await cluster.create(wanted(2))
        first, second = await replicas(cluster)
        await set_status(cluster, second, "Finished", "Caution")
        await scale(cluster, 1)
        assert [one.name for one in await replicas(cluster)] == [first.name]


async def test_idle_objects_cause_no_writes(cluster: Cluster) -> None:
    async with cluster.running(controller()):
        await cluster.create(wanted(3))
        await cluster.settled()
        before = cluster.storage.revision
        await cluster.advance(1800)
        assert cluster.storage.revision == before


@pytest.mark.parametrize("replicas_", [0, 4])
async def test_a_late_watch_creates_no_replica_twice(replicas_: int, cluster: Cluster) -> None:
    async with cluster.running(controller(), faults=[faults.delayed_watch(2.0)]):
        await cluster.create(wanted(replicas_))
        await cluster.advance(30)
        assert len(await replicas(cluster)) == replicas_
