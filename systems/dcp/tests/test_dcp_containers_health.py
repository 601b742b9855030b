"""How healthy a Container is, and what its logs show."""

import asyncio
from datetime import UTC, datetime

import pytest

from levelset import BadRequest, MergePatch, Ref
from levelset.testing import Cluster
from levelset_dcp.containers import Containers, container_logs, containers_controller
from levelset_dcp.containers.loglines import Picker
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
from levelset_dcp.services import PretendListeners, services_controller
from levelset_machine import HttpCheck, LogOptions
from systems.dcp.tests.engines_world import Answers, container, engine_world, read_log, status

ONE = Ref(Container, "one")


@pytest.fixture
def engine() -> InMemoryEngine:
    return InMemoryEngine()


@pytest.fixture
def world(engine: InMemoryEngine) -> Containers:
    return engine_world(engine)


def probe(name: str, url: str, *, kind: str = "Continuous", headers: tuple[HttpHeader, ...] = ()) -> HealthProbe:
    schedule = ProbeSchedule(interval="5s", kind=kind)  # type: ignore[arg-type]  # one of the two
    return HealthProbe(name=name, type="HTTP", schedule=schedule, http_probe=HttpProbe(url=url, headers=headers))


async def test_the_health_check_of_the_image_is_one_of_the_probes(
    cluster: Cluster, engine: InMemoryEngine, world: Containers
) -> None:
    engine.program("web:1", health="starting")
    async with cluster.running(containers_controller(world)):
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
    answers = Answers(good="Success", bad="Failure")
    async with cluster.running(containers_controller(engine_world(engine, prober=answers))):
        probes = (probe("a", "http://good/"), probe("b", "http://bad/"))
        await cluster.create(container(health_probes=probes))
        await cluster.advance(6)
        found = await status(cluster)
        assert found.health_status == "Unhealthy"
        assert {one.probe_name: one.outcome for one in found.health_probe_results} == {"a": "Success", "b": "Failure"}
        answers.outcomes["bad"] = "Success"
        await cluster.advance(6)
        assert (await status(cluster)).health_status == "Healthy"
        writes = len(cluster.history(ONE))
        await cluster.advance(60)
        assert len(cluster.history(ONE)) == writes


async def test_a_probe_until_success_ends_and_none_is_made_of_what_has_ended(
    cluster: Cluster, engine: InMemoryEngine
) -> None:
    answers = Answers(once="Success", always="Success")
    async with cluster.running(containers_controller(engine_world(engine, prober=answers))):
        probes = (probe("a", "http://once/", kind="UntilSuccess"), probe("b", "http://always/"))
        await cluster.create(container(container_name="web", health_probes=probes))
        await cluster.advance(60)
        asked = [one.url for one in answers.asked if isinstance(one, HttpCheck)]
        assert asked.count("http://once/") == 1
        assert asked.count("http://always/") >= 10
        engine.exit("web", 0)
        await status(cluster)
        before = len(answers.asked)
        await cluster.advance(60)
        assert len(answers.asked) == before


async def test_probes_have_templates_that_may_have_to_wait(cluster: Cluster, engine: InMemoryEngine) -> None:
    answers = Answers(localhost="Success")
    world, listeners = engine_world(engine, prober=answers), PretendListeners()
    async with cluster.running(containers_controller(world), services_controller(listeners)):
        url = 'http://{{ addressFor "web" }}:{{ portFor "web" }}/{{ .Name }}'
        headers = (HttpHeader(name="X", value="{{ .Name }}"),)
        said = {"service-producer": '[{"serviceName": "web", "port": 80}]'}
        probes = (probe("a", url, headers=headers),)
        ports = (ContainerPort(container_port=80),)
        await cluster.create(container(annotations=said, ports=ports, health_probes=probes))
        await cluster.advance(10)
        assert (await status(cluster)).health_status == "Caution"
        await cluster.create(Service.new("web", ServiceSpec(port=8080)))
        await cluster.advance(10)
        assert (await status(cluster)).health_status == "Healthy"
        assert answers.asked[0] == HttpCheck("http://localhost:8080/one", (("X", "one"),))


async def test_the_output_the_errors_and_the_story_can_be_read(
    cluster: Cluster, engine: InMemoryEngine, world: Containers
) -> None:
    engine.program("own:1", prints=["hello", "again"], errors=["oh"], exits=3)
    logs = container_logs(world)
    async with cluster.running(containers_controller(world)):
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


async def test_why_it_could_not_be_started_is_in_its_startup_errors(
    cluster: Cluster, engine: InMemoryEngine, world: Containers
) -> None:
    engine.fail_matching("create_container *", message="no space left")
    logs = container_logs(world)
    async with cluster.running(containers_controller(world)):
        await cluster.create(container())
        await status(cluster)
        assert await read_log(cluster, logs, ONE, source="startup_stderr") == b"no space left\n"
        assert await read_log(cluster, logs, ONE, follow="true") == b""


async def test_who_follows_before_the_start_gets_everything_until_the_end(
    cluster: Cluster, engine: InMemoryEngine, world: Containers
) -> None:
    engine.program("web:1", prints=["one", (5.0, "two")], exits=0, after=9.0)
    async with cluster.running(containers_controller(world)):
        await cluster.create(container(start=False))
        await cluster.settled()
        reading = asyncio.create_task(read_log(cluster, container_logs(world), ONE, follow="true"))
        await cluster.advance(5)
        await cluster.patch(ONE, MergePatch({"spec": {"start": True}}))
        await cluster.advance(30)
        assert await reading == b"one\ntwo\n"


async def test_what_is_written_after_deletion_was_asked_for_is_still_shown(
    cluster: Cluster, engine: InMemoryEngine, world: Containers
) -> None:
    async with cluster.running(containers_controller(world)):
        await cluster.create(container(container_name="web"))
        await status(cluster)
        engine.slow("stop_container", 5.0)
        reading = asyncio.create_task(read_log(cluster, container_logs(world), ONE, follow="true"))
        await cluster.advance(1)
        await cluster.delete(ONE)
        await cluster.advance(2)
        engine.print("web", "goodbye")
        await cluster.until_gone(ONE)
        assert await reading == b"goodbye\n"


async def test_an_unknown_source_is_refused(cluster: Cluster, world: Containers) -> None:
    async with cluster.running(containers_controller(world)):
        await cluster.create(container())
        await status(cluster)
        with pytest.raises(BadRequest, match="startup_stdout"):
            await read_log(cluster, container_logs(world), ONE, source="nonsense")


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
def test_lines_are_picked_however_they_are_cut(options: LogOptions, after: int, shown: bytes, size: int) -> None:
    picker = Picker(options, after=after)
    pieces = [picker.add(LINES[place : place + size]) for place in range(0, len(LINES), size)]
    assert b"".join(pieces) + picker.end() == shown


def test_a_last_line_without_an_end_is_shown_as_it_is() -> None:
    picker = Picker(LogOptions())
    assert picker.add(b"2026-01-01T00:00:01Z a\nno time") + picker.end() == b"a\nno time"
