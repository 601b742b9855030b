"""The life of an Executable: start, end, stop, deletion, templates, health, and what outlives a session."""

import json
from pathlib import Path
from typing import Any

import pytest

from levelset import Ref
from levelset.testing import Cluster, faults
from levelset_dcp.executables import Executables as World
from levelset_dcp.executables import executables_controller
from levelset_dcp.kinds import (
    Endpoint,
    EnvVar,
    Executable,
    HealthProbe,
    HttpProbe,
    ProbeSchedule,
    Service,
    ServiceSpec,
)
from levelset_dcp.services import PretendListeners, services_controller
from levelset_machine import PretendMachine as Pretend
from systems.dcp.tests.programs import exe, pretend_world, running_names, status

ONE = Ref(Executable, "one")


@pytest.fixture
def pretend() -> Pretend:
    made = Pretend()
    for name in ("web", "client"):
        made.program(name)
    return made


@pytest.fixture
def world(pretend: Pretend, tmp_path: Path) -> World:
    return pretend_world(pretend, tmp_path)


async def test_a_new_one_gets_a_process(cluster: Cluster, pretend: Pretend, world: World) -> None:
    async with cluster.running(executables_controller(world)):
        await cluster.create(exe(args=("--x",), env=(EnvVar(name="A", value="{{ .Name }}"),)))
        found = await status(cluster)
        (run,) = pretend.running
        assert (found.state, found.pid, found.execution_id) == ("Running", run.identity.pid, str(run.identity.pid))
        assert run.command.argv == ("web", "--x")
        assert run.command.env == {"PATH": "/bin", "HOME": "/here", "A": "one"}
        assert [one.name for one in found.effective_env] == ["A"]
        assert found.health_status == "Healthy"
        assert found.startup_timestamp is not None
        assert found.observed_generation == 1


@pytest.mark.parametrize(("code", "health"), [(0, "Caution"), (3, "Unhealthy")])
async def test_the_exit_code_comes_with_the_end(
    code: int, health: str, cluster: Cluster, pretend: Pretend, world: World
) -> None:
    pretend.program("web", exits=code, after=5.0)
    async with cluster.running(executables_controller(world)):
        await cluster.create(exe())
        await cluster.advance(6)
        found = await status(cluster)
        assert (found.state, found.exit_code, found.health_status, found.pid) == ("Finished", code, health, None)
        assert found.finish_timestamp is not None
        assert history(cluster) == ["Running", "Finished"]


def history(cluster: Cluster) -> list[str]:
    """The states that somebody could see, in their order."""
    found = [(version.after or {}).get("status", {}).get("state") for version in cluster.history(ONE)]
    return list(dict.fromkeys(one for one in found if one))


async def test_a_program_that_cannot_be_started_says_why(cluster: Cluster, pretend: Pretend, world: World) -> None:
    async with cluster.running(executables_controller(world)):
        await cluster.create(exe("missing"))
        found = await status(cluster)
        assert (found.state, found.health_status) == ("FailedToStart", "Unhealthy")
        assert "missing" in found.message
        assert found.finish_timestamp is not None


async def test_stop_ends_it_by_way_of_stopping(cluster: Cluster, pretend: Pretend, world: World) -> None:
    pretend.program("web", stops_in=2.0, stop_code=143)
    async with cluster.running(executables_controller(world)):
        await cluster.create(exe())
        await cluster.settled()
        await cluster.update((await cluster.get(ONE)).with_spec(stop=True))
        assert (await status(cluster)).state == "Stopping"
        await cluster.advance(5)
        found = await status(cluster)
        assert (found.state, found.exit_code) == ("Finished", 143)
        assert pretend.running == []


async def test_one_that_cannot_be_stopped_is_unknown(cluster: Cluster, pretend: Pretend, world: World) -> None:
    pretend.program("web", unstoppable=True)
    async with cluster.running(executables_controller(world)):
        await cluster.create(exe(stop=False))
        await cluster.settled()
        await cluster.update((await cluster.get(ONE)).with_spec(stop=True))
        await cluster.advance(60)
        found = await status(cluster)
        assert found.state == "Unknown"
        assert found.message


async def test_deleting_it_stops_the_process_first(cluster: Cluster, pretend: Pretend, world: World) -> None:
    pretend.program("web", stops_in=3.0)
    async with cluster.running(executables_controller(world)):
        await cluster.create(exe())
        await cluster.settled()
        await cluster.delete(ONE)
        await cluster.settled()
        assert (await cluster.get(ONE)).metadata.deletion_timestamp is not None
        await cluster.until_gone(ONE)
        assert pretend.running == []


async def test_many_are_deleted_side_by_side(cluster: Cluster, pretend: Pretend, world: World) -> None:
    pretend.program("web", stops_in=5.0)
    async with cluster.running(executables_controller(world)):
        for number in range(20):
            await cluster.create(exe(name=f"n{number}"))
        await cluster.settled()
        for number in range(20):
            await cluster.delete(Ref(Executable, f"n{number}"))
        await cluster.advance(8)
        assert await cluster.list(Executable) == []


async def test_one_that_waits_for_a_service_can_be_deleted(cluster: Cluster, world: World) -> None:
    async with cluster.running(executables_controller(world)):
        await cluster.create(exe(args=('{{ portFor "never" }}',)))
        found = await status(cluster)
        assert (found.state, found.message) == ("Starting", "Service never is not there yet")
        await cluster.delete(ONE)
        await cluster.until_gone(ONE)


