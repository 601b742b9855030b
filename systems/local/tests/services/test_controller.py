"""Listeners are opened and closed with their Services and route to endpoints; Services are never written."""

from typing import Any

import pytest

from levelset import MergePatch, Ref
from levelset.kinds.core_v1 import Service
from levelset.kinds.discovery_v1 import EndpointSlice
from levelset.kinds.events_v1 import Event
from levelset.objects import from_tree
from levelset.testing import Cluster
from levelset_local.services import ListenAddress, Proxies, services_controller
from levelset_machine import CannotListen, Endpoint
from systems.local.tests.endpoints.endpoint_samples import service

WEB = Ref(Service, "web")
HERE = ("127.0.0.1", 30080)


class FakeNetwork:
    """A network without sockets: the fake proxies that listen, and the addresses that are occupied."""

    def __init__(self) -> None:
        self.open: dict[tuple[str, int], FakeProxy] = {}
        self.occupied: set[tuple[str, int]] = set()

    def make_proxy(self, protocol: str) -> "FakeProxy":
        return FakeProxy(self)

    @property
    def routes(self) -> dict[tuple[str, int], tuple[Endpoint, ...]]:
        return {place: proxy.endpoints for place, proxy in self.open.items()}


class FakeProxy:
    """A proxy on a fake network."""

    def __init__(self, network: FakeNetwork) -> None:
        self.network = network
        self.endpoints: tuple[Endpoint, ...] = ()
        self.sticky: float | None = None

    async def listen(self, address: str, port: int) -> int:
        if (address, port) in self.network.occupied or (address, port) in self.network.open:
            raise CannotListen(address, port, "address in use")
        self.network.open[address, port] = self
        return port

    async def close(self) -> None:
        self.network.open = {place: one for place, one in self.network.open.items() if one is not self}


@pytest.fixture
def network() -> FakeNetwork:
    return FakeNetwork()


def controller(network: FakeNetwork) -> Any:
    return services_controller(Proxies(network.make_proxy))


def web(name: str = "web") -> Service:
    """A Service with a node port: the cluster IPs of the test server are no loopback addresses."""
    ports = [{"port": 80, "targetPort": "http", "nodePort": 30080}]
    return service(name, type="NodePort", ports=ports)


def endpoints(*ips: str, name: str = "web-1", of: str = "web") -> EndpointSlice:
    tree = {
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": {"name": name, "labels": {"kubernetes.io/service-name": of}},
        "addressType": "IPv4",
        "ports": [{"name": "", "port": 8080, "protocol": "TCP"}],
        "endpoints": [{"addresses": [ip], "conditions": {"ready": True}} for ip in ips],
    }
    return from_tree(EndpointSlice, tree)


async def test_a_service_is_listened_on_and_routed_to_its_endpoints(cluster: Cluster, network: FakeNetwork) -> None:
    async with cluster.running(controller(network)):
        await cluster.create(web())
        await cluster.settled()
        assert network.routes == {HERE: ()}
        await cluster.create(endpoints("127.1.1.1"))
        await cluster.create(endpoints("127.1.1.2", name="web-2"))
        await cluster.settled()
        assert network.routes == {HERE: (("127.1.1.1", 8080), ("127.1.1.2", 8080))}
        await cluster.delete(Ref(EndpointSlice, "web-1"))
        await cluster.settled()
        assert network.routes == {HERE: (("127.1.1.2", 8080),)}


async def test_a_change_of_endpoints_keeps_the_listener_open(cluster: Cluster, network: FakeNetwork) -> None:
    await cluster.create(web())
    async with cluster.running(controller(network)):
        await cluster.settled()
        proxy = network.open[HERE]
        await cluster.create(endpoints("127.1.1.1"))
        await cluster.patch(WEB, MergePatch({"spec": {"sessionAffinity": "ClientIP"}}))
        await cluster.settled()
        assert network.open[HERE] is proxy
        assert (proxy.endpoints, proxy.sticky) == ((("127.1.1.1", 8080),), 10800.0)


async def test_a_changed_port_closes_one_listener_and_opens_another(cluster: Cluster, network: FakeNetwork) -> None:
    await cluster.create(web())
    async with cluster.running(controller(network)):
        await cluster.settled()
        ports = [{"port": 80, "targetPort": "http", "nodePort": 30081}]
        await cluster.patch(WEB, MergePatch({"spec": {"ports": ports}}))
        await cluster.settled()
        assert list(network.routes) == [("127.0.0.1", 30081)]


async def test_the_listeners_of_a_deleted_service_are_closed(cluster: Cluster, network: FakeNetwork) -> None:
    await cluster.create(web())
    async with cluster.running(controller(network)):
        await cluster.settled()
        await cluster.delete(WEB)
        await cluster.settled()
        assert network.open == {}


async def test_a_service_is_never_written_to(cluster: Cluster, network: FakeNetwork) -> None:
    made = await cluster.create(web())
    async with cluster.running(controller(network)):
        await cluster.create(endpoints("127.1.1.1"))
        await cluster.advance(3600)
        assert (await cluster.get(WEB)).metadata.resource_version == made.metadata.resource_version
        assert len(cluster.reconciles(WEB)) <= 3


async def test_a_listen_error_is_reported_once_and_retried(cluster: Cluster, network: FakeNetwork) -> None:
    network.occupied.add(HERE)
    await cluster.create(web())
    async with cluster.running(controller(network)):
        await cluster.advance(60)
        (event,) = await cluster.list(Event, namespace=cluster.namespace)
        assert (event.type, event.reason) == ("Warning", "CannotListen")
        assert event.note == "cannot listen on 127.0.0.1:30080: address in use"
        network.occupied.clear()
        await cluster.advance(2)
        assert list(network.routes) == [HERE]
        reasons = {one.reason for one in await cluster.list(Event, namespace=cluster.namespace)}
        assert reasons == {"CannotListen", "Listening"}


async def test_an_address_can_move_from_one_service_to_another(cluster: Cluster, network: FakeNetwork) -> None:
    await cluster.create(web())
    async with cluster.running(controller(network)):
        await cluster.settled()
        await cluster.delete(WEB)
        await cluster.create(web("shop"))
        await cluster.create(endpoints("127.1.1.7", name="shop-1", of="shop"))
        await cluster.advance(3)
        assert network.routes == {HERE: (("127.1.1.7", 8080),)}


async def test_listeners_name_their_services_and_are_all_closed(cluster: Cluster, network: FakeNetwork) -> None:
    await cluster.create(web())
    async with Proxies(network.make_proxy) as proxies:
        async with cluster.running(services_controller(proxies)):
            await cluster.settled()
        assert dict(proxies.listeners) == {ListenAddress(*HERE): (await cluster.get(WEB)).ref}
    assert network.open == {}
    assert dict(proxies.listeners) == {}
