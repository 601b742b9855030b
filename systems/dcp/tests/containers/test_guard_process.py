"""The guard process: containers that stop with a monitored process, and the orphans of killed sessions."""

import asyncio
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from datetime import UTC, datetime

import pytest

from levelset.objects import MicroTime
from levelset.testing import Cluster
from levelset_dcp.containers import containers_controller
from levelset_dcp.containers.guard_process import guard_container, guard_session, main
from levelset_dcp.containers.host import session_guard
from levelset_dcp.engines import InMemoryEngine, NewContainer, RuntimeNotHealthy
from levelset_dcp.executables.monitor_process import began
from levelset_dcp.names import labels_of
from levelset_machine import FakeMachine, Identity, identity_of
from systems.dcp.tests.support.containers import container, fake_container_host, names, status

AT = datetime(2026, 1, 1, tzinfo=UTC)


@asynccontextmanager
async def process() -> AsyncGenerator[tuple[asyncio.subprocess.Process, Identity], None]:
    made = await asyncio.create_subprocess_exec(sys.executable, "-c", "import time; time.sleep(60)")
    identity = identity_of(made.pid)
    assert identity is not None
    try:
        yield made, identity
    finally:
        if made.returncode is None:
            made.kill()
        await made.wait()


async def run(engine: InMemoryEngine, name: str, creator: Identity, *, is_persistent: bool) -> str:
    labels = labels_of(container(), creator, is_persistent=is_persistent)
    made = await engine.create_container(NewContainer(image="web:1", name=name, labels=labels))
    await engine.start_container(made)
    return made


async def test_a_container_is_stopped_when_the_process_that_it_names_ends() -> None:
    engine = InMemoryEngine()
    async with process() as (child, identity):
        made = await run(engine, "lasting", identity, is_persistent=True)
        at = await asyncio.to_thread(began, identity)
        assert at is not None
        guard = asyncio.create_task(guard_container(engine, made, identity.pid, at))
        await asyncio.sleep(0)
        assert (await engine.inspect_container(made)).is_running
        child.kill()
        await guard
        assert (await engine.inspect_container(made)).is_over


async def test_a_process_with_another_start_time_is_another_process() -> None:
    engine = InMemoryEngine()
    async with process() as (_, identity):
        made = await run(engine, "lasting", identity, is_persistent=True)
        await guard_container(engine, made, identity.pid, 12345.0)
        assert (await engine.inspect_container(made)).is_over


async def test_the_session_objects_of_a_killed_session_are_removed() -> None:
    engine = InMemoryEngine()
    async with process() as (child, identity):
        await run(engine, "mine", identity, is_persistent=False)
        await run(engine, "lasting", identity, is_persistent=True)
        guard = asyncio.create_task(guard_session(engine, identity))
        await asyncio.sleep(0)
        child.kill()
        await guard
        assert await names(engine) == ["lasting"]


async def test_a_persistent_container_with_a_monitored_process_gets_a_guard(cluster: Cluster) -> None:
    machine = FakeMachine()
    machine.program("*")
    host = fake_container_host(InMemoryEngine(), runner=machine)
    async with cluster.running(containers_controller(host)):
        await cluster.create(
            container(container_name="web", persistent=True, monitor_pid=4711, monitor_timestamp=MicroTime.of(AT))
        )
        found = await status(cluster)
        (guard,) = machine.running
        assert guard.command.argv[2:] == (
            "levelset_dcp.containers.guard_process",
            "container",
            "memory",
            found.container_id,
            "4711",
            str(AT.timestamp()),
        )


async def test_the_guard_of_a_session_starts_with_the_first_use_of_a_healthy_engine() -> None:
    machine = FakeMachine()
    machine.program("*")
    engine = InMemoryEngine()
    host = fake_container_host(engine, runner=machine)
    host.session_guard = session_guard("docker", Identity(1, 2), {})
    engine.set_health(False)
    with pytest.raises(RuntimeNotHealthy):
        await host.healthy_engine()
    assert list(machine.running) == []
    engine.set_health(True)
    await host.healthy_engine()
    await host.healthy_engine()
    (guard,) = machine.running
    assert guard.command.argv[2:] == ("levelset_dcp.containers.guard_process", "session", "docker", "1", "2")


def test_a_guard_inherits_only_the_variables_of_the_engine() -> None:
    ambient = {"PATH": "/bin", "DOCKER_HOST": "unix:///x", "SECRET": "1"}
    command = session_guard("docker", Identity(1, 2), ambient)
    assert command.argv[-4:] == ("session", "docker", "1", "2")
    assert set(command.env) == {"PATH", "DOCKER_HOST", "PYTHONPATH"}


@pytest.mark.parametrize(
    "arguments", [[], ["nonsense", "memory"], ["session", "memory", "x", "y"], ["container", "none"]]
)
def test_a_usage_error_prints_the_usage(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(arguments) == 2
    assert "python -m levelset_dcp.containers.guard_process" in capsys.readouterr().err


def test_a_guard_of_a_dead_session_returns_at_once() -> None:
    assert main(["session", "memory", "999999", "1"]) == 0
