"""Tunnel proxies: containers reach services of this machine, until a Service or one of the sides fails."""

import asyncio
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from levelset import MergePatch, ObjectMeta, Ref
from levelset.testing import Cluster
from levelset_dcp.containers import ContainerHost
from levelset_dcp.engines import InMemoryEngine
from levelset_dcp.kinds import (
    ContainerNetwork,
    ContainerNetworkSpec,
    ContainerNetworkTunnelProxy,
    Endpoint,
    EndpointSpec,
    Service,
    ServiceSpec,
    Tunnel,
    TunnelProxySpec,
    TunnelProxyStatus,
)
from levelset_dcp.networks import networks_controller
from levelset_dcp.services import FakeListeners, services_controller
from levelset_dcp.tunnels import FakeRelay, SocketRelay, tunnels_controller
from levelset_dcp.tunnels import client_proxy as client
from levelset_dcp.tunnels.relay import RelayFailed
from levelset_dcp.tunnels.state import referenced_services
from levelset_machine import free_port
from systems.dcp.tests.support.containers import fake_container_host, names, state_history

PROXY = Ref(ContainerNetworkTunnelProxy, "proxy")


@pytest.fixture
def engine() -> InMemoryEngine:
    return InMemoryEngine()


@pytest.fixture
def host(engine: InMemoryEngine) -> ContainerHost:
    return fake_container_host(engine)


def proxy(*tunnels: str, **spec: Any) -> ContainerNetworkTunnelProxy:
    specs = tuple(
        Tunnel(name=one, server_service_name=f"{one}-host", client_service_name=f"{one}-inside") for one in tunnels
    )
    made = TunnelProxySpec(container_network_name="net", aliases=("host",), tunnels=specs, **spec)
    return ContainerNetworkTunnelProxy.new("proxy", made)


async def host_service(cluster: Cluster, name: str, port: int) -> None:
    """A Service of this machine with an Endpoint, and the Service through which containers reach it."""
    await cluster.create(Service.new(f"{name}-host", ServiceSpec(port=port)))
    await cluster.create(Service.new(f"{name}-inside", ServiceSpec(address_allocation_mode="Proxyless")))
    spec = EndpointSpec(service_name=f"{name}-host", address="127.0.0.1", port=port + 1000)
    await cluster.create(Endpoint(metadata=ObjectMeta(name=f"{name}-host"), spec=spec))


async def settled_status(cluster: Cluster) -> TunnelProxyStatus:
    await cluster.settled()
    return (await cluster.get(PROXY)).status or TunnelProxyStatus()


@asynccontextmanager
async def running(cluster: Cluster, host: ContainerHost, relay: FakeRelay) -> AsyncGenerator[None, None]:
    services = services_controller(FakeListeners())
    async with cluster.running(tunnels_controller(host, relay), networks_controller(host), services):
        yield


async def test_a_proxy_waits_for_its_network_and_then_reports_ports_and_ids(
    cluster: Cluster, engine: InMemoryEngine, host: ContainerHost
) -> None:
    relay = FakeRelay()
    async with running(cluster, host, relay):
        await host_service(cluster, "db", 5432)
        await cluster.create(proxy("db"))
        found = await settled_status(cluster)
        assert (found.state, found.message) == ("Pending", "network net is not running yet")
        await cluster.create(ContainerNetwork.new("net", ContainerNetworkSpec()))
        await cluster.until(PROXY, lambda one: one.status is not None and bool(one.status.tunnel_statuses))
        found = await settled_status(cluster)
        (tunnel,) = found.tunnel_statuses
        assert (found.state, tunnel.state, tunnel.tunnel_id) == ("Running", "Ready", 1)
        assert (tunnel.client_proxy_port, tunnel.client_proxy_addresses) == (5432, ("host",))
        (info,) = await engine.list_containers()
        assert found.client_proxy_container_id == info.id
        assert {found.client_proxy_control_port, found.client_proxy_data_port} == {one.host_port for one in info.ports}
        assert [one.aliases for one in info.networks] == [("host",)]
        assert engine.files(info.id)["/levelset/tunnel.py"].content.startswith(b'"""The client proxy of a tunnel')
        assert list(relay.open_ports.values()) == [(5432, ("localhost", 5432))]
        inside = (await cluster.get(Ref(Service, "db-inside"))).status
        assert inside is not None
        assert (inside.effective_address, inside.effective_port) == ("host", 5432)
        writes = len(cluster.history(PROXY))
        await cluster.advance(120)
        assert len(cluster.history(PROXY)) == writes


@asynccontextmanager
async def with_tunnels(
    cluster: Cluster, host: ContainerHost, relay: FakeRelay, *tunnels: str
) -> AsyncGenerator[None, None]:
    async with running(cluster, host, relay):
        await cluster.create(ContainerNetwork.new("net", ContainerNetworkSpec()))
        for place, name in enumerate(tunnels):
            await host_service(cluster, name, 5432 + place)
        await cluster.create(proxy(*tunnels))
        await cluster.until(PROXY, lambda one: one.status is not None and one.status.state == "Running")
        await cluster.advance(1)
        yield


