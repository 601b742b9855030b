"""Containers, networks, volumes and commands on a real engine, through the API; no part of the default suite."""

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
import pytest_asyncio

from levelset import Client, MergePatch, NotFound, Ref, open_local
from levelset_dcp.engines import Engine
from levelset_dcp.engines.retries import retry_call
from levelset_dcp.kinds import (
    Container,
    ContainerExec,
    ContainerExecSpec,
    ContainerNetwork,
    ContainerNetworkSpec,
    ContainerPort,
    ContainerVolume,
    ContainerVolumeSpec,
    Endpoint,
    EnvVar,
    FileEntry,
    FileSet,
    NetworkRef,
    Terminal,
    VolumeMount,
)
from levelset_dcp.system import Options, dcp_system
from systems.dcp.tests.engines.real_engine import import_image, open_real_engine
from systems.dcp.tests.support.containers import container
from systems.machine.tests.terminal_client import TerminalClient

IMAGE = "localhost/levelset-controllers:1"

pytestmark = pytest.mark.timeout(90)


@pytest_asyncio.fixture
async def engine() -> Engine:
    await import_image(IMAGE)
    return open_real_engine()


@pytest_asyncio.fixture
async def client(engine: Engine) -> AsyncIterator[Client]:
    async with open_local(dcp_system(Options(engine=engine))) as local:
        yield local.client


async def until(client: Client, ref: Ref[Any], is_right: Callable[[Any], bool]) -> Any:
    """Waits until the status of an object fulfils a condition."""
    found: Any = None
    for _ in range(300):
        found = (await client.get(ref)).status
        if found is not None and is_right(found):
            return found
        await asyncio.sleep(0.1)
    raise AssertionError(f"{ref} is still {found}")


async def gone(client: Client, ref: Ref[Any]) -> None:
    await client.delete(ref)
    for _ in range(300):
        try:
            await client.get(ref)
        except NotFound:
            return
        await asyncio.sleep(0.1)
    raise AssertionError(f"{ref} is still there")


def shell(name: str, script: str, **spec: Any) -> Container:
    stdin: dict[str, Any] = {"image": IMAGE, "pull_policy": "never", "command": "/bin/sh", **spec}
    return container(name, args=("-c", script), **stdin)


async def test_an_application_runs_in_its_network_and_leaves_nothing(client: Client, engine: Engine) -> None:
    await client.create(ContainerNetwork.new("net", ContainerNetworkSpec()))
    await client.create(ContainerVolume.new("data", ContainerVolumeSpec(name="levelset-data", persistent=False)))
    files = (FileSet(destination="/etc/app", entries=(FileEntry(name="hello", contents="from a file\n", mode=0o600),)),)
    made = shell(
        "web",
        "cat /etc/app/hello; echo $WORD > /data/said; trap 'exit 9' TERM; while true; do sleep 1; done",
        env=(EnvVar(name="WORD", value="{{ .Name }}"),),
        networks=(NetworkRef(name="net", aliases=("web",)),),
        ports=(ContainerPort(container_port=80),),
        volume_mounts=(VolumeMount(source="levelset-data", target="/data", type="volume"),),
        create_files=files,
        annotations={"service-producer": '[{"serviceName": "web", "port": 80}]'},
    )
    await client.create(made)
    web = Ref(Container, "web")
    found = await until(client, web, lambda one: one.state == "Running" and one.networks == ("net",))
    info = await engine.inspect_container(found.container_id)
    (endpoint,) = await client.list(Endpoint)
    assert endpoint.spec.port == info.ports[0].host_port
    await client.create(
        ContainerExec.new(
            "run", ContainerExecSpec(container_name="web", command="/bin/sh", args=("-c", "cat /data/said; exit 3"))
        )
    )
    run = await until(client, Ref(ContainerExec, "run"), lambda one: one.state == "Finished")
    assert run.exit_code == 3
    await client.patch(web, MergePatch({"spec": {"stop": True}}))
    found = await until(client, web, lambda one: one.state == "Exited")
    assert found.exit_code == 9
    for ref in (Ref(ContainerExec, "run"), web, Ref(ContainerNetwork, "net"), Ref(ContainerVolume, "data")):
        await gone(client, ref)
    assert not [one for one in await engine.list_containers() if one.image == IMAGE]
    assert not [one for one in await engine.list_networks() if one.name.startswith("net-")]