async def test_nothing_is_started_before_somebody_says_so(cluster: Cluster, pretend: Pretend, world: World) -> None:
    async with cluster.running(executables_controller(world)):
        await cluster.create(exe(start=False))
        assert (await status(cluster)).state == ""
        assert pretend.runs == []
        await cluster.update((await cluster.get(ONE)).with_spec(start=True))
        assert (await status(cluster)).state == "Running"


async def test_one_that_is_stopped_before_it_started_never_does(
    cluster: Cluster, pretend: Pretend, world: World
) -> None:
    async with cluster.running(executables_controller(world)):
        await cluster.create(exe(start=False, stop=True))
        assert (await status(cluster)).state == "FailedToStart"
        assert pretend.runs == []


async def test_another_way_to_start_it_is_tried(cluster: Cluster, pretend: Pretend, world: World) -> None:
    async with cluster.running(executables_controller(world)):
        await cluster.create(exe(execution_type="IDE", fallback_execution_types=("Process",)))
        assert (await status(cluster)).state == "Running"
        await cluster.create(exe(name="two", execution_type="IDE"))
        found = await status(cluster, "two")
        assert (found.state, found.message) == ("FailedToStart", "IDE: there is no development environment to ask")
        assert len(pretend.runs) == 1


PRODUCER = {"service-producer": json.dumps([{"serviceName": "web"}])}


async def test_a_port_is_found_once_and_told_everywhere(cluster: Cluster, pretend: Pretend, world: World) -> None:
    both: list[Any] = [executables_controller(world), services_controller(PretendListeners())]
    async with cluster.running(*both):
        args = ('{{ portForServing "web" }}', '{{ addressForServing "web" }}')
        await cluster.create(
            exe(annotations=PRODUCER, args=args, env=(EnvVar(name="P", value='{{ portForServing "web" }}'),))
        )
        await cluster.create(exe("client", "two", args=('{{ portFor "web" }}',)))
        assert (await status(cluster)).state == "Starting"
        await cluster.create(Service.new("web", ServiceSpec()))
        assert (await status(cluster)).state == "Running"
        (endpoint,) = await cluster.list(Endpoint)
        server = next(run for run in pretend.running if run.command.argv[0] == "web")
        client = next(run for run in pretend.running if run.command.argv[0] == "client")
        assert server.command.argv[1:] == ("50001", "localhost")
        assert server.command.env["P"] == "50001"
        assert (endpoint.spec.address, endpoint.spec.port) == ("localhost", 50001)
        assert client.command.argv[1] == "40001"
        service = await cluster.get(Ref(Service, "web"))
        assert service.status is not None
        assert service.status.state == "Ready"
        await cluster.delete(ONE)
        await cluster.until_gone(ONE)
        assert await cluster.list(Endpoint) == []


async def test_probes_say_how_healthy_it_is(cluster: Cluster, pretend: Pretend, world: World) -> None:
    pretend.program("web", ready=False, ports=[80])
    probe = HealthProbe(
        name="p", type="HTTP", schedule=ProbeSchedule(interval="1s"), http_probe=HttpProbe(url="http://localhost:80/")
    )
    async with cluster.running(executables_controller(world)):
        await cluster.create(exe(health_probes=(probe,)))
        await cluster.advance(3)
        found = await status(cluster)
        assert found.health_status in ("Unhealthy", "Caution")
        before = cluster.storage.revision
        await cluster.advance(600)
        assert cluster.storage.revision == before


async def test_persistent_ones_stay_and_are_found_again(cluster: Cluster, pretend: Pretend, world: World) -> None:
    async with cluster.running(executables_controller(world)):
        await cluster.create(exe(mode="persistent"))
        first = await status(cluster)
        await cluster.delete(ONE)
        await cluster.until_gone(ONE)
        assert len(pretend.running) == 1
        await cluster.create(exe(mode="persistent"))
        assert (await status(cluster)).pid == first.pid
        assert len(pretend.runs) == 1
        await cluster.delete(ONE)
        await cluster.until_gone(ONE)
        await cluster.create(exe(mode="persistent", args=("other",)))
        assert (await status(cluster)).pid != first.pid
        assert running_names(pretend) == ["web"]


async def test_cleanup_ends_what_an_earlier_session_has_left(cluster: Cluster, pretend: Pretend, world: World) -> None:
    async with cluster.running(executables_controller(world)):
        await cluster.create(exe(mode="cleanup"))
        assert (await status(cluster)).state == "NotFound"
        await cluster.create(exe(name="other", mode="persistent"))
        await cluster.settled()
        await cluster.delete(Ref(Executable, "other"))
        await cluster.until_gone(Ref(Executable, "other"))
        world.records.processes["one"] = world.records.processes["other"]  # type: ignore[attr-defined]  # in memory
        await cluster.advance(3)
        assert (await status(cluster)).state == "Running"
        await cluster.delete(ONE)
        await cluster.until_gone(ONE)
        assert pretend.running == []


async def test_conflicts_start_nothing_twice(cluster: Cluster, pretend: Pretend, world: World) -> None:
    pretend.program("web", exits=0, after=1.0)
    unlucky = faults.conflict(share=0.2, seed=7)
    async with cluster.running(executables_controller(world), faults=[unlucky]):
        for number in range(50):
            await cluster.create(exe(name=f"n{number}"))
        await cluster.advance(60)
        states = {(one.status.state, one.status.exit_code) for one in await cluster.list(Executable) if one.status}
        assert states == {("Finished", 0)}
        assert len(pretend.runs) == 50


async def test_idle_means_no_writes(cluster: Cluster, world: World) -> None:
    async with cluster.running(executables_controller(world)):
        await cluster.create(exe())
        await cluster.settled()
        before = cluster.storage.revision
        await cluster.advance(1800)
        assert cluster.storage.revision == before