async def test_a_deleted_service_closes_only_its_tunnel(cluster: Cluster, host: ContainerHost) -> None:
    relay = FakeRelay()
    async with with_tunnels(cluster, host, relay, "a", "b"):
        assert [one.state for one in (await settled_status(cluster)).tunnel_statuses] == ["Ready", "Ready"]
        await cluster.delete(Ref(Service, "a-host"))
        found = await settled_status(cluster)
        assert [(one.name, one.state, one.error_message) for one in found.tunnel_statuses] == [
            ("a", "NotReady", "Service a-host does not exist"),
            ("b", "Ready", ""),
        ]
        assert [target for _, target in relay.open_ports.values()] == [("localhost", 5433)]
        assert {one.spec.service_name for one in await cluster.list(Endpoint)} == {"a-host", "b-host", "b-inside"}
        await cluster.create(Service.new("a-host", ServiceSpec(port=5432)))
        assert [one.state for one in (await settled_status(cluster)).tunnel_statuses] == ["Ready", "Ready"]


def test_each_referenced_service_is_listed_once() -> None:
    made = proxy("a", "a")
    assert [one.name for one in referenced_services(made)] == ["a-host", "a-inside"]


async def test_a_taken_tunnel_port_is_replaced(cluster: Cluster, host: ContainerHost) -> None:
    async with with_tunnels(cluster, host, FakeRelay(taken=frozenset({5432})), "a"):
        (tunnel,) = (await settled_status(cluster)).tunnel_statuses
        assert (tunnel.state, tunnel.client_proxy_port) == ("Ready", 30_001)


async def test_after_twenty_attempts_a_tunnel_is_failed(cluster: Cluster, host: ContainerHost) -> None:
    relay = FakeRelay(taken=frozenset({0, 5432}))
    async with with_tunnels(cluster, host, relay, "a"):
        (tunnel,) = (await settled_status(cluster)).tunnel_statuses
        assert tunnel.state == "NotReady"
        await cluster.advance(200)
        (tunnel,) = (await settled_status(cluster)).tunnel_statuses
        assert (tunnel.state, "is taken" in tunnel.error_message) == ("Failed", True)


async def test_a_client_service_must_be_proxyless(cluster: Cluster, host: ContainerHost) -> None:
    async with with_tunnels(cluster, host, FakeRelay(), "a"):
        await cluster.patch(Ref(Service, "a-inside"), MergePatch({"spec": {"addressAllocationMode": "Localhost"}}))
        (tunnel,) = (await settled_status(cluster)).tunnel_statuses
        assert tunnel.error_message == "Service a-inside must have addressAllocationMode Proxyless"


@pytest.mark.parametrize("name", ["a-host", "a-inside"])
async def test_a_tunnel_to_or_from_a_udp_service_is_refused(cluster: Cluster, host: ContainerHost, name: str) -> None:
    async with with_tunnels(cluster, host, FakeRelay(), "a"):
        await cluster.patch(Ref(Service, name), MergePatch({"spec": {"protocol": "UDP"}}))
        (tunnel,) = (await settled_status(cluster)).tunnel_statuses
        assert tunnel.state != "Ready"
        assert tunnel.error_message == (
            f"Service {name} has protocol UDP, and tunnels carry TCP only; use a Service with protocol TCP"
        )


async def test_tunnels_can_be_added_and_removed(cluster: Cluster, host: ContainerHost) -> None:
    relay = FakeRelay()
    async with with_tunnels(cluster, host, relay, "a", "b"):
        before = await settled_status(cluster)
        tree = [{"name": "b", "serverServiceName": "b-host", "clientServiceName": "b-inside"}]
        await cluster.patch(PROXY, MergePatch({"spec": {"tunnels": tree}}))
        found = await settled_status(cluster)
        assert [(one.name, one.tunnel_id) for one in found.tunnel_statuses] == [("b", 2)]
        assert found.tunnel_configuration_version > before.tunnel_configuration_version
        assert len(relay.open_ports) == 1


@pytest.mark.parametrize("side", ["inside", "removed", "host"])
async def test_a_proxy_is_failed_when_either_side_fails(
    side: str, cluster: Cluster, engine: InMemoryEngine, host: ContainerHost
) -> None:
    relay = FakeRelay()
    async with with_tunnels(cluster, host, relay, "a"):
        (name,) = await names(engine)
        if side == "inside":
            engine.exit(name, 1)
        elif side == "removed":
            engine.remove(name)
        else:
            relay.lose()
        found = await settled_status(cluster)
        assert (found.state, [one.state for one in found.tunnel_statuses]) == ("Failed", ["Failed"])
        assert await names(engine) == []
        assert {one.spec.service_name for one in await cluster.list(Endpoint)} == {"a-host"}
        await cluster.delete(PROXY)
        await cluster.until_gone(PROXY)


