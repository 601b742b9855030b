"""Terminals of containers, with a fake tool of the engine and real sockets: first output, exit codes and failures."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest
import pytest_asyncio

from levelset import Client, MergePatch, NotFound, Ref, open_local
from levelset.errors import BadRequest
from levelset_dcp.kinds import Container, ContainerStatus, Terminal
from levelset_dcp.system import Options, dcp_system
from levelset_machine.process.table import read_table
from systems.dcp.tests.engines.cli.fake_bench import FakeBench
from systems.dcp.tests.support.containers import container
from systems.machine.tests.terminal_client import TerminalClient

__all__: list[str] = []

ONE = Ref(Container, "one")
WITHIN = 60.0
WAITS = "echo ready; trap 'exit 9' TERM; while true; do sleep 0.1; done"


@pytest.fixture(params=["docker", "podman"])
def bench(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[FakeBench]:
    made = FakeBench(tmp_path, request.param)
    yield made
    made.end()


@pytest_asyncio.fixture
async def client(bench: FakeBench) -> AsyncIterator[Client]:
    already = await asyncio.to_thread(guards)
    async with open_local(dcp_system(Options(engine=bench.engine))) as local:
        yield local.client
    await asyncio.to_thread(end, await asyncio.to_thread(guards) - already)


def guards() -> set[int]:
    """The processes of Machines that are children of this one: the guard of a session lasts until this one ends."""
    return {one.pid for one in read_table(markers=True) if one.parent == os.getpid() and one.marker}


def end(processes: set[int]) -> None:
    for one in processes:
        os.kill(one, signal.SIGKILL)
        with suppress(ChildProcessError):
            os.waitpid(one, 0)


def shown(script: str, bench: FakeBench, **settings: str) -> Container:
    return container(image=bench.image, command="/bin/sh", args=("-c", script), terminal=Terminal(**settings))  # type: ignore[arg-type]  # texts


async def until(client: Client, is_right: Callable[[ContainerStatus], bool]) -> ContainerStatus:
    found = await client.wait(ONE, lambda one: one.status is not None and is_right(one.status), within=WITHIN)
    assert found.status is not None
    return found.status


async def test_a_terminal_has_the_first_output_and_the_exit_code(client: Client, bench: FakeBench) -> None:
    await client.create(shown(WAITS, bench))
    running = await until(client, lambda one: one.state == "Running" and one.terminal_socket_path != "")
    terminal = await TerminalClient.connect(running.terminal_socket_path)
    assert await terminal.read_until(b"ready") == b"ready"
    with pytest.raises(BadRequest, match="one runs on a terminal, which has no stdout"):
        async with client.logs(ONE) as lines:
            assert [line async for line in lines] == []
    await client.patch(ONE, MergePatch({"spec": {"stop": True}}))
    await terminal.read_to_end()
    assert (terminal.exit_code, (await until(client, lambda one: one.state == "Exited")).exit_code) == (9, 9)
    late = await TerminalClient.connect(running.terminal_socket_path)
    assert b"ready" in await late.read_to_end()
    assert late.exit_code == 9
    await client.delete(ONE)
    await client.wait_gone(ONE, within=WITHIN)
    assert not await asyncio.to_thread(Path(running.terminal_socket_path).exists)
    with pytest.raises(NotFound):
        await client.get(ONE)


async def test_a_container_that_cannot_be_started_on_its_terminal_says_why(client: Client, bench: FakeBench) -> None:
    await bench.set_fault("refuse-start", "the port is taken")
    await client.create(shown(WAITS, bench))
    assert "the port is taken" in (await until(client, lambda one: one.state == "FailedToStart")).message


async def test_a_terminal_on_a_missing_socket_fails(client: Client, bench: FakeBench, tmp_path: Path) -> None:
    await client.create(shown(WAITS, bench, uds_path=str(tmp_path / "missing"), socket_mode="connect"))
    found = await until(client, lambda one: one.state == "FailedToStart")
    assert found.message.startswith("cannot open the terminal: ")
