"""Ports, Endpoints and probes of Executables, and immediate exits."""

import json
from pathlib import Path
from typing import Any

import pytest

from levelset import Ref
from levelset.testing import Cluster
from levelset_dcp.executables import ExecutableHost, executables_controller
from levelset_dcp.kinds import (
    Endpoint,
    EnvVar,
    Executable,
    ExecutableProbe,
    HealthProbe,
    HttpHeader,
    HttpProbe,
    ProbeProgram,
    ProbeSchedule,
    ProbeTemplate,
    Service,
    ServiceSpec,
)
from levelset_dcp.services import FakeListeners, services_controller
from levelset_machine import FakeMachine
from systems.dcp.tests.support.executables import exe, fake_executable_host, status

ONE = Ref(Executable, "one")
EVERY = ProbeSchedule(interval="1s")
ONCE = ProbeSchedule(interval="1s", kind="UntilSuccess")


@pytest.fixture
def machine() -> FakeMachine:
    made = FakeMachine()
    made.program("web")
    return made


@pytest.fixture
def host(machine: FakeMachine, tmp_path: Path) -> ExecutableHost:
    return fake_executable_host(machine, tmp_path)


def both(host: ExecutableHost) -> list[Any]:
    return [executables_controller(host), services_controller(FakeListeners())]


def states(cluster: Cluster) -> list[Any]:
    found = [(one.after or {}).get("status", {}) for one in cluster.history(ONE)]
    return [(one.get("state"), one.get("exitCode")) for one in found if one.get("state")]


async def test_an_immediate_exit_is_reported_with_its_exit_code(
    cluster: Cluster, machine: FakeMachine, host: ExecutableHost
) -> None:
    machine.program("web", exits=7, after=0.0)
    async with cluster.running(executables_controller(host)):
        await cluster.create(exe())
        await status(cluster)
        assert states(cluster)[-1] == ("Finished", 7)
        assert ("Finished", None) not in states(cluster)


async def test_each_service_has_its_own_stable_port(
    cluster: Cluster, machine: FakeMachine, host: ExecutableHost
) -> None:
    producer = json.dumps([{"serviceName": "a"}, {"serviceName": "b", "port": 81, "address": "0.0.0.0"}])
    async with cluster.running(*both(host)):
        for name in ("a", "b"):
            await cluster.create(Service.new(name, ServiceSpec()))
        args = ('{{ portForServing "a" }}', '{{ portForServing "b" }}', 'again {{ portForServing "a" }}')
        env = (EnvVar(name="A", value='{{ portForServing "a" }}'),)
        await cluster.create(exe(annotations={"service-producer": producer}, args=args, env=env))
        await status(cluster)
        (run,) = machine.running
        assert run.command.argv[1:] == ("50001", "81", "again 50001")
        assert run.command.env["A"] == "50001"
        found = sorted((one.spec.service_name, one.spec.port) for one in await cluster.list(Endpoint))
        assert found == [("a", 50001), ("b", 81)]


async def test_endpoints_exist_only_while_the_executable_runs(
    cluster: Cluster, machine: FakeMachine, host: ExecutableHost
) -> None:
    async with cluster.running(*both(host)):
        await cluster.create(Service.new("a", ServiceSpec()))
        await cluster.create(exe(annotations={"service-producer": '[{"serviceName": "a"}]'}))
        await status(cluster)
        assert len(await cluster.list(Endpoint)) == 1
        machine.exit(machine.running[0])
        await status(cluster)
        assert await cluster.list(Endpoint) == []
        service = await cluster.get(Ref(Service, "a"))
        assert service.status is not None
        assert service.status.state == "NotReady"


def http(name: str, port: str) -> HealthProbe:
    probe = HttpProbe(url=f"http://localhost:{port}/", headers=(HttpHeader(name="X", value="{{ .Name }}"),))
    return HealthProbe(name=name, type="HTTP", schedule=EVERY, http_probe=probe)


def program(name: str, schedule: ProbeSchedule) -> HealthProbe:
    probe = ExecutableProbe(executable_template=ProbeTemplate(spec=ProbeProgram(executable_path=name)))
    return HealthProbe(name=name, type="Executable", schedule=schedule, executable_probe=probe)


async def test_one_failing_probe_makes_it_unhealthy(
    cluster: Cluster, machine: FakeMachine, host: ExecutableHost
) -> None:
    machine.program("web", ports=[80])
    machine.program("check", exits=[0, 0, 1], after=0.1)
    async with cluster.running(executables_controller(host)):
        await cluster.create(exe(health_probes=(http("http", "80"), program("check", EVERY))))
        await cluster.advance(1)
        assert (await status(cluster)).health_status == "Healthy"
        await cluster.advance(5)
        found = await status(cluster)
        assert {one.probe_name: one.outcome for one in found.health_probe_results} == {
            "check": "Failure",
            "http": "Success",
        }
        assert found.health_status == "Unhealthy"


async def test_a_probe_until_success_ends_after_a_success(
    cluster: Cluster, machine: FakeMachine, host: ExecutableHost
) -> None:
    machine.program("check", exits=[1, 0, 1], after=0.1)
    async with cluster.running(executables_controller(host)):
        await cluster.create(exe(health_probes=(program("check", ONCE),)))
        await cluster.advance(0.5)
        assert (await status(cluster)).health_status == "Unhealthy"
        await cluster.advance(60)
        assert (await status(cluster)).health_status == "Healthy"


async def test_a_probe_waits_for_the_service_of_its_template(
    cluster: Cluster, machine: FakeMachine, host: ExecutableHost
) -> None:
    machine.program("web", ports=[40001])
    async with cluster.running(*both(host)):
        await cluster.create(exe(health_probes=(http("http", '{{ portFor "late" }}'),)))
        await cluster.advance(10)
        found = await status(cluster)
        assert (found.state, found.health_status, found.health_probe_results) == ("Running", "Caution", ())
        await cluster.create(Service.new("late", ServiceSpec()))
        await cluster.advance(5)
        assert (await status(cluster)).health_status == "Healthy"


async def test_a_restarted_controller_uses_the_allocated_ports(
    cluster: Cluster, machine: FakeMachine, host: ExecutableHost
) -> None:
    async with cluster.running(*both(host)):
        await cluster.create(Service.new("a", ServiceSpec()))
        annotations = {"service-producer": '[{"serviceName": "a"}]'}
        await cluster.create(exe(annotations=annotations, args=('{{ portForServing "a" }}',)))
        await status(cluster)
        (before,) = await cluster.list(Endpoint)
    async with cluster.running(*both(host)):
        found = await status(cluster)
        (after,) = await cluster.list(Endpoint)
        assert after.metadata.uid == before.metadata.uid
        assert found.effective_args == ("50001",)
        assert len(machine.runs) == 1
