"""End-to-end scenarios of DCP with real programs and ports, with crashes and faults."""

import asyncio
import contextlib
import signal
import sys
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from levelset import Client, MergePatch, Ref, System, open_local
from levelset.runtime.manager import Manager
from levelset.testing import faults
from levelset_dcp.kinds import (
    Endpoint,
    EnvVar,
    Executable,
    ExecutableReplicaSet,
    ExecutableReplicaSetSpec,
    ExecutableSpec,
    ExecutableTemplate,
    Service,
    ServiceSpec,
)
from levelset_dcp.system import KINDS, Options, dcp_system
from levelset_machine import identity_of, is_alive
from systems.dcp.tests.support.executables import exe
from systems.dcp.tests.support.sessions import (
    WITHIN,
    identity_of_process,
    lines_of,
    running_session,
    until_state,
    wait_for_exit,
)

PRODUCER = {"service-producer": '[{"serviceName": "web"}]'}
SERVER = """
import asyncio, os
async def answer(reader, writer):
    await reader.readline(); writer.write(f"{os.getpid()}\\n".encode()); await writer.drain(); writer.close()
async def main():
    async with await asyncio.start_server(answer, "127.0.0.1", int(os.environ["PORT"])) as server:
        print("listening", flush=True)
        await server.serve_forever()
asyncio.run(main())
"""
CLIENT = """
import os, socket, time
seen = []
while len(seen) < 2:
    try:
        with socket.create_connection((os.environ["HOST"], int(os.environ["PORT"])), timeout=120) as one:
            one.sendall(b"who\\n")
            answer = one.makefile().readline().strip()
    except OSError:
        answer = ""
    if answer and answer not in seen:
        seen.append(answer); print("server", len(seen), flush=True)
    time.sleep(0.02)
"""
SERVED = (EnvVar(name="PORT", value='{{ portForServing "web" }}'),)
FINDS = (EnvVar(name="HOST", value='{{ addressFor "web" }}'), EnvVar(name="PORT", value='{{ portFor "web" }}'))


async def test_a_failed_program_has_its_exit_code_its_health_and_its_output() -> None:
    async with open_local(dcp_system()) as local:
        await local.client.create(exe("/bin/sh", args=("-c", "echo out; echo err >&2; exit 3")))
        done = await until_state(local.client, "one", "Finished")
        assert done.status is not None
        assert (done.status.exit_code, done.status.health_status) == (3, "Unhealthy")
        assert await lines_of(local.client, "one") == ["out"]


async def test_a_program_that_ignores_sigterm_is_killed_with_its_children() -> None:
    program = "trap '' TERM; sh -c \"trap '' TERM; echo \\$\\$; while :; do sleep 1; done\" & while :; do sleep 1; done"
    async with open_local(dcp_system(Options(grace=0.3))) as local:
        await local.client.create(exe("/bin/sh", args=("-c", program)))
        running = await until_state(local.client, "one", "Running")
        lines = local.client.logs(running.ref, follow=True)
        async with lines:
            child = identity_of(int(await anext(lines)))
        root = identity_of_process(running)
        assert child is not None
        await local.client.delete(running.ref)
        await local.client.wait_gone(running.ref, within=120)
        assert not is_alive(root)
        assert not is_alive(child)


async def test_only_persistent_programs_survive_a_killed_manager_and_are_adopted(tmp_path: Path) -> None:
    persistent_program = exe(
        "/bin/sh", "daemon", mode="persistent", args=("-c", "echo ready; while :; do sleep 0.2; done")
    )
    async with running_session(tmp_path) as session:
        await session.client.create(exe("/bin/sh", "gone", args=("-c", "sleep 1000 & wait")))
        await session.client.create(persistent_program)
        gone = identity_of_process(await until_state(session.client, "gone", "Running"))
        persistent = identity_of_process(await until_state(session.client, "daemon", "Running"))
        session.process.send_signal(signal.SIGKILL)
        await session.process.wait()
        await wait_for_exit(gone, within=WITHIN)
    assert is_alive(persistent)
    async with running_session(tmp_path) as session:
        await session.client.create(persistent_program)
        assert identity_of_process(await until_state(session.client, "daemon", "Running")) == persistent
        assert await lines_of(session.client, "daemon") == ["ready"]
        await session.client.patch(Ref(Executable, "daemon"), MergePatch({"spec": {"stop": True}}))
        await until_state(session.client, "daemon", "Finished")
        assert not is_alive(persistent)


async def test_clients_reach_a_restarted_server() -> None:
    async with open_local(dcp_system(Options(grace=0.3))) as local:
        client, server = local.client, exe(sys.executable, "server", PRODUCER, args=("-c", SERVER), env=SERVED)
        await client.create(exe(sys.executable, "client", args=("-c", CLIENT), env=FINDS))
        await client.create(Service.new("web", ServiceSpec()))
        await client.create(server)
        lines = client.logs(Ref(Executable, "client"), follow=True)
        async with lines:
            assert await anext(lines) == "server 1"
        await client.delete(server.ref)
        await client.wait_gone(server.ref, within=WITHIN)
        await client.create(server)
        done = await until_state(client, "client", "Finished")
        assert done.status is not None
        assert done.status.exit_code == 0
        assert await lines_of(client, "client") == ["server 1", "server 2"]


