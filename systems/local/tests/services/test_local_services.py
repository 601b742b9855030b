"""Doors open and close with their Services and lead to where the Pods are; Services are never written to."""

from typing import Any

import pytest

from levelset import MergePatch, Ref
from levelset.kinds.core_v1 import Service
from levelset.kinds.discovery_v1 import EndpointSlice
from levelset.kinds.events_v1 import Event
from levelset.objects import from_tree
from levelset.testing import Cluster
from levelset_local.services import Door, Proxies, services_controller
from levelset_machine import CannotListen, Endpoint
from systems.local.tests.endpoints.objects import service

WEB = Ref(Service, "web")
HERE = ("127.0.0.1", 30080)


class Street:
    """Addresses on which nobody really listens: who is there, and what is occupied by others."""

    def __init__(self) -> None:
        self.open: dict[tuple[str, int], House] = {}
        self.occupied: set[tuple[str, int]] = set()

    def house(self, protocol: str) -> "House":
        return House(self)

    @property
    def leads(self) -> dict[tuple[str, int], tuple[Endpoint, ...]]:
        return {place: house.endpoints for place, house in self.open.items()}


class House:
    """A proxy on such a street."""

    def __init__(self, street: Street) -> None:
        self.street = street
        self.endpoints: tuple[Endpoint, ...] = ()
        self.sticky: float | None = None

    async def listen(self, address: str, port: int) -> int:
        if (address, port) in self.street.occupied or (address, port) in self.street.open:
            raise CannotListen(address, port, "somebody else listens there")
        self.street.open[address, port] = self
        return port

    async def close(self) -> None:
        self.street.open = {place: one for place, one in self.street.open.items() if one is not self}


@pytest.fixture
def street() -> Street:
    return Street()


def controller(street: Street) -> Any:
    return services_controller(Proxies(street.house))


def web(name: str = "web") -> Service:
    """A Service on a port of the machine: the addresses that the server gives are none to listen on here."""
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


async def test_a_service_is_listened_for_and_led_to_its_endpoints(cluster: Cluster, street: Street) -> None:
    async with cluster.running(controller(street)):
        await cluster.create(web())
        await cluster.settled()
        assert street.leads == {HERE: ()}
        await cluster.create(endpoints("127.1.1.1"))
        await cluster.create(endpoints("127.1.1.2", name="web-2"))
        await cluster.settled()
        assert street.leads == {HERE: (("127.1.1.1", 8080), ("127.1.1.2", 8080))}
        await cluster.delete(Ref(EndpointSlice, "web-1"))
        await cluster.settled()
        assert street.leads == {HERE: (("127.1.1.2", 8080),)}


async def test_a_change_of_endpoints_leaves_the_door_open(cluster: Cluster, street: Street) -> None:
    await cluster.create(web())
    async with cluster.running(controller(street)):
        await cluster.settled()
        house = street.open[HERE]
        await cluster.create(endpoints("127.1.1.1"))
        await cluster.patch(WEB, MergePatch({"spec": {"sessionAffinity": "ClientIP"}}))
        await cluster.settled()
        assert street.open[HERE] is house
        assert (house.endpoints, house.sticky) == ((("127.1.1.1", 8080),), 10800.0)


async def test_a_port_that_changes_closes_one_door_and_opens_another(cluster: Cluster, street: Street) -> None:
    await cluster.create(web())
    async with cluster.running(controller(street)):
        await cluster.settled()
        ports = [{"port": 80, "targetPort": "http", "nodePort": 30081}]
        await cluster.patch(WEB, MergePatch({"spec": {"ports": ports}}))
        await cluster.settled()
        assert list(street.leads) == [("127.0.0.1", 30081)]


async def test_the_doors_of_a_service_go_with_it(cluster: Cluster, street: Street) -> None:
    await cluster.create(web())
    async with cluster.running(controller(street)):
        await cluster.settled()
        await cluster.delete(WEB)
        await cluster.settled()
        assert street.open == {}


async def test_a_service_is_never_written_to(cluster: Cluster, street: Street) -> None:
    made = await cluster.create(web())
    async with cluster.running(controller(street)):
        await cluster.create(endpoints("127.1.1.1"))
        await cluster.advance(3600)
        assert (await cluster.get(WEB)).metadata.resource_version == made.metadata.resource_version
        assert len(cluster.looks(WEB)) <= 3


async def test_what_cannot_be_listened_on_is_told_once_and_tried_until_it_can(cluster: Cluster, street: Street) -> None:
    street.occupied.add(HERE)
    await cluster.create(web())
    async with cluster.running(controller(street)):
        await cluster.advance(60)
        (told,) = await cluster.list(Event, namespace=cluster.namespace)
        assert (told.type, told.reason) == ("Warning", "CannotListen")
        assert told.note == "cannot listen on 127.0.0.1:30080: somebody else listens there"
        street.occupied.clear()
        await cluster.advance(2)
        assert list(street.leads) == [HERE]
        reasons = {one.reason for one in await cluster.list(Event, namespace=cluster.namespace)}
        assert reasons == {"CannotListen", "Listening"}


async def test_an_address_that_goes_from_one_service_to_another_is_listened_on_for_the_other(
    cluster: Cluster, street: Street
) -> None:
    await cluster.create(web())
    async with cluster.running(controller(street)):
        await cluster.settled()
        await cluster.delete(WEB)
        await cluster.create(web("shop"))
        await cluster.create(endpoints("127.1.1.7", name="shop-1", of="shop"))
        await cluster.advance(3)
        assert street.leads == {HERE: (("127.1.1.7", 8080),)}


async def test_doors_say_whose_they_are_and_closing_closes_them_all(cluster: Cluster, street: Street) -> None:
    await cluster.create(web())
    async with Proxies(street.house) as proxies:
        async with cluster.running(services_controller(proxies)):
            await cluster.settled()
        assert dict(proxies.doors) == {Door(*HERE): (await cluster.get(WEB)).ref}
    assert street.open == {}
    assert dict(proxies.doors) == {}
