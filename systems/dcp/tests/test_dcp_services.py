"""Services: when they listen, whom they lead to, and what becomes of them, in virtual time."""

from collections.abc import Sequence
from typing import Any

import pytest

from levelset import Controller, ObjectMeta, Ref
from levelset.testing import Cluster
from levelset_dcp.kinds import Endpoint, EndpointSpec, Service, ServiceSpec, ServiceStatus
from levelset_dcp.services import PretendListeners, services_controller
from levelset_dcp.services.plan import places_of


def controllers(listeners: PretendListeners) -> Sequence[Controller[Any]]:
    return [services_controller(listeners)]


async def status(cluster: Cluster, name: str = "web") -> ServiceStatus:
    await cluster.settled()
    found = (await cluster.get(Ref(Service, name))).status
    assert found is not None
    return found


def endpoint(name: str, port: int, service: str = "web") -> Endpoint:
    return Endpoint(
        metadata=ObjectMeta(name=name), spec=EndpointSpec(service_name=service, address="127.0.0.1", port=port)
    )


async def test_an_address_is_told_before_there_is_any_endpoint(cluster: Cluster) -> None:
    listeners = PretendListeners()
    async with cluster.running(*controllers(listeners)):
        await cluster.create(Service.new("web", ServiceSpec()))
        first = await status(cluster)
        assert (first.state, first.effective_address, first.effective_port) == ("NotReady", "localhost", 40001)
        assert first.conditions[0].reason == "NoEndpoints"
        await cluster.create(endpoint("one", 8080))
        assert (await status(cluster)).state == "Ready"
        assert listeners.targets[Ref(Service, "web")] == (("127.0.0.1", 8080),)


@pytest.mark.parametrize("first", ["service", "endpoint"])
async def test_it_is_ready_whatever_was_created_first(first: str, cluster: Cluster) -> None:
    both: list[Any] = [Service.new("web", ServiceSpec(port=80)), endpoint("one", 8080)]
    async with cluster.running(*controllers(PretendListeners())):
        for one in both if first == "service" else reversed(both):
            await cluster.create(one)
        found = await status(cluster)
        assert (found.state, found.effective_port) == ("Ready", 80)


async def test_a_port_that_is_taken_for_a_while_is_tried_again(cluster: Cluster) -> None:
    listeners = PretendListeners(taken=[80], fails=3)
    async with cluster.running(*controllers(listeners)):
        await cluster.create(Service.new("web", ServiceSpec(port=80)))
        found = await status(cluster)
        assert "cannot listen on 127.0.0.1:80" in found.message
        assert found.conditions[0].reason == "CannotListen"
        await cluster.advance(10)
        assert (await status(cluster)).effective_port == 80
        assert listeners.tries == 4


async def test_after_thirty_tries_it_stays_not_ready_until_it_changes(cluster: Cluster) -> None:
    listeners = PretendListeners(taken=[80])
    async with cluster.running(*controllers(listeners)):
        await cluster.create(Service.new("web", ServiceSpec(port=80)))
        await cluster.advance(600)
        assert listeners.tries == 30
        assert (await status(cluster)).state == "NotReady"
        service = await cluster.get(Ref(Service, "web"))
        await cluster.update(service.with_spec(port=81))
        assert (await status(cluster)).effective_port == 81


async def test_without_a_proxy_it_follows_its_first_endpoint_and_stays_with_it(cluster: Cluster) -> None:
    async with cluster.running(*controllers(PretendListeners())):
        await cluster.create(Service.new("web", ServiceSpec(address_allocation_mode="Proxyless")))
        assert (await status(cluster)).state == "NotReady"
        await cluster.create(endpoint("b", 2))
        assert (await status(cluster)).effective_port == 2
        await cluster.create(endpoint("a", 1))
        assert (await status(cluster)).effective_port == 2
        await cluster.delete(Ref(Endpoint, "b"))
        assert (await status(cluster)).effective_port == 1
        await cluster.delete(Ref(Endpoint, "a"))
        found = await status(cluster)
        assert (found.state, found.effective_port, found.effective_address) == ("NotReady", 0, "")


async def test_a_service_that_goes_gives_its_port_back(cluster: Cluster) -> None:
    listeners = PretendListeners()
    async with cluster.running(*controllers(listeners)):
        await cluster.create(Service.new("web", ServiceSpec(port=80)))
        await cluster.settled()
        assert listeners.open_ports == {Ref(Service, "web"): 80}
        await cluster.delete(Ref(Service, "web"))
        await cluster.until_gone(Ref(Service, "web"))
        assert listeners.open_ports == {}


async def test_after_a_restart_it_has_the_port_that_it_had(cluster: Cluster) -> None:
    await cluster.define(Service, Endpoint)
    async with cluster.running(*controllers(PretendListeners())):
        await cluster.create(Service.new("other", ServiceSpec()))
        await cluster.settled()
        await cluster.create(Service.new("web", ServiceSpec()))
        assert (await status(cluster)).effective_port == 40002
    async with cluster.running(*controllers(PretendListeners())):
        assert (await status(cluster)).effective_port == 40002
    async with cluster.running(*controllers(PretendListeners(taken=[40002]))):
        assert (await status(cluster)).effective_port not in (0, 40002)


async def test_idle_means_no_writes(cluster: Cluster) -> None:
    async with cluster.running(*controllers(PretendListeners())):
        await cluster.create(Service.new("web", ServiceSpec()))
        await cluster.create(endpoint("one", 8080))
        await cluster.settled()
        before = cluster.storage.revision
        await cluster.advance(1800)
        assert cluster.storage.revision == before


@pytest.mark.parametrize(
    ("mode", "address", "told"),
    [
        ("Localhost", "127.0.0.1", "localhost"),
        ("IPv4ZeroOne", "127.0.0.1", "127.0.0.1"),
        ("IPv4Loopback", "127.0.0.1", "127.0.0.1"),
        ("IPv6ZeroOne", "::1", "::1"),
        ("AllInterfaces", "0.0.0.0", "localhost"),
        ("IPv4AllInterfaces", "0.0.0.0", "localhost"),
        ("IPv6AllInterfaces", "::", "localhost"),
    ],
)
def test_where_it_listens_is_said_by_its_mode(mode: Any, address: str, told: str) -> None:
    place = places_of(Service.new("web", ServiceSpec(address_allocation_mode=mode)))
    assert place is not None
    assert (place.addresses[0], place.told) == (address, told)
    own = places_of(Service.new("web", ServiceSpec(address_allocation_mode=mode, address="127.0.0.9")))
    assert own is not None
    assert own.addresses == ("127.0.0.9",)
