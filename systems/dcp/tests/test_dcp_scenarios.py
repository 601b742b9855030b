"""DCP as somebody uses it: real programs, real ports, and what must hold whatever happens to them."""

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
from levelset_machine import Identity, Machine, identity_of, is_alive
from systems.dcp.tests.programs import exe
from systems.dcp.tests.sessions import WITHIN, lines_of, running_session, until_state

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
        with socket.create_connection((os.environ["HOST"], int(os.environ["PORT"])), timeout=20) as one:
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


async def test_one_that_prints_and_fails_shows_its_code_its_health_and_its_words() -> None:
    async with open_local(dcp_system()) as local:
        await local.client.create(exe("/bin/sh", args=("-c", "echo out; echo err >&2; exit 3")))
        done = await until_state(local.client, "one", "Finished")
        assert done.status is not None
        assert (done.status.exit_code, done.status.health_status) == (3, "Unhealthy")
        assert await lines_of(local.client, "one") == ["out"]


async def test_one_that_ignores_being_asked_is_gone_with_its_children() -> None:
    program = "trap '' TERM; sh -c \"trap '' TERM; echo \\$\\$; while :; do sleep 1; done\" & while :; do sleep 1; done"
    async with open_local(dcp_system(Options(grace=0.3))) as local:
        await local.client.create(exe("/bin/sh", args=("-c", program)))
        running = await until_state(local.client, "one", "Running")
        lines = local.client.logs(running.ref, follow=True)
        async with lines:
            child = identity_of(int(await anext(lines)))
        root = pid_of(running)
        assert child is not None
        await local.client.delete(running.ref)
        await local.client.wait_gone(running.ref, within=15)
        assert not is_alive(root)
        assert not is_alive(child)


async def wait_end(identity: Identity, *, within: float) -> None:
    """Returns when a process of somebody else's has ended."""
    async with asyncio.timeout(within), Machine(guard=False) as machine:
        run = machine.adopt(identity)
        if run is not None:
            await run.wait()


def pid_of(one: Executable) -> Identity:
    assert one.status is not None
    assert one.status.pid is not None
    found = identity_of(one.status.pid)
    assert found is not None
    return found


async def test_a_killed_manager_leaves_only_what_is_persistent_and_the_next_one_has_it(tmp_path: Path) -> None:
    kept = exe("/bin/sh", "kept", mode="persistent", args=("-c", "echo kept; while :; do sleep 0.2; done"))
    async with running_session(tmp_path) as session:
        await session.client.create(exe("/bin/sh", "gone", args=("-c", "sleep 1000 & wait")))
        await session.client.create(kept)
        gone = pid_of(await until_state(session.client, "gone", "Running"))
        persistent = pid_of(await until_state(session.client, "kept", "Running"))
        session.process.send_signal(signal.SIGKILL)
        await session.process.wait()
        await wait_end(gone, within=WITHIN)
    assert is_alive(persistent)
    async with running_session(tmp_path) as session:
        await session.client.create(kept)
        assert pid_of(await until_state(session.client, "kept", "Running")) == persistent
        assert await lines_of(session.client, "kept") == ["kept"]
        await session.client.patch(Ref(Executable, "kept"), MergePatch({"spec": {"stop": True}}))
        await until_state(session.client, "kept", "Finished")
        assert not is_alive(persistent)


async def test_a_server_that_is_started_anew_is_missed_by_nobody() -> None:
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


async def answering(client: Client, wanted: int) -> set[str]:
    """Who answers at the Service, asked until so many different ones do and no others."""
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
                    seen.add(await _ask(service.status.effective_address, service.status.effective_port))
    return seen


async def _ask(address: str, port: int) -> str:
    reader, writer = await asyncio.open_connection(address, port)
    try:
        writer.write(b"who\n")
        return (await reader.readuntil(b"\n")).decode().strip()
    finally:
        writer.close()
        await writer.wait_closed()


async def test_a_set_grows_and_shrinks_and_connections_are_spread_over_all() -> None:
    async with open_local(dcp_system(Options(grace=0.3))) as local:
        client, ref = local.client, Ref(ExecutableReplicaSet, "web")
        await client.create(Service.new("web", ServiceSpec()))
        await client.create(web_set(3))
        for number in (3, 5, 1):
            await client.patch(ref, MergePatch({"spec": {"replicas": number}}))
            await client.wait(ref, running(number), within=WITHIN)
            seen = await answering(client, number)
            pids = {str(one.status.pid) for one in await client.list(Executable) if one.status and one.status.pid}
            assert seen <= pids
            assert len(seen) == number


@pytest.mark.timeout(120)  # a thousand real processes
async def test_many_at_once_all_finish_with_few_writes_each() -> None:
    number = 1000
    async with open_local(dcp_system()) as local:
        made = [await local.client.create(exe("/bin/true", f"n{each}")) for each in range(number)]
        await all_finished(local.client, number)
        versions = [int(one.metadata.resource_version) for one in await local.client.list(Executable)]
        writes = max(versions) - int(made[0].metadata.resource_version)
        assert writes < number * 8, "each is made, given a finalizer, shown twice, and told of in Events"


async def all_finished(client: Client, number: int) -> None:
    """Returns when so many have ended well."""
    for each in range(number):
        ref = Ref(Executable, f"n{each}")
        done = await client.wait(ref, lambda one: bool(one.status and one.status.finish_timestamp), within=WITHIN)
        assert done.status is not None
        assert (done.status.state, done.status.exit_code) == ("Finished", 0)


@asynccontextmanager
async def suffering(*several: Any) -> AsyncGenerator[Client, None]:
    """A server whose client is fine, and a manager for which things go wrong."""
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


async def test_conflicts_keep_nothing_from_its_end_and_start_nothing_twice(tmp_path: Path) -> None:
    number, started = 60, tmp_path / "started"
    async with suffering(faults.conflict(share=0.2, seed=7)) as client:
        for each in range(number):
            await client.create(exe("/bin/sh", f"n{each}", args=("-c", f"echo {each} >> {started}")))
        await all_finished(client, number)
    lines = (await asyncio.to_thread(started.read_text)).split()
    assert sorted(map(int, lines)) == list(range(number))


async def test_late_watches_make_nothing_twice() -> None:
    # In virtual time they are two seconds late: see test_dcp_replicasets.
    async with suffering(faults.delayed_watch(0.2)) as client:
        await client.create(Service.new("web", ServiceSpec()))
        await client.create(web_set(3))
        await client.wait(Ref(ExecutableReplicaSet, "web"), running(3), within=WITHIN)
        assert len(await client.list(Executable)) == 3
        assert len(await client.list(Endpoint)) == 3
