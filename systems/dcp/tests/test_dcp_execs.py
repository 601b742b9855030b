"""Commands inside of containers: run once, when the container runs, with what they write and how they end."""

import asyncio
from typing import Any

import pytest

from levelset import MergePatch, Ref
from levelset.testing import Cluster
from levelset_dcp.containers import Containers, containers_controller
from levelset_dcp.engines import InMemoryEngine
from levelset_dcp.execs import container_execs_controller, exec_logs
from levelset_dcp.kinds import Container, ContainerExec, ContainerExecSpec, ContainerExecStatus, ExecVar
from systems.dcp.tests.engines_world import container, engine_world, read_log, seen_states

RUN = Ref(ContainerExec, "run")


@pytest.fixture
def engine() -> InMemoryEngine:
    return InMemoryEngine()


@pytest.fixture
def world(engine: InMemoryEngine) -> Containers:
    return engine_world(engine)


def run(**spec: Any) -> ContainerExec:
    given: dict[str, Any] = {"container_name": "one", "command": "migrate", **spec}
    return ContainerExec.new("run", ContainerExecSpec(**given))


async def shown(cluster: Cluster) -> ContainerExecStatus:
    await cluster.settled()
    return (await cluster.get(RUN)).status or ContainerExecStatus()


@pytest.mark.parametrize("code", [0, 3])
async def test_a_command_ends_with_its_exit_code(
    code: int, cluster: Cluster, engine: InMemoryEngine, world: Containers
) -> None:
    engine.program("migrate", exits=code, after=5.0, prints=["done"], errors=["careful"])
    async with cluster.running(containers_controller(world), container_execs_controller(world)):
        await cluster.create(container())
        await cluster.create(run(args=("{{ .Name }}",), env=(ExecVar(name="A", value="1"),)))
        assert (await shown(cluster)).state == "Running"
        await cluster.advance(6)
        found = await shown(cluster)
        assert (found.state, found.exit_code, found.effective_args) == ("Finished", code, ("one",))
        assert [(one.name, one.value) for one in found.effective_env] == [("A", "1")]
        assert found.finish_timestamp is not None
        assert seen_states(cluster, RUN) == ["Starting", "Running", "Finished"]
        assert await read_log(cluster, exec_logs(world), RUN) == b"done\n"
        assert await read_log(cluster, exec_logs(world), RUN, source="stderr") == b"careful\n"


async def test_it_waits_for_its_container_without_a_word(
    cluster: Cluster, engine: InMemoryEngine, world: Containers
) -> None:
    async with cluster.running(containers_controller(world), container_execs_controller(world)):
        await cluster.create(run())
        await cluster.create(container(start=False))
        await cluster.advance(10)
        assert (await cluster.get(RUN)).status is None
        reading = asyncio.create_task(read_log(cluster, exec_logs(world), RUN, follow="true"))
        engine.program("migrate", exits=0, prints=["hello"])
        await cluster.patch(Ref(Container, "one"), MergePatch({"spec": {"start": True}}))
        await cluster.advance(1)
        assert (await shown(cluster)).state == "Finished"
        assert await reading == b"hello\n"


async def test_a_container_that_has_ended_runs_nothing(
    cluster: Cluster, engine: InMemoryEngine, world: Containers
) -> None:
    engine.program("web:1", exits=0)
    async with cluster.running(containers_controller(world), container_execs_controller(world)):
        await cluster.create(container())
        await cluster.settled()
        await cluster.create(run())
        found = await shown(cluster)
        assert (found.state, found.message) == ("FailedToStart", "container one has ended")


async def test_what_the_engine_refuses_is_told(cluster: Cluster, engine: InMemoryEngine, world: Containers) -> None:
    engine.fail_matching("exec *", message="no more processes")
    async with cluster.running(containers_controller(world), container_execs_controller(world)):
        await cluster.create(container())
        await cluster.create(run())
        found = await shown(cluster)
        assert (found.state, found.message) == ("FailedToStart", "no more processes")


@pytest.mark.parametrize("is_same_controller", [True, False])
async def test_a_command_whose_manager_is_gone_is_not_run_again(
    is_same_controller: bool, cluster: Cluster, engine: InMemoryEngine, world: Containers
) -> None:
    engine.program("migrate", exits=0, after=50.0)
    controller = container_execs_controller(world)
    async with cluster.running(containers_controller(world)):
        await cluster.create(container())
        async with cluster.running(controller):
            await cluster.create(run())
            assert (await shown(cluster)).state == "Running"
        async with cluster.running(controller if is_same_controller else container_execs_controller(world)):
            found = await shown(cluster)
            assert found.state == "Unknown"
            assert "make another one" in found.message
    assert sum(one.startswith("exec ") for one in engine.calls) == 1


async def test_deletion_ends_it_and_removes_what_it_wrote(
    cluster: Cluster, engine: InMemoryEngine, world: Containers
) -> None:
    engine.program("migrate", prints=["hello"])
    async with cluster.running(containers_controller(world), container_execs_controller(world)):
        await cluster.create(container())
        await cluster.create(run())
        await shown(cluster)
        uid = (await cluster.get(RUN)).metadata.uid
        assert world.logs.has(f"{uid}_out")
        await cluster.delete(RUN)
        await cluster.until_gone(RUN)
        assert not world.logs.has(f"{uid}_out")
