"""ContainerExecs: they run once, when the container runs, and report output and exit code."""

import asyncio
from typing import Any

import pytest

from levelset import MergePatch, Ref
from levelset.testing import Cluster
from levelset_dcp.container_execs import container_execs_controller, exec_logs
from levelset_dcp.containers import ContainerHost, containers_controller
from levelset_dcp.engines import InMemoryEngine
from levelset_dcp.kinds import Container, ContainerExec, ContainerExecSpec, ContainerExecStatus, EnvVar
from systems.dcp.tests.support.containers import container, fake_container_host, read_log, state_history

RUN = Ref(ContainerExec, "run")


@pytest.fixture
def engine() -> InMemoryEngine:
    return InMemoryEngine()


@pytest.fixture
def host(engine: InMemoryEngine) -> ContainerHost:
    return fake_container_host(engine)


def run(**spec: Any) -> ContainerExec:
    given: dict[str, Any] = {"container_name": "one", "command": "migrate", **spec}
    return ContainerExec.new("run", ContainerExecSpec(**given))


async def settled_status(cluster: Cluster) -> ContainerExecStatus:
    await cluster.settled()
    return (await cluster.get(RUN)).status or ContainerExecStatus()


@pytest.mark.parametrize("code", [0, 3])
async def test_a_command_ends_with_its_exit_code(
    code: int, cluster: Cluster, engine: InMemoryEngine, host: ContainerHost
) -> None:
    engine.program("migrate", exits=code, after=5.0, prints=["done"], errors=["careful"])
    async with cluster.running(containers_controller(host), container_execs_controller(host)):
        await cluster.create(container())
        await cluster.create(run(args=("{{ .Name }}",), env=(EnvVar(name="A", value="1"),)))
        assert (await settled_status(cluster)).state == "Running"
        await cluster.advance(6)
        found = await settled_status(cluster)
        assert (found.state, found.exit_code, found.effective_args) == ("Finished", code, ("one",))
        assert [(one.name, one.value) for one in found.effective_env] == [("A", "1")]
        assert found.finish_timestamp is not None
        assert state_history(cluster, RUN) == ["Starting", "Running", "Finished"]
        assert await read_log(cluster, exec_logs(host), RUN) == b"done\n"
        assert await read_log(cluster, exec_logs(host), RUN, source="stderr") == b"careful\n"


async def test_a_command_waits_for_its_container_without_a_status(
    cluster: Cluster, engine: InMemoryEngine, host: ContainerHost
) -> None:
    async with cluster.running(containers_controller(host), container_execs_controller(host)):
        await cluster.create(run())
        await cluster.create(container(start=False))
        await cluster.advance(10)
        assert (await cluster.get(RUN)).status is None
        reading = asyncio.create_task(read_log(cluster, exec_logs(host), RUN, follow="true"))
        engine.program("migrate", exits=0, prints=["hello"])
        await cluster.patch(Ref(Container, "one"), MergePatch({"spec": {"start": True}}))
        await cluster.advance(1)
        assert (await settled_status(cluster)).state == "Finished"
        assert await reading == b"hello\n"


async def test_a_command_of_an_exited_container_fails(
    cluster: Cluster, engine: InMemoryEngine, host: ContainerHost
) -> None:
    engine.program("web:1", exits=0)
    async with cluster.running(containers_controller(host), container_execs_controller(host)):
        await cluster.create(container())
        await cluster.settled()
        await cluster.create(run())
        found = await settled_status(cluster)
        assert (found.state, found.message) == ("FailedToStart", "container one has ended")


async def test_an_error_of_the_engine_is_reported(
    cluster: Cluster, engine: InMemoryEngine, host: ContainerHost
) -> None:
    engine.fail_matching("exec *", message="no more processes")
    async with cluster.running(containers_controller(host), container_execs_controller(host)):
        await cluster.create(container())
        await cluster.create(run())
        found = await settled_status(cluster)
        assert (found.state, found.message) == ("FailedToStart", "no more processes")


@pytest.mark.parametrize("is_same_controller", [True, False])
async def test_a_command_whose_manager_has_died_is_not_run_again(
    is_same_controller: bool, cluster: Cluster, engine: InMemoryEngine, host: ContainerHost
) -> None:
    engine.program("migrate", exits=0, after=50.0)
    controller = container_execs_controller(host)
    async with cluster.running(containers_controller(host)):
        await cluster.create(container())
        async with cluster.running(controller):
            await cluster.create(run())
            assert (await settled_status(cluster)).state == "Running"
        async with cluster.running(controller if is_same_controller else container_execs_controller(host)):
            found = await settled_status(cluster)
            assert found.state == "Unknown"
            assert "create another object" in found.message
    assert sum(one.startswith("exec ") for one in engine.calls) == 1


async def test_deletion_stops_the_command_and_removes_its_logs(
    cluster: Cluster, engine: InMemoryEngine, host: ContainerHost
) -> None:
    engine.program("migrate", prints=["hello"])
    async with cluster.running(containers_controller(host), container_execs_controller(host)):
        await cluster.create(container())
        await cluster.create(run())
        await settled_status(cluster)
        uid = (await cluster.get(RUN)).metadata.uid
        assert host.logs.has(f"{uid}_out")
        await cluster.delete(RUN)
        await cluster.until_gone(RUN)
        assert not host.logs.has(f"{uid}_out")
