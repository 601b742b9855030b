"""The health and the logs of a Container."""

import asyncio
from datetime import UTC, datetime

import pytest

from levelset import MergePatch, Ref
from levelset.errors import BadRequest
from levelset.testing import Cluster
from levelset_dcp.containers import ContainerHost, container_logs, containers_controller
from levelset_dcp.containers.logs import LogLineFilter
from levelset_dcp.engines import InMemoryEngine
from levelset_dcp.kinds import (
    Build,
    Container,
    ContainerPort,
    HealthProbe,
    HttpHeader,
    HttpProbe,
    ProbeSchedule,
    Service,
    ServiceSpec,
)
from levelset_dcp.services import FakeListeners, services_controller
from levelset_machine import HttpCheck, LogOptions
from systems.dcp.tests.support.containers import FakeProber, container, fake_container_host, read_log, status

ONE = Ref(Container, "one")


@pytest.fixture
def engine() -> InMemoryEngine:
    return InMemoryEngine()


@pytest.fixture
def host(engine: InMemoryEngine) -> ContainerHost:
    return fake_container_host(engine)


def probe(name: str, url: str, *, kind: str = "Continuous", headers: tuple[HttpHeader, ...] = ()) -> HealthProbe:
    schedule = ProbeSchedule(interval="5s", kind=kind)  # type: ignore[arg-type]  # one of the two
    return HealthProbe(name=name, type="HTTP", schedule=schedule, http_probe=HttpProbe(url=url, headers=headers))


async def test_the_health_check_of_the_image_is_a_probe_result(
    cluster: Cluster, engine: InMemoryEngine, host: ContainerHost
) -> None:
    engine.program("web:1", health="starting")
    async with cluster.running(containers_controller(host)):
        await cluster.create(container(container_name="web"))
        found = await status(cluster)
        (result,) = found.health_probe_results
        assert (result.probe_name, result.outcome, found.health_status) == ("__runtime", "Unknown", "Caution")
        engine.set_native_health("web", "healthy")
        assert (await status(cluster)).health_status == "Healthy"
        engine.set_native_health("web", "unhealthy", "out of memory")
        found = await status(cluster)
        (result,) = found.health_probe_results
        assert (result.outcome, result.reason, found.health_status) == ("Failure", "out of memory", "Unhealthy")


async def test_any_failing_probe_makes_it_unhealthy(cluster: Cluster, engine: InMemoryEngine) -> None:
    prober = FakeProber(good="Success", bad="Failure")
    async with cluster.running(containers_controller(fake_container_host(engine, prober=prober))):
        probes = (probe("a", "http://good/"), probe("b", "http://bad/"))
        await cluster.create(container(health_probes=probes))
        await cluster.advance(6)
        found = await status(cluster)
        assert found.health_status == "Unhealthy"
        assert {one.probe_name: one.outcome for one in found.health_probe_results} == {"a": "Success", "b": "Failure"}
        prober.outcomes["bad"] = "Success"
        await cluster.advance(6)
        assert (await status(cluster)).health_status == "Healthy"
        writes = len(cluster.history(ONE))
        await cluster.advance(60)
        assert len(cluster.history(ONE)) == writes


async def test_a_probe_until_success_ends_and_an_exited_container_is_not_probed(
    cluster: Cluster, engine: InMemoryEngine
) -> None:
    prober = FakeProber(once="Success", always="Success")
    async with cluster.running(containers_controller(fake_container_host(engine, prober=prober))):
        probes = (probe("a", "http://once/", kind="UntilSuccess"), probe("b", "http://always/"))
        await cluster.create(container(container_name="web", health_probes=probes))
        await cluster.advance(60)
        urls = [one.url for one in prober.checks if isinstance(one, HttpCheck)]
        assert urls.count("http://once/") == 1
        assert urls.count("http://always/") >= 10
        engine.exit("web", 0)
        await status(cluster)
        before = len(prober.checks)
        await cluster.advance(60)
        assert len(prober.checks) == before


async def test_a_probe_waits_for_the_services_of_its_templates(cluster: Cluster, engine: InMemoryEngine) -> None:
    prober = FakeProber(localhost="Success")
    host, listeners = fake_container_host(engine, prober=prober), FakeListeners()
    async with cluster.running(containers_controller(host), services_controller(listeners)):
        url = 'http://{{ addressFor "web" }}:{{ portFor "web" }}/{{ .Name }}'
        headers = (HttpHeader(name="X", value="{{ .Name }}"),)
        producer = {"service-producer": '[{"serviceName": "web", "port": 80}]'}
        probes = (probe("a", url, headers=headers),)
        ports = (ContainerPort(container_port=80),)
        await cluster.create(container(annotations=producer, ports=ports, health_probes=probes))
        await cluster.advance(10)
        assert (await status(cluster)).health_status == "Caution"
        await cluster.create(Service.new("web", ServiceSpec(port=8080)))
        await cluster.advance(10)
        assert (await status(cluster)).health_status == "Healthy"
        assert prober.checks[0] == HttpCheck("http://localhost:8080/one", (("X", "one"),))


