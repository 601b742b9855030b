"""Services: listeners, targets and status, in virtual time."""

from collections.abc import Sequence
from typing import Any

import pytest

from levelset import Controller, ObjectMeta, Ref
from levelset.testing import Cluster
from levelset_dcp.kinds import Endpoint, EndpointSpec, Service, ServiceSpec, ServiceStatus
from levelset_dcp.services import FakeListeners, services_controller
from levelset_dcp.services.state import listen_address


def controllers(listeners: FakeListeners) -> Sequence[Controller[Any]]:
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


async def test_a_service_has_an_address_before_it_has_endpoints(cluster: Cluster) -> None:
    listeners = FakeListeners()
    async with cluster.running(*controllers(listeners)):
        await cluster.create(Service.new("web", ServiceSpec()))
        first = await status(cluster)
        assert (first.state, first.effective_address, first.effective_port) == ("NotReady", "localhost", 40001)
        assert first.conditions[0].reason == "NoEndpoints"
        await cluster.create(endpoint("one", 8080))
        assert (await status(cluster)).state == "Ready"
        assert listeners.targets[Ref(Service, "web")] == (("127.0.0.1", 8080),)


@pytest.mark.parametrize("first", ["service", "endpoint"])
async def test_a_service_is_ready_in_any_order_of_creation(first: str, cluster: Cluster) -> None:
    both: list[Any] = [Service.new("web", ServiceSpec(port=80)), endpoint("one", 8080)]
    async with cluster.running(*controllers(FakeListeners())):
        for one in both if first == "service" else reversed(both):
            await cluster.create(one)
        found = await status(cluster)
        assert (found.state, found.effective_port) == ("Ready", 80)


async def test_a_taken_port_is_retried(cluster: Cluster) -> None:
    listeners = FakeListeners(taken=[80], fails=3)
    async with cluster.running(*controllers(listeners)):
        await cluster.create(Service.new("web", ServiceSpec(port=80)))
        found = await status(cluster)
        assert "cannot listen on 127.0.0.1:80" in found.message
        assert found.conditions[0].reason == "CannotListen"
        await cluster.advance(10)
        assert (await status(cluster)).effective_port == 80
        assert listeners.tries == 4


async def test_after_thirty_attempts_a_service_stays_not_ready_until_it_changes(cluster: Cluster) -> None:
    listeners = FakeListeners(taken=[80])
    async with cluster.running(*controllers(listeners)):
        await cluster.create(Service.new("web", ServiceSpec(port=80)))
        await cluster.advance(600)
        assert listeners.tries == 30
        assert (await status(cluster)).state == "NotReady"
        service = await cluster.get(Ref(Service, "web"))
        await cluster.update(service.with_spec(port=81))
        assert (await status(cluster)).effective_port == 81


async def test_a_proxyless_service_sticks_to_its_first_endpoint(cluster: Cluster) -> None:
    async with cluster.running(*controllers(FakeListeners())):
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


async def test_a_deleted_service_closes_its_port(cluster: Cluster) -> None:
    listeners = FakeListeners()
    async with cluster.running(*controllers(listeners)):
        await cluster.create(Service.new("web", ServiceSpec(port=80)))
        await cluster.settled()
        assert listeners.open_ports == {Ref(Service, "web"): 80}
        await cluster.delete(Ref(Service, "web"))
        await cluster.until_gone(Ref(Service, "web"))
        assert listeners.open_ports == {}


async def test_a_service_has_its_previous_port_after_a_restart(cluster: Cluster) -> None:
    await cluster.define(Service, Endpoint)
    async with cluster.running(*controllers(FakeListeners())):
        await cluster.create(Service.new("other", ServiceSpec()))
        await cluster.settled()
        await cluster.create(Service.new("web", ServiceSpec()))
        assert (await status(cluster)).effective_port == 40002
    async with cluster.running(*controllers(FakeListeners())):
        assert (await status(cluster)).effective_port == 40002
    async with cluster.running(*controllers(FakeListeners(taken=[40002]))):
        assert (await status(cluster)).effective_port not in (0, 40002)


async def test_idle_objects_cause_no_writes(cluster: Cluster) -> None:
    async with cluster.running(*controllers(FakeListeners())):
        await cluster.create(Service.new("web", ServiceSpec()))
        await cluster.create(endpoint("one", 8080))
        await cluster.settled()
        before = cluster.storage.revision
        await cluster.advance(1800)
        assert cluster.storage.revision == before


@pytest.mark.parametrize(
    ("mode", "address", "advertised"),
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
def test_the_allocation_mode_determines_the_address(mode: Any, address: str, advertised: str) -> None:
    listen_on = listen_address(Service.new("web", ServiceSpec(address_allocation_mode=mode)))
    assert listen_on is not None
    assert (listen_on.addresses[0], listen_on.advertised) == (address, advertised)
    own = listen_address(Service.new("web", ServiceSpec(address_allocation_mode=mode, address="127.0.0.9")))
    assert own is not None
    assert own.addresses == ("127.0.0.9",)