@pytest.mark.parametrize("what", ["create_container", "start_container", "copy_in", "relay"])
async def test_a_proxy_is_failed_when_it_cannot_start(
    what: str, cluster: Cluster, engine: InMemoryEngine, host: ContainerHost
) -> None:
    engine.fail_matching(what, message="no space")
    async with running(cluster, host, FakeRelay(is_reachable=what != "relay")):
        await cluster.create(ContainerNetwork.new("net", ContainerNetworkSpec()))
        await cluster.create(proxy())
        await cluster.until(PROXY, lambda one: one.status is not None and one.status.state == "Failed")
        found = await settled_status(cluster)
        assert found.message == ("the client proxy is unreachable" if what == "relay" else "no space")
        assert await names(engine) == []
        assert state_history(cluster, PROXY)[-2:] == ["Starting", "Failed"]


async def test_a_proxy_that_was_not_started_goes_while_the_engine_is_down(
    cluster: Cluster, engine: InMemoryEngine, host: ContainerHost
) -> None:
    engine.set_health(False, "the engine is down")
    async with running(cluster, host, FakeRelay()):
        await cluster.create(proxy("db"))
        assert (await settled_status(cluster)).state == "Pending"
        await cluster.delete(PROXY)
        await cluster.until_gone(PROXY, within=6)


async def test_deletion_removes_both_sides(cluster: Cluster, engine: InMemoryEngine, host: ContainerHost) -> None:
    relay = FakeRelay()
    async with with_tunnels(cluster, host, relay, "a"):
        await cluster.delete(PROXY)
        await cluster.until_gone(PROXY)
        await cluster.settled()
        assert await names(engine) == []
        assert not relay.open_ports
        assert {one.spec.service_name for one in await cluster.list(Endpoint)} == {"a-host"}


async def test_a_restarted_controller_resumes_with_the_same_container(
    cluster: Cluster, engine: InMemoryEngine, host: ContainerHost
) -> None:
    async with with_tunnels(cluster, host, FakeRelay(), "a"):
        before = await settled_status(cluster)
    relay = FakeRelay()
    async with running(cluster, host, relay):
        await cluster.advance(2)
        after = await settled_status(cluster)
        assert after.client_proxy_container_id == before.client_proxy_container_id
        assert (after.state, [one.state for one in after.tunnel_statuses]) == ("Running", ["Ready"])
        assert [port for port, _ in relay.open_ports.values()] == [5432]


async def test_a_tunnel_forwards_data_in_both_directions() -> None:
    async with inside("secret") as (control, data), upper_server() as target:
        relay, lost = SocketRelay(), list[str]()
        await relay.connect("k", control=control, data=data, token="secret", lost=lost.append)
        try:
            first = await relay.open("k", 1, port=0, target=("127.0.0.1", target))
            assert await asyncio.gather(*(send(first, f"hello {one}") for one in range(5))) == [
                f"HELLO {one}" for one in range(5)
            ]
            with pytest.raises(RelayFailed, match="cannot listen on the port"):
                await relay.open("k", 2, port=first, target=("127.0.0.1", target))
            second = await relay.open("k", 2, port=0, target=("127.0.0.1", target))
            assert await send(second, "x" * 300_000) == "X" * 300_000
            await relay.close("k", 1)
            await relay.open(
                "k", 3, port=0, target=("127.0.0.1", target)
            )  # its response proves that the close was processed
            with pytest.raises(ConnectionError):
                await send(first, "hello")
            assert not lost
        finally:
            await relay.close_all()


async def test_a_wrong_token_is_rejected_and_reported() -> None:
    async with inside("secret") as (control, data):
        with pytest.raises(RelayFailed, match="refuses the token"):
            await SocketRelay().connect("k", control=control, data=data, token="wrong", lost=print)


async def test_connections_that_the_engine_accepts_before_the_proxy_listens_are_tried_again() -> None:
    accepted = 0

    async def engine_before_proxy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal accepted
        accepted += 1
        await reader.readline()
        if accepted == 3:
            writer.write(b'{"ready": true}\n')
            await reader.read()
        writer.close()

    async with await asyncio.start_server(engine_before_proxy, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        relay, lost = SocketRelay(), list[str]()
        await relay.connect("k", control=port, data=port, token="secret", lost=lost.append)
        await relay.close_all()
    assert (accepted, lost) == (3, [])


@asynccontextmanager
async def inside(token: str) -> AsyncGenerator[tuple[int, int], None]:
    """A client proxy in its own process instead of a container."""
    control, data = await asyncio.to_thread(free_port), await asyncio.to_thread(free_port)
    text = (sys.executable, client.__file__, str(control), str(data))
    process = await asyncio.create_subprocess_exec(*text, env={"LEVELSET_TUNNEL_TOKEN": token})
    try:
        yield control, data
    finally:
        process.kill()
        await process.wait()


@asynccontextmanager
async def upper_server() -> AsyncGenerator[int, None]:
    """A service of this machine that returns the whole input in upper case."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write((await reader.read()).upper())
        await writer.drain()
        writer.close()

    async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
        yield server.sockets[0].getsockname()[1]


async def send(port: int, text: str) -> str:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(text.encode())
    writer.write_eof()
    answer = await reader.read()
    writer.close()
    if not answer:
        raise ConnectionResetError("no response")
    return answer.decode()