async def test_stdout_stderr_startup_and_system_logs_can_be_read(
    cluster: Cluster, engine: InMemoryEngine, host: ContainerHost
) -> None:
    engine.program("own:1", prints=["hello", "again"], errors=["oh"], exits=3)
    logs = container_logs(host)
    async with cluster.running(containers_controller(host)):
        await cluster.create(container(image="", build=Build(context="/src", tags=("own:1",))))
        await status(cluster)
        assert await read_log(cluster, logs, ONE) == b"hello\nagain\n"
        assert await read_log(cluster, logs, ONE, source="stderr") == b"oh\n"
        assert await read_log(cluster, logs, ONE, tail="1", lineNumbers="true") == b"2 again\n"
        stamped = await read_log(cluster, logs, ONE, timestamps="true", limit="1")
        assert stamped.startswith(b"2026-01-01T00:00:00.")
        assert stamped.endswith(b"Z hello\n")
        assert await read_log(cluster, logs, ONE, source="startup_stdout") == b"building own:1 from /src\n"
        assert await read_log(cluster, logs, ONE, source="startup_stderr") == b""
        story = (await read_log(cluster, logs, ONE, source="system")).decode().splitlines()
        assert story[0] == "one is Pending"
        assert story[-1].endswith(", exit code 3")


async def test_the_error_of_a_failed_start_is_in_the_startup_stderr(
    cluster: Cluster, engine: InMemoryEngine, host: ContainerHost
) -> None:
    engine.fail_matching("create_container *", message="no space left")
    logs = container_logs(host)
    async with cluster.running(containers_controller(host)):
        await cluster.create(container())
        await status(cluster)
        assert await read_log(cluster, logs, ONE, source="startup_stderr") == b"no space left\n"
        assert await read_log(cluster, logs, ONE, follow="true") == b""


async def test_a_follower_before_the_start_gets_the_whole_output(
    cluster: Cluster, engine: InMemoryEngine, host: ContainerHost
) -> None:
    engine.program("web:1", prints=["one", (5.0, "two")], exits=0, after=9.0)
    async with cluster.running(containers_controller(host)):
        await cluster.create(container(start=False))
        await cluster.settled()
        reading = asyncio.create_task(read_log(cluster, container_logs(host), ONE, follow="true"))
        await cluster.advance(5)
        await cluster.patch(ONE, MergePatch({"spec": {"start": True}}))
        await cluster.advance(30)
        assert await reading == b"one\ntwo\n"


async def test_a_follower_gets_output_that_is_written_during_deletion(
    cluster: Cluster, engine: InMemoryEngine, host: ContainerHost
) -> None:
    async with cluster.running(containers_controller(host)):
        await cluster.create(container(container_name="web"))
        await status(cluster)
        engine.slow("stop_container", 5.0)
        reading = asyncio.create_task(read_log(cluster, container_logs(host), ONE, follow="true"))
        await cluster.advance(1)
        await cluster.delete(ONE)
        await cluster.advance(2)
        engine.print("web", "goodbye")
        await cluster.until_gone(ONE)
        assert await reading == b"goodbye\n"


async def test_an_unknown_log_source_is_rejected(cluster: Cluster, host: ContainerHost) -> None:
    async with cluster.running(containers_controller(host)):
        await cluster.create(container())
        await status(cluster)
        with pytest.raises(BadRequest, match="startup_stdout"):
            await read_log(cluster, container_logs(host), ONE, source="nonsense")


LINES = b"".join(f"2026-01-01T00:00:0{number}.123456789Z line {number}\n".encode() for number in range(1, 5))


@pytest.mark.parametrize(
    ("options", "after", "shown"),
    [
        (LogOptions(), 0, b"line 1\nline 2\nline 3\nline 4\n"),
        (LogOptions(), 3, b"line 4\n"),
        (LogOptions(limit_lines=2), 1, b"line 2\nline 3\n"),
        (LogOptions(limit_bytes=9), 0, b"line 1\nli"),
        (LogOptions(line_numbers=True, timestamps=True), 3, b"4 2026-01-01T00:00:04.123Z line 4\n"),
        (LogOptions(since=datetime(2026, 1, 1, 0, 0, 3, tzinfo=UTC)), 0, b"line 3\nline 4\n"),
    ],
)
@pytest.mark.parametrize("size", [1, 7, 1000])
def test_lines_are_filtered_however_the_chunks_are_cut(
    options: LogOptions, after: int, shown: bytes, size: int
) -> None:
    line_filter = LogLineFilter(options, after=after)
    pieces = [line_filter.add(LINES[place : place + size]) for place in range(0, len(LINES), size)]
    assert b"".join(pieces) + line_filter.end() == shown


def test_a_last_line_without_a_newline_is_returned() -> None:
    line_filter = LogLineFilter(LogOptions())
    assert line_filter.add(b"2026-01-01T00:00:01Z a\nno time") + line_filter.end() == b"a\nno time"
