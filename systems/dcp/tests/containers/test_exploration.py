"""Containers under the explorer: with crashes, delays and faults at every step, nothing is created twice or orphaned.

`LEVELSET_STORIES_BUDGET` is the number of plans for each scenario; the default keeps the suite quick.
"""

import os
from collections.abc import Sequence
from random import Random
from typing import Any

import pytest

from levelset import Controller, MergePatch, Ref
from levelset.testing import Cluster
from levelset.testing.explore import Exploration, State, explore
from levelset_dcp.container_execs import container_execs_controller
from levelset_dcp.containers import containers_controller
from levelset_dcp.engines import InMemoryEngine
from levelset_dcp.kinds import (
    Container,
    ContainerExec,
    ContainerExecSpec,
    ContainerNetwork,
    ContainerNetworkSpec,
    ContainerNetworkTunnelProxy,
    ContainerPort,
    ContainerVolume,
    ContainerVolumeSpec,
    NetworkRef,
    Service,
    ServiceSpec,
    Tunnel,
    TunnelProxySpec,
)
from levelset_dcp.names import PERSISTENT, UID
from levelset_dcp.networks import networks_controller
from levelset_dcp.services import FakeListeners, services_controller
from levelset_dcp.tunnels import FakeRelay, tunnels_controller
from levelset_dcp.volumes import volumes_controller
from systems.dcp.tests.support.containers import container, fake_container_host

AN_HOUR = 3600.0
"""How long the undisturbed run is followed: containers are inspected every few seconds, and a day takes long."""
BUDGET = int(os.environ.get("LEVELSET_STORIES_BUDGET", "8"))
CHANCE = [
    "Container.status.containerId",
    "ContainerNetwork.status.containerIds",
    "ContainerNetwork.status.id",
    "ContainerNetworkConnection.spec.containerID",
    "ContainerNetworkTunnelProxy.status.clientProxyContainerID",
    "ContainerNetworkTunnelProxy.status.clientProxyControlPort",
    "ContainerNetworkTunnelProxy.status.clientProxyDataPort",
    "ContainerNetworkTunnelProxy.status.tunnelConfigurationVersion",
    "Endpoint.spec.port",
    "outside.host",
]
"""Fields with random values of the engine, which depend on the order of calls."""
PRODUCER = {"service-producer": '[{"serviceName": "web", "port": 80}]'}


class FakeLaptop:
    """One machine for each plan, with its engine, which outlives every crash."""

    def __init__(self) -> None:
        self.engine = InMemoryEngine()
        self.engine.program("job:1", exits=3, after=5.0)
        self.engine.program("migrate", exits=0, after=2.0)
        self.host = fake_container_host(self.engine)
        self.relay = FakeRelay()

    def controllers(self) -> Sequence[Controller[Any]]:
        return [
            containers_controller(self.host),
            networks_controller(self.host),
            volumes_controller(self.host),
            container_execs_controller(self.host),
            tunnels_controller(self.host, self.relay),
            services_controller(FakeListeners(), random=Random(1)),
        ]


async def an_application(cluster: Cluster) -> None:
    await cluster.create(container("client", args=('{{ portFor "web" }}',), networks=(NetworkRef(name="net"),)))
    web = container(
        "web", annotations=PRODUCER, ports=(ContainerPort(container_port=80),), networks=(NetworkRef(name="net"),)
    )
    await cluster.create(web)
    await cluster.create(Service.new("web", ServiceSpec()))
    await cluster.create(ContainerNetwork.new("net", ContainerNetworkSpec()))
    for name in ("web", "client"):
        await cluster.until(Ref(Container, name), runs)
    await cluster.patch(Ref(Container, "client"), MergePatch({"spec": {"stop": True}}))
    await cluster.settled()
    await cluster.delete(Ref(Container, "web"))
    await cluster.until_gone(Ref(Container, "web"))


def runs(one: Container) -> bool:
    return one.status is not None and one.status.state == "Running"


