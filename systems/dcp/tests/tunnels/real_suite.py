"""A tunnel on a real engine, in an image that the suite builds: no part of the default suite."""

import asyncio
import os
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

from levelset import Client, ObjectMeta, Ref
from levelset_dcp.engines import Engine
from levelset_dcp.engines.cli.arguments import Invocation
from levelset_dcp.engines.cli.process import Tool
from levelset_dcp.kinds import (
    Container,
    ContainerNetwork,
    ContainerNetworkSpec,
    ContainerNetworkTunnelProxy,
    Endpoint,
    EndpointSpec,
    NetworkRef,
    Service,
    ServiceSpec,
    Tunnel,
    TunnelProxySpec,
)
from systems.dcp.tests.containers.real_suite import client, engine, gone, shell, until
from systems.dcp.tests.engines.real_engine import PROGRAM

__all__ = ["client", "engine"]

IMAGE = "localhost/levelset-tunnels:1"

pytestmark = pytest.mark.timeout(180)


def write_python_image(path: Path) -> None:
    """Writes the file system with a shell, and this Python with its libraries, without packages and tests."""
    base, program = Path(sys.base_prefix), Path(getattr(sys, "_base_executable", sys.executable)).resolve()
    library = base / "lib" / f"python{sys.version_info.major}.{sys.version_info.minor}"
    printed = subprocess.run(["ldd", program], check=True, capture_output=True, text=True).stdout
    needed = [word for line in printed.splitlines() for word in line.split() if word.startswith("/")]
    skipped = {"site-packages", "test", "__pycache__", "idlelib", "ensurepip"}
    with tarfile.open(os.environ["LEVELSET_ENGINE_IMAGE"]) as given, tarfile.open(path, "w") as tar:
        for member in given:
            tar.addfile(member, given.extractfile(member) if member.isfile() else None)
        for one in (str(program), *needed):
            tar.add(Path(one).resolve(), one.lstrip("/"))
        tar.add(
            library,
            str(library).lstrip("/"),
            filter=lambda one: None if Path(one.name).name in skipped else one,
        )
        link = tarfile.TarInfo("bin/python3")
        link.type, link.linkname = tarfile.SYMTYPE, str(program)
        tar.addfile(link)


async def import_python_image(folder: Path) -> None:
    path = folder / "python.tar"
    await asyncio.to_thread(write_python_image, path)
    await Tool(PROGRAM).run(Invocation(("import", str(path), IMAGE)), operation="import the image")


async def answer_loudly(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write((await reader.readline()).upper())
    await writer.drain()
    writer.close()


async def test_a_container_reaches_a_service_of_this_machine_by_a_tunnel(
    client: Client, engine: Engine, tmp_path: Path
) -> None:
    await import_python_image(tmp_path)
    server = await asyncio.start_server(answer_loudly, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    network, proxy, caller = (
        Ref(ContainerNetwork, "net"),
        Ref(ContainerNetworkTunnelProxy, "proxy"),
        Ref(Container, "caller"),
    )
    async with server:
        await client.create(ContainerNetwork.new("net", ContainerNetworkSpec()))
        await client.create(Service.new("api", ServiceSpec(address_allocation_mode="Proxyless")))
        endpoint = EndpointSpec(service_name="api", address="127.0.0.1", port=port)
        await client.create(Endpoint(metadata=ObjectMeta(name="api"), spec=endpoint))
        await client.create(Service.new("api-inside", ServiceSpec(address_allocation_mode="Proxyless")))
        tunnel = Tunnel(name="api", server_service_name="api", client_service_name="api-inside")
        spec = TunnelProxySpec(container_network_name="net", aliases=("host",), tunnels=(tunnel,), base_image=IMAGE)
        await client.create(ContainerNetworkTunnelProxy.new("proxy", spec))
        found = await until(client, proxy, lambda one: [tunnel.state for tunnel in one.tunnel_statuses] == ["Ready"])
        (ready,) = found.tunnel_statuses
        script = f'test "$(echo hello | /bin/busybox nc -w 10 host {ready.client_proxy_port})" = HELLO && exit 7'
        await client.create(shell("caller", script, networks=(NetworkRef(name="net"),)))
        assert (await until(client, caller, lambda one: one.state == "Exited")).exit_code == 7
        for ref in (caller, proxy, network):
            await gone(client, ref)
    assert not [one for one in await engine.list_containers() if one.image == IMAGE]
