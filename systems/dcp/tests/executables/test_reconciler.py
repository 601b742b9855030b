"""The lifecycle of an Executable: start, exit, stop, deletion, templates, health and persistence."""

import json
from pathlib import Path
from typing import Any

import pytest

from levelset import Ref
from levelset.testing import Cluster, faults
from levelset_dcp.executables import ExecutableHost, executables_controller
from levelset_dcp.kinds import Endpoint, EnvVar, Executable, HealthProbe, HttpProbe, ProbeSchedule, Service, ServiceSpec
from levelset_dcp.services import FakeListeners, services_controller
from levelset_machine import FakeMachine
from systems.dcp.tests.support.executables import exe, fake_executable_host, running_programs, status

ONE = Ref(Executable, "one")


@pytest.fixture
def machine() -> FakeMachine:
    made = FakeMachine()
    for name in ("web", "client"):
        made.program(name)
    return made


@pytest.fixture
def host(machine: FakeMachine, tmp_path: Path) -> ExecutableHost:
    return fake_executable_host(machine, tmp_path)


async def test_a_new_executable_gets_a_process(cluster: Cluster, machine: FakeMachine, host: ExecutableHost) -> None:
    async with cluster.running(executables_controller(host)):
        await cluster.create(exe(args=("--x",), env=(EnvVar(name="A", value="{{ .Name }}"),)))
        found = await status(cluster)
        (run,) = machine.running
        assert (found.state, found.pid, found.execution_id) == ("Running", run.identity.pid, str(run.identity.pid))
        assert run.command.argv == ("web", "--x")
        assert run.command.env == {"PATH": "/bin", "HOME": "/here", "A": "one"}
        assert [one.name for one in found.effective_env] == ["A"]
        assert found.health_status == "Healthy"
        assert found.startup_timestamp is not None
        assert found.observed_generation == 1


async def test_a_text_that_is_no_valid_template_is_used_unchanged_and_the_status_says_why(
    cluster: Cluster, machine: FakeMachine, host: ExecutableHost
) -> None:
    async with cluster.running(executables_controller(host)):
        await cluster.create(exe(args=('{{ .Name | default "x" }}', '{{ printf "%s-%d" .Name 1 }}')))
        found = await status(cluster)
        (run,) = machine.running
        assert run.command.argv == ("web", '{{ .Name | default "x" }}', "one-1")
        (condition,) = [one for one in found.conditions if one.type == "TemplatesEvaluated"]
        assert 'spec.args[0]: function "default" is not defined' in condition.message
        assert found.state == "Running"


@pytest.mark.parametrize(("code", "health"), [(0, "Caution"), (3, "Unhealthy")])
async def test_a_finished_executable_has_its_exit_code(
    code: int, health: str, cluster: Cluster, machine: FakeMachine, host: ExecutableHost
) -> None:
    machine.program("web", exits=code, after=5.0)
    async with cluster.running(executables_controller(host)):
        await cluster.create(exe())
        await cluster.advance(6)
        found = await status(cluster)
        assert (found.state, found.exit_code, found.health_status, found.pid) == ("Finished", code, health, None)
        assert found.finish_timestamp is not None
        assert history(cluster) == ["Running", "Finished"]


def history(cluster: Cluster) -> list[str]:
    """The states in the history of the Executable."""
    found = [(version.after or {}).get("status", {}).get("state") for version in cluster.history(ONE)]
    return list(dict.fromkeys(one for one in found if one))


async def test_a_failed_start_reports_the_reason(cluster: Cluster, machine: FakeMachine, host: ExecutableHost) -> None:
    async with cluster.running(executables_controller(host)):
        await cluster.create(exe("missing"))
        found = await status(cluster)
        assert (found.state, found.health_status) == ("FailedToStart", "Unhealthy")
        assert "missing" in found.message
        assert found.finish_timestamp is not None


async def test_stop_goes_through_stopping_to_finished(
    cluster: Cluster, machine: FakeMachine, host: ExecutableHost
) -> None:
    machine.program("web", stops_in=2.0, stop_code=143)
    async with cluster.running(executables_controller(host)):
        await cluster.create(exe())
        await cluster.settled()
        await cluster.update((await cluster.get(ONE)).with_spec(stop=True))
        assert (await status(cluster)).state == "Stopping"
        await cluster.advance(5)
        found = await status(cluster)
        assert (found.state, found.exit_code) == ("Finished", 143)
        assert machine.running == []


async def test_a_failed_stop_is_unknown(cluster: Cluster, machine: FakeMachine, host: ExecutableHost) -> None:
    machine.program("web", unstoppable=True)
    async with cluster.running(executables_controller(host)):
        await cluster.create(exe(stop=False))
        await cluster.settled()
        await cluster.update((await cluster.get(ONE)).with_spec(stop=True))
        await cluster.advance(60)
        found = await status(cluster)
        assert found.state == "Unknown"
        assert found.message


async def test_deletion_stops_the_process_first(cluster: Cluster, machine: FakeMachine, host: ExecutableHost) -> None:
    machine.program("web", stops_in=3.0)
    async with cluster.running(executables_controller(host)):
        await cluster.create(exe())
        await cluster.settled()
        await cluster.delete(ONE)
        await cluster.settled()
        assert (await cluster.get(ONE)).metadata.deletion_timestamp is not None
        await cluster.until_gone(ONE)
        assert machine.running == []


async def test_many_executables_are_deleted_concurrently(
    cluster: Cluster, machine: FakeMachine, host: ExecutableHost
) -> None:
    machine.program("web", stops_in=5.0)
    async with cluster.running(executables_controller(host)):
        for number in range(20):
            await cluster.create(exe(name=f"n{number}"))
        await cluster.settled()
        for number in range(20):
            await cluster.delete(Ref(Executable, f"n{number}"))
        await cluster.advance(8)
        assert await cluster.list(Executable) == []


