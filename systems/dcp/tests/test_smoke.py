"""DCP with real processes, real ports and real logs."""

import sys
from typing import Any

from levelset import Client, Ref, open_local
from levelset_dcp.kinds import EnvVar, Executable, Service, ServiceSpec
from levelset_dcp.system import dcp_system
from levelset_machine import identity_of, is_alive
from systems.dcp.tests.support.executables import exe

SERVER = """
import asyncio, os
async def answer(reader, writer):
    writer.write((await reader.readline()).upper()); await writer.drain(); writer.close()
async def main():
    server = await asyncio.start_server(answer, "127.0.0.1", int(os.environ["PORT"]))
    print("listening", flush=True)
    await server.serve_forever()
asyncio.run(main())
"""
CLIENT = """
import os, socket
with socket.create_connection((os.environ["HOST"], int(os.environ["PORT"])), timeout=120) as one:
    one.sendall(b"hello\\n")
    print(one.makefile().readline(), end="", flush=True)
"""


async def until(client: Client, name: str, state: str) -> Executable:
    return await client.wait(
        Ref(Executable, name), lambda one: bool(one.status and one.status.state == state), within=120
    )


async def text(client: Client, name: str, **query: Any) -> list[str]:
    async with client.logs(Ref(Executable, name), **query) as lines:
        return [line async for line in lines]


async def test_a_program_that_prints_and_fails(tmp_path: object) -> None:
    async with open_local(dcp_system()) as local:
        await local.client.create(exe("/bin/sh", args=("-c", "echo out; echo err >&2; exit 3")))
        done = await until(local.client, "one", "Finished")
        assert done.status is not None
        assert (done.status.exit_code, done.status.health_status) == (3, "Unhealthy")
        assert await text(local.client, "one") == ["out"]


async def test_a_client_finds_its_server_in_any_order_of_creation() -> None:
    async with open_local(dcp_system()) as local:
        env = (EnvVar(name="HOST", value='{{ addressFor "web" }}'), EnvVar(name="PORT", value='{{ portFor "web" }}'))
        await local.client.create(exe(sys.executable, "client", args=("-c", CLIENT), env=env))
        await local.client.create(Service.new("web", ServiceSpec()))
        served = (EnvVar(name="PORT", value='{{ portForServing "web" }}'),)
        producer = {"service-producer": '[{"serviceName": "web"}]'}
        await local.client.create(exe(sys.executable, "server", producer, args=("-c", SERVER), env=served))
        done = await until(local.client, "client", "Finished")
        assert done.status is not None
        assert done.status.exit_code == 0
        assert await text(local.client, "client") == ["HELLO"]


async def test_deletion_stops_the_whole_process_tree() -> None:
    async with open_local(dcp_system()) as local:
        await local.client.create(exe("/bin/sh", args=("-c", "sleep 1000 & echo $!; wait")))
        running = await until(local.client, "one", "Running")
        lines = local.client.logs(Ref(Executable, "one"), follow=True)
        async with lines:
            child = identity_of(int(await anext(lines)))
        assert child is not None
        await local.client.delete(running.ref)
        await local.client.wait_gone(running.ref, within=120)
        assert not is_alive(child)
