"""A Pod is reached through its Service, over real sockets, from the moment it is ready."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager

import pytest

from levelset import Client, MergePatch, Ref, System
from levelset.kinds.core_v1 import Pod, Service
from levelset.kinds.events_v1 import Event
from levelset.runtime.manager import open_local
from levelset_local.endpoints import endpoint_slices_controller
from levelset_local.services import Door, Proxies, lookup_in, services_controller
from levelset_machine import Block, claim_block, resolve_host
from systems.local.tests.endpoints.objects import pod, service


@pytest.fixture
def block() -> Iterator[Block]:
    with claim_block() as made:
        yield made


@asynccontextmanager
async def world(block: Block) -> AsyncIterator[tuple[Client, Proxies]]:
    """A server whose Services have addresses of the block, and what leads to their Pods."""
    async with Proxies() as proxies:
        controllers = [endpoint_slices_controller(), services_controller(proxies)]
        system = System(name="network", controllers=controllers, service_addresses=block.services)
        async with open_local(system) as local:
            yield local.client, proxies


@asynccontextmanager
async def program(address: str, word: str, port: int = 0) -> AsyncIterator[int]:
    """Answers each connection with a word."""

    async def serve(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(word.encode())
        writer.close()
        await writer.wait_closed()

    server = await asyncio.start_server(serve, address, port)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()


async def ask(place: str) -> str:
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
    async with asyncio.timeout(10):
        while not await condition():  # noqa: ASYNC110 -- what it waits for is the system's doing
            await asyncio.sleep(0)


async def until_open(proxies: Proxies, address: str, port: int) -> None:
    async def is_open() -> bool:
        return Door(address, port) in proxies.doors

    await until(is_open)


async def test_who_asks_before_a_pod_is_there_is_answered_once_it_is(block: Block) -> None:
    ip = block.pods.allocate()
    async with world(block) as (client, proxies), program(ip, "hello") as port:
        made = await client.create(service(), namespace="default")
        name = resolve_host("web.default.svc.cluster.local:80", lookup_in([made]))
        assert name.startswith(block.services.partition("0.0/")[0])
        await until_open(proxies, name.removesuffix(":80"), 80)
        asking = asyncio.create_task(ask(name))
        await start(client, "a", ip, port)
        assert await asking == "hello"


async def test_a_service_on_a_node_port_is_reached_on_the_machine_itself(block: Block) -> None:
    ip = block.pods.allocate()
    async with world(block) as (client, proxies), program(ip, "hello") as port:
        made = await client.create(service(type="NodePort"), namespace="default")
        node = made.spec.ports[0].node_port or 0
        await start(client, "a", ip, port)
        await until_open(proxies, "127.0.0.1", node)
        assert await ask(f"127.0.0.1:{node}") == "hello"


async def test_a_change_of_pods_leads_new_connections_elsewhere(block: Block) -> None:
    one, two = block.pods.allocate(), block.pods.allocate()
    async with world(block) as (client, proxies), program(one, "one") as port, program(two, "two", port):
        made = await client.create(service(), namespace="default")
        here = made.spec.cluster_ip or ""
        await start(client, "one", one, port)
        await until_open(proxies, here, 80)
        assert await ask(f"{here}:80") == "one"
        await client.delete(Ref(Pod, "one", "default"), grace=0)
        await start(client, "two", two, port)
        await until(lambda: says("two", f"{here}:80"))


async def says(word: str, place: str) -> bool:
    return await ask(place) == word


async def test_an_address_that_is_taken_is_told_in_words(block: Block) -> None:
    here = block.services.replace("0.0/17", "0.9")
    async with world(block) as (client, _), program(here, "me first") as taken:
        await client.create(service(clusterIP=here, ports=[{"port": taken}]), namespace="default")
        told = f"cannot listen on {here}:{taken}: somebody else listens there; stop that program, or use another port"

        async def is_told() -> bool:
            return told in {one.note for one in await client.list(Event, namespace="default")}

        await until(is_told)


async def test_when_a_service_goes_nobody_listens_there_any_more(block: Block) -> None:
    async with world(block) as (client, proxies):
        made = await client.create(service(), namespace="default")
        here = made.spec.cluster_ip or ""
        await until_open(proxies, here, 80)
        await client.delete(Ref(Service, "web", "default"))

        async def is_closed() -> bool:
            return not proxies.doors

        await until(is_closed)
        with pytest.raises(ConnectionRefusedError):
            await ask(f"{here}:80")