async def test_a_workload_that_waits_for_a_service_can_be_deleted(cluster: Cluster, host: ExecutableHost) -> None:
    async with cluster.running(executables_controller(host)):
        await cluster.create(exe(args=('{{ portFor "never" }}',)))
        found = await status(cluster)
        assert (found.state, found.message) == ("Starting", "Service never does not exist yet")
        await cluster.delete(ONE)
        await cluster.until_gone(ONE)


async def test_nothing_is_started_before_start_is_true(
    cluster: Cluster, machine: FakeMachine, host: ExecutableHost
) -> None:
    async with cluster.running(executables_controller(host)):
        await cluster.create(exe(start=False))
        assert (await status(cluster)).state == ""
        assert machine.runs == []
        await cluster.update((await cluster.get(ONE)).with_spec(start=True))
        assert (await status(cluster)).state == "Running"


async def test_an_executable_that_is_stopped_before_its_start_fails(
    cluster: Cluster, machine: FakeMachine, host: ExecutableHost
) -> None:
    async with cluster.running(executables_controller(host)):
        await cluster.create(exe(start=False, stop=True))
        assert (await status(cluster)).state == "FailedToStart"
        assert machine.runs == []


async def test_fallback_execution_types_are_tried(cluster: Cluster, machine: FakeMachine, host: ExecutableHost) -> None:
    async with cluster.running(executables_controller(host)):
        await cluster.create(exe(execution_type="IDE", fallback_execution_types=("Process",)))
        assert (await status(cluster)).state == "Running"
        await cluster.create(exe(name="two", execution_type="IDE"))
        found = await status(cluster, "two")
        assert (found.state, found.message) == (
            "FailedToStart",
            "IDE: no IDE: DEBUG_SESSION_PORT and DEBUG_SESSION_TOKEN are not set",
        )
        assert len(machine.runs) == 1


PRODUCER = {"service-producer": json.dumps([{"serviceName": "web"}])}


async def test_a_port_is_allocated_once_and_used_everywhere(
    cluster: Cluster, machine: FakeMachine, host: ExecutableHost
) -> None:
    both: list[Any] = [executables_controller(host), services_controller(FakeListeners())]
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
        server = next(run for run in machine.running if run.command.argv[0] == "web")
        client = next(run for run in machine.running if run.command.argv[0] == "client")
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


async def test_probes_determine_the_health(cluster: Cluster, machine: FakeMachine, host: ExecutableHost) -> None:
    machine.program("web", ready=False, ports=[80])
    probe = HealthProbe(
        name="p", type="HTTP", schedule=ProbeSchedule(interval="1s"), http_probe=HttpProbe(url="http://localhost:80/")
    )
    async with cluster.running(executables_controller(host)):
        await cluster.create(exe(health_probes=(probe,)))
        await cluster.advance(3)
        found = await status(cluster)
        assert found.health_status in ("Unhealthy", "Caution")
        before = cluster.storage.revision
        await cluster.advance(600)
        assert cluster.storage.revision == before


async def test_a_persistent_process_survives_deletion_and_is_adopted(
    cluster: Cluster, machine: FakeMachine, host: ExecutableHost
) -> None:
    async with cluster.running(executables_controller(host)):
        await cluster.create(exe(mode="persistent"))
        first = await status(cluster)
        await cluster.delete(ONE)
        await cluster.until_gone(ONE)
        assert len(machine.running) == 1
        await cluster.create(exe(mode="persistent"))
        assert (await status(cluster)).pid == first.pid
        assert len(machine.runs) == 1
        await cluster.delete(ONE)
        await cluster.until_gone(ONE)
        await cluster.create(exe(mode="persistent", args=("other",)))
        assert (await status(cluster)).pid != first.pid
        assert running_programs(machine) == ["web"]


async def test_mode_cleanup_stops_the_process_of_an_earlier_session(
    cluster: Cluster, machine: FakeMachine, host: ExecutableHost
) -> None:
    async with cluster.running(executables_controller(host)):
        await cluster.create(exe(mode="cleanup"))
        assert (await status(cluster)).state == "NotFound"
        await cluster.create(exe(name="other", mode="persistent"))
        await cluster.settled()
        await cluster.delete(Ref(Executable, "other"))
        await cluster.until_gone(Ref(Executable, "other"))
        host.records.processes["one"] = host.records.processes["other"]  # type: ignore[attr-defined]  # in memory
        await cluster.advance(3)
        assert (await status(cluster)).state == "Running"
        await cluster.delete(ONE)
        await cluster.until_gone(ONE)
        assert machine.running == []


async def test_conflicts_start_no_process_twice(cluster: Cluster, machine: FakeMachine, host: ExecutableHost) -> None:
    machine.program("web", exits=0, after=1.0)
    unlucky = faults.conflict(share=0.2, seed=7)
    async with cluster.running(executables_controller(host), faults=[unlucky]):
        for number in range(50):
            await cluster.create(exe(name=f"n{number}"))
        await cluster.advance(60)
        states = {(one.status.state, one.status.exit_code) for one in await cluster.list(Executable) if one.status}
        assert states == {("Finished", 0)}
        assert len(machine.runs) == 50


async def test_idle_objects_cause_no_writes(cluster: Cluster, host: ExecutableHost) -> None:
    async with cluster.running(executables_controller(host)):
        await cluster.create(exe())
        await cluster.settled()
        before = cluster.storage.revision
        await cluster.advance(1800)
        assert cluster.storage.revision == before
