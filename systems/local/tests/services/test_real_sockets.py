"""Pods are reachable through their Services, over real sockets, as soon as they are ready."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager

import pytest

from levelset import Client, MergePatch, Ref, System
from levelset.kinds.core_v1 import Pod, Service
from levelset.kinds.events_v1 import Event
from levelset.runtime.manager import open_local
from levelset_local.endpoints import endpoint_slices_controller
from levelset_local.services import ListenAddress, Proxies, service_lookup, services_controller
from levelset_machine import Block, claim_block, resolve_host
from systems.local.tests.endpoints.endpoint_samples import pod, service


@pytest.fixture
def block() -> Iterator[Block]:
    with claim_block() as made:
        yield made


@asynccontextmanager
async def local_server(block: Block) -> AsyncIterator[tuple[Client, Proxies]]:
    """A server whose Services have addresses of the block, with their proxies."""
    async with Proxies() as proxies:
        controllers = [endpoint_slices_controller(), services_controller(proxies)]
        system = System(name="network", controllers=controllers, service_addresses=block.services)
        async with open_local(system) as local:
            yield local.client, proxies


@asynccontextmanager
async def program(address: str, word: str, port: int = 0) -> AsyncIterator[int]:
    """A server that responds to each connection with a text."""

    async def serve(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(word.encode())
        writer.close()
        await writer.wait_closed()

    server = await asyncio.start_server(serve, address, port)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()


async def fetch(place: str) -> str:
    address, _, port = place.partition(":")
    reader, writer = await asyncio.open_connection(address, int(port))
    try:
        return (await reader.read()).decode()
    finally:
        writer.close()
        await writer.wait_closed()


async def start(client: Client, name: str, ip: str, port: int) -> None:
    await client.create(pod(name, real=True, ports=[("http", port, "TCP")]), namespace="default")
    status = {"phase": "Running", "podIP": ip, "conditions": [{"type": "Ready", "status": "True"}]}
    await client.patch(Ref(Pod, name, "default"), MergePatch({"status": status}), subresource="status")


async def until(condition: Callable[[], Awaitable[bool]]) -> None:
    async with asyncio.timeout(120):
        while not await condition():  # noqa: ASYNC110 -- what it waits for is the system's doing
            await asyncio.sleep(0)


async def until_open(proxies: Proxies, address: str, port: int) -> None:
    async def is_open() -> bool:
        return ListenAddress(address, port) in proxies.listeners

    await until(is_open)


async def test_a_connection_waits_for_the_first_ready_pod(block: Block) -> None:
    ip = block.pods.allocate()
    async with local_server(block) as (client, proxies), program(ip, "hello") as port:
        made = await client.create(service(), namespace="default")
        name = resolve_host("web.default.svc.cluster.local:80", service_lookup([made]))
        assert name.startswith(block.services.partition("0.0/")[0])
        await until_open(proxies, name.removesuffix(":80"), 80)
        fetching = asyncio.create_task(fetch(name))
        await start(client, "a", ip, port)
        assert await fetching == "hello"


async def test_a_node_port_service_is_reachable_on_localhost(block: Block) -> None:
    ip = block.pods.allocate()
    async with local_server(block) as (client, proxies), program(ip, "hello") as port:
        made = await client.create(service(type="NodePort"), namespace="default")
        node = made.spec.ports[0].node_port or 0
        await start(client, "a", ip, port)
        await until_open(proxies, "127.0.0.1", node)
        assert await fetch(f"127.0.0.1:{node}") == "hello"


async def test_new_connections_follow_a_change_of_pods(block: Block) -> None:
    one, two = block.pods.allocate(), block.pods.allocate()
    async with local_server(block) as (client, proxies), program(one, "one") as port, program(two, "two", port):
        made = await client.create(service(), namespace="default")
        here = made.spec.cluster_ip or ""
        await start(client, "one", one, port)
        await until_open(proxies, here, 80)
        assert await fetch(f"{here}:80") == "one"
        await client.delete(Ref(Pod, "one", "default"), grace=0)
        await start(client, "two", two, port)
        await until(lambda: responds("two", f"{here}:80"))


async def responds(text: str, place: str) -> bool:
    return await fetch(place) == text


async def test_an_address_in_use_is_reported_as_an_event(block: Block) -> None:
    here = block.services.replace("0.0/17", "0.9")
    async with local_server(block) as (client, _), program(here, "me first") as taken:
        await client.create(service(clusterIP=here, ports=[{"port": taken}]), namespace="default")
        message = (
            f"cannot listen on {here}:{taken}: the address is already in use; "
            "stop the program that listens there, or use another port"
        )

        async def is_reported() -> bool:
            return message in {one.note for one in await client.list(Event, namespace="default")}

        await until(is_reported)


async def test_a_deleted_service_refuses_connections(block: Block) -> None:
    async with local_server(block) as (client, proxies):
        made = await client.create(service(), namespace="default")
        here = made.spec.cluster_ip or ""
        await until_open(proxies, here, 80)
        await client.delete(Ref(Service, "web", "default"))

        async def is_closed() -> bool:
            return not proxies.listeners

        await until(is_closed)
        with pytest.raises(ConnectionRefusedError):
            await fetch(f"{here}:80")