async def a_job(cluster: Cluster) -> None:
    await cluster.create(container("job", image="job:1"))
    await cluster.advance(15)


async def everything_is_deleted(cluster: Cluster) -> None:
    await cluster.create(ContainerNetwork.new("net", ContainerNetworkSpec()))
    await cluster.create(ContainerVolume.new("data", ContainerVolumeSpec(name="data", persistent=False)))
    await cluster.create(container("one", networks=(NetworkRef(name="net"),)))
    await cluster.create(container("two", container_name="lasting", persistent=True))
    await cluster.until(Ref(Container, "one"), runs)
    await cluster.until(Ref(Container, "two"), runs)
    for ref in (Ref(Container, "one"), Ref(Container, "two"), Ref(ContainerVolume, "data")):
        await cluster.delete(ref)
        await cluster.until_gone(ref)
    await cluster.delete(Ref(ContainerNetwork, "net"))
    await cluster.until_gone(Ref(ContainerNetwork, "net"))


async def a_tunnel(cluster: Cluster) -> None:
    await cluster.create(ContainerNetwork.new("net", ContainerNetworkSpec()))
    await cluster.create(Service.new("host", ServiceSpec(port=5432)))
    await cluster.create(Service.new("inside", ServiceSpec(address_allocation_mode="Proxyless")))
    tunnel = Tunnel(name="db", server_service_name="host", client_service_name="inside")
    spec = TunnelProxySpec(container_network_name="net", aliases=("outside",), tunnels=(tunnel,))
    await cluster.create(ContainerNetworkTunnelProxy.new("proxy", spec))
    await cluster.until(Ref(ContainerNetworkTunnelProxy, "proxy"), is_open)
    await cluster.delete(Ref(Service, "host"))
    await cluster.settled()


def is_open(one: ContainerNetworkTunnelProxy) -> bool:
    return one.status is not None and [it.state for it in one.status.tunnel_statuses] == ["Ready"]


async def a_command(cluster: Cluster) -> None:
    await cluster.create(container("one"))
    await cluster.create(ContainerExec.new("run", ContainerExecSpec(container_name="one", command="migrate")))
    await cluster.advance(15)


def nothing_is_started_twice(state: State) -> None:
    held = state.outside.engine._state.containers.values()
    assert all(one.starts <= 1 for one in held), [(one.name, one.starts) for one in held]
    commands = [one for one in state.outside.engine.calls if one.startswith("exec ")]
    assert len(commands) <= 1, commands


def nothing_is_left(state: State) -> None:
    objects = {one.metadata.uid for one in state.list(Container)}
    objects |= {one.metadata.uid for one in state.list(ContainerNetwork)}
    objects |= {one.metadata.uid for one in state.list(ContainerNetworkTunnelProxy)}
    engine = state.outside.engine._state
    labels = [one.spec.labels for one in engine.containers.values()]
    labels += [one.info.labels for one in engine.networks.values() if not one.is_built_in]
    left = [one for one in labels if one[PERSISTENT] == "false" and one[UID] not in objects]
    assert not left, left


@pytest.mark.parametrize(
    "scenario", [an_application, a_job, everything_is_deleted, a_tunnel], ids=lambda one: one.__name__
)
def test_it_converges_under_all_faults(scenario: Any) -> None:
    exploration = Exploration(
        scenario,
        FakeLaptop.controllers,
        invariants=[nothing_is_started_twice, nothing_is_left],
        outside=FakeLaptop,
        name=scenario.__name__,
        ignored=CHANCE,
        follow=AN_HOUR,
    )
    report = explore(exploration, budget=BUDGET)
    assert not report.failures, report.story()


def test_a_command_runs_at_most_once() -> None:
    exploration = Exploration(
        a_command,
        FakeLaptop.controllers,
        invariants=[nothing_is_started_twice, nothing_is_left],
        outside=FakeLaptop,
        name="a_command",
        ignored=["ContainerExec.status"],
        follow=AN_HOUR,
    )
    report = explore(exploration, budget=BUDGET)
    assert not report.failures, report.story()