def web_set(replicas: int) -> ExecutableReplicaSet:
    spec = ExecutableSpec(executable_path=sys.executable, args=("-c", SERVER), env=SERVED)
    template = ExecutableTemplate(spec=spec, annotations=PRODUCER)
    return ExecutableReplicaSet.new("web", ExecutableReplicaSetSpec(template=template, replicas=replicas))


def running(number: int) -> Callable[[ExecutableReplicaSet], bool]:
    return lambda one: one.status is not None and one.status.running_replicas == number


async def responding_pids(client: Client, wanted: int) -> set[str]:
    """The PIDs that respond at the Service; requests are repeated until there are `wanted` different ones."""
    service = await client.wait(
        Ref(Service, "web"), lambda one: bool(one.status and one.status.state == "Ready"), within=WITHIN
    )
    assert service.status is not None
    seen: set[str] = set()
    async with asyncio.timeout(WITHIN):
        while len(seen) != wanted:
            seen = set()
            for _ in range(wanted * 12):
                with contextlib.suppress(OSError, asyncio.IncompleteReadError):
                    seen.add(await _request(service.status.effective_address, service.status.effective_port))
    return seen


async def _request(address: str, port: int) -> str:
    reader, writer = await asyncio.open_connection(address, port)
    try:
        writer.write(b"who\n")
        return (await reader.readuntil(b"\n")).decode().strip()
    finally:
        writer.close()
        await writer.wait_closed()


async def test_a_set_scales_and_connections_are_spread_over_its_replicas() -> None:
    async with open_local(dcp_system(Options(grace=0.3))) as local:
        client, ref = local.client, Ref(ExecutableReplicaSet, "web")
        await client.create(Service.new("web", ServiceSpec()))
        await client.create(web_set(3))
        for number in (3, 5, 1):
            await client.patch(ref, MergePatch({"spec": {"replicas": number}}))
            await client.wait(ref, running(number), within=WITHIN)
            seen = await responding_pids(client, number)
            pids = {str(one.status.pid) for one in await client.list(Executable) if one.status and one.status.pid}
            assert seen <= pids
            assert len(seen) == number


@pytest.mark.parametrize("number", [200, pytest.param(1000, marks=pytest.mark.robustness)])
async def test_many_at_once_all_finish_with_few_writes_each(number: int) -> None:
    async with open_local(dcp_system()) as local:
        made = [await local.client.create(exe("/bin/true", f"n{each}")) for each in range(number)]
        await all_finished(local.client, number)
        versions = [int(one.metadata.resource_version) for one in await local.client.list(Executable)]
        writes = max(versions) - int(made[0].metadata.resource_version)
        assert writes < number * 8, "each is created, gets a finalizer, two status updates, and Events"


async def all_finished(client: Client, number: int) -> None:
    """Waits until so many Executables have finished with exit code 0."""
    for each in range(number):
        ref = Ref(Executable, f"n{each}")
        done = await client.wait(ref, lambda one: bool(one.status and one.status.finish_timestamp), within=WITHIN)
        assert done.status is not None
        assert (done.status.state, done.status.exit_code) == ("Finished", 0)


@asynccontextmanager
async def faulty_manager(*several: Any) -> AsyncGenerator[Client, None]:
    """A server with a healthy client, and a manager whose client has faults."""
    around = dcp_system(Options(grace=0.3)).around
    assert around is not None
    kinds = System(name="kinds", kinds=KINDS)
    async with around() as system, open_local(kinds) as local:
        assert system is not None
        hooks = faults.hooks_of(several)
        async with await Client.connect(local.server, wire_hooks=hooks) as client:
            manager = Manager(client)
            for one in system.controllers:
                manager.add(one)
            async with manager:
                yield local.client


async def test_all_programs_finish_despite_conflicts_and_start_once(tmp_path: Path) -> None:
    number, started = 60, tmp_path / "started"
    async with faulty_manager(faults.conflict(share=0.2, seed=7)) as client:
        for each in range(number):
            await client.create(exe("/bin/sh", f"n{each}", args=("-c", f"echo {each} >> {started}")))
        await all_finished(client, number)
    lines = (await asyncio.to_thread(started.read_text)).split()
    assert sorted(map(int, lines)) == list(range(number))


async def test_late_watches_create_nothing_twice() -> None:
    # test_replica_sets has a watch that is two seconds late, in virtual time.
    async with faulty_manager(faults.delayed_watch(0.2)) as client:
        await client.create(Service.new("web", ServiceSpec()))
        await client.create(web_set(3))
        await client.wait(Ref(ExecutableReplicaSet, "web"), running(3), within=WITHIN)
        assert len(await client.list(Executable)) == 3
        assert len(await client.list(Endpoint)) == 3