async def test_a_container_that_exits_at_once_and_one_that_is_removed_externally(
    client: Client, engine: Engine
) -> None:
    await client.create(shell("job", "echo done; exit 4"))
    found = await until(client, Ref(Container, "job"), lambda one: one.state == "Exited")
    assert (found.exit_code, found.health_status) == (4, "Unhealthy")
    await client.create(shell("web", "while true; do sleep 1; done"))
    found = await until(client, Ref(Container, "web"), lambda one: one.state == "Running")
    made = found.container_id
    await retry_call(lambda: engine.remove_container(made, force=True))
    await until(client, Ref(Container, "web"), lambda one: one.state == "Unknown")
    for name in ("job", "web"):
        await gone(client, Ref(Container, name))


async def test_a_persistent_container_is_adopted_again(client: Client, engine: Engine) -> None:
    ids: list[str] = []
    for _ in range(2):
        await client.create(
            shell("web", "while true; do sleep 1; done", container_name="levelset-lasting", persistent=True)
        )
        found = await until(client, Ref(Container, "web"), lambda one: one.state == "Running")
        ids.append(found.container_id)
        await gone(client, Ref(Container, "web"))
    assert ids[0] == ids[1]
    await client.create(container("web", image="", mode="cleanup", container_name="levelset-lasting"))
    await until(client, Ref(Container, "web"), lambda one: one.state == "Running")
    await gone(client, Ref(Container, "web"))
    assert not [one for one in await engine.list_containers() if one.name == "levelset-lasting"]


async def test_a_terminal_has_size_input_and_exit_code(client: Client) -> None:
    script = """
reach() { while [ "$(/bin/busybox stty size 2>&1)" != "$1" ]; do sleep 0.1; done; echo "is $1"; }
reach "30 100"; reach "40 120"; read word; echo "got $word"; exit 5
"""
    await client.create(shell("web", script, terminal=Terminal(cols=100, rows=30)))
    web = Ref(Container, "web")
    found = await until(client, web, lambda one: one.state == "Running" and one.terminal_socket_path != "")
    terminal = await TerminalClient.connect(found.terminal_socket_path)
    await terminal.read_until(b"is 30 100")
    terminal.resize(120, 40)
    await terminal.read_until(b"is 40 120")
    terminal.type(b"hello\n")
    assert b"got hello" in await terminal.read_to_end()
    assert (terminal.size, terminal.exit_code) == ((100, 30), 5)
    assert (await until(client, web, lambda one: one.state == "Exited")).exit_code == 5
    late = await TerminalClient.connect(found.terminal_socket_path)
    assert b"got hello" in await late.read_to_end()
    assert late.exit_code == 5
    await gone(client, web)


async def test_a_container_that_is_stopped_ends_its_terminal(client: Client, engine: Engine) -> None:
    script = "trap 'exit 9' TERM; echo ready; while true; do sleep 1; done"
    await client.create(shell("web", script, terminal=Terminal()))
    web = Ref(Container, "web")
    found = await until(client, web, lambda one: one.state == "Running" and one.terminal_socket_path != "")
    terminal = await TerminalClient.connect(found.terminal_socket_path)
    await terminal.read_until(b"ready")
    await client.patch(web, MergePatch({"spec": {"stop": True}}))
    await terminal.read_to_end()
    assert (terminal.exit_code, (await until(client, web, lambda one: one.state == "Exited")).exit_code) == (9, 9)
    await gone(client, web)
    await client.create(shell("lost", "true", command="/no/such/program", terminal=Terminal()))
    lost = await until(client, Ref(Container, "lost"), lambda one: one.state == "FailedToStart")
    assert "/no/such/program" in lost.message
    await gone(client, Ref(Container, "lost"))
    assert not [one for one in await engine.list_containers() if one.image == IMAGE]


async def test_a_failed_start_reports_the_error_of_the_engine(client: Client) -> None:
    await client.create(shell("web", "true", image="localhost/no-such-image:1"))
    found = await until(client, Ref(Container, "web"), lambda one: one.state == "FailedToStart")
    assert "no-such-image" in found.message
    await gone(client, Ref(Container, "web"))
