"""Containers under the explorer: crashed, delayed and confused at every step, nothing is made twice or left behind.

`LEVELSET_STORIES_BUDGET` is how many plans are played of each scenario; the default keeps the suite quick.
"""

import os
from collections.abc import Sequence
from random import Random
from typing import Any

import pytest

from levelset import Controller, MergePatch, Ref
from levelset.testing import Cluster
from levelset.testing.explore import Exploration, State, explore
from levelset_dcp.containers import containers_controller
from levelset_dcp.containers.labels import PERSISTENT, UID
from levelset_dcp.engines import InMemoryEngine
from levelset_dcp.execs import container_execs_controller
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
from levelset_dcp.networks import networks_controller
from levelset_dcp.services import PretendListeners, services_controller
from levelset_dcp.tunnels import PretendRelay, tunnels_controller
from levelset_dcp.volumes import volumes_controller
from systems.dcp.tests.engines_world import container, engine_world

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
]
"""What the engine draws by lot, in the order in which it is asked."""
PRODUCER = {"service-producer": '[{"serviceName": "web", "port": 80}]'}


class Laptop:
    """One machine for each play, with its engine, which outlives every crash."""

    def __init__(self) -> None:
        self.engine = InMemoryEngine()
        self.engine.program("job:1", exits=3, after=5.0)
        self.engine.program("migrate", exits=0, after=2.0)
        self.world = engine_world(self.engine)
        self.relay = PretendRelay()

    def controllers(self) -> Sequence[Controller[Any]]:
        return [
            containers_controller(self.world),
            networks_controller(self.world),
            volumes_controller(self.world),
            container_execs_controller(self.world),
            tunnels_controller(self.world, self.relay),
            services_controller(PretendListeners(), random=Random(1)),
        ]


async def an_application(people: Cluster) -> None:
    await people.create(container("client", args=('{{ portFor "web" }}',), networks=(NetworkRef(name="net"),)))
    web = container(
        "web", annotations=PRODUCER, ports=(ContainerPort(container_port=80),), networks=(NetworkRef(name="net"),)
    )
    await people.create(web)
    await people.create(Service.new("web", ServiceSpec()))
    await people.create(ContainerNetwork.new("net", ContainerNetworkSpec()))
    for name in ("web", "client"):
        await people.until(Ref(Container, name), runs)
    await people.patch(Ref(Container, "client"), MergePatch({"spec": {"stop": True}}))
    await people.settled()
    await people.delete(Ref(Container, "web"))
    await people.until_gone(Ref(Container, "web"))


def runs(one: Container) -> bool:
    return one.status is not None and one.status.state == "Running"


async def a_job(people: Cluster) -> None:
    await people.create(container("job", image="job:1"))
    await people.advance(15)


async def everything_is_deleted(people: Cluster) -> None:
    await people.create(ContainerNetwork.new("net", ContainerNetworkSpec()))
    await people.create(ContainerVolume.new("data", ContainerVolumeSpec(name="data", persistent=False)))
    await people.create(container("one", networks=(NetworkRef(name="net"),)))
    await people.create(container("two", container_name="lasting", persistent=True))
    await people.until(Ref(Container, "one"), runs)
    await people.until(Ref(Container, "two"), runs)
    for ref in (Ref(Container, "one"), Ref(Container, "two"), Ref(ContainerVolume, "data")):
        await people.delete(ref)
        await people.until_gone(ref)
    await people.delete(Ref(ContainerNetwork, "net"))
    await people.until_gone(Ref(ContainerNetwork, "net"))


async def a_tunnel(people: Cluster) -> None:
    await people.create(ContainerNetwork.new("net", ContainerNetworkSpec()))
    await people.create(Service.new("host", ServiceSpec(port=5432)))
    await people.create(Service.new("inside", ServiceSpec(address_allocation_mode="Proxyless")))
    tunnel = Tunnel(name="db", server_service_name="host", client_service_name="inside")
    spec = TunnelProxySpec(container_network_name="net", aliases=("outside",), tunnels=(tunnel,))
    await people.create(ContainerNetworkTunnelProxy.new("proxy", spec))
    await people.until(Ref(ContainerNetworkTunnelProxy, "proxy"), is_dug)
    await people.delete(Ref(Service, "host"))
    await people.settled()


def is_dug(one: ContainerNetworkTunnelProxy) -> bool:
    return one.status is not None and [it.state for it in one.status.tunnel_statuses] == ["Ready"]


async def a_command(people: Cluster) -> None:
    await people.create(container("one"))
    await people.create(ContainerExec.new("run", ContainerExecSpec(container_name="one", command="migrate")))
    await people.advance(15)


def nothing_is_started_twice(state: State) -> None:
    held = state.outside.engine._world.containers.values()
    assert all(one.starts <= 1 for one in held), [(one.name, one.starts) for one in held]
    commands = [one for one in state.outside.engine.calls if one.startswith("exec ")]
    assert len(commands) <= 1, commands


def nothing_is_left(state: State) -> None:
    objects = {one.metadata.uid for one in state.list(Container)}
    objects |= {one.metadata.uid for one in state.list(ContainerNetwork)}
    objects |= {one.metadata.uid for one in state.list(ContainerNetworkTunnelProxy)}
    world = state.outside.engine._world
    labels = [one.spec.labels for one in world.containers.values()]
    labels += [one.info.labels for one in world.networks.values() if not one.is_built_in]
    left = [one for one in labels if one[PERSISTENT] == "false" and one[UID] not in objects]
    assert not left, left


@pytest.mark.parametrize(
    "scenario", [an_application, a_job, everything_is_deleted, a_tunnel], ids=lambda one: one.__name__
)
def test_it_comes_through_whatever_is_done_to_it(scenario: Any) -> None:
    exploration = Exploration(
        scenario,
        Laptop.controllers,
        invariants=[nothing_is_started_twice, nothing_is_left],
        outside=Laptop,
        name=scenario.__name__,
        ignored=CHANCE,
    )
    report = explore(exploration, budget=BUDGET)
    assert not report.failures, report.story()


def test_a_command_is_run_once_at_most() -> None:
    exploration = Exploration(
        a_command,
        Laptop.controllers,
        invariants=[nothing_is_started_twice, nothing_is_left],
        outside=Laptop,
        name="a_command",
        ignored=["ContainerExec.status"],
    )
    report = explore(exploration, budget=BUDGET)
    assert not report.failures, report.story()
