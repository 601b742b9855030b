"""Cleans up what its status lists, and the status is written after everything was made.

Whoever deletes the object before that leaks the rest. Modelled on kubernetes-sigs/cluster-api-provider-cloudstack#190
(a machine that is deleted before its VM is ready has no id yet, and the VM stays) and kubermatic/machine-controller#16.
What belongs to the object says so itself, from the moment it is there.
"""

from levelset import Context, Controller, Ref, Resource, Spec, Status
from levelset.testing import Cluster
from levelset.testing.explore import Exploration
from tests.testing.explore.zoo.habitat import ConfigMap, Expected, config_map

__all__ = ["Network", "broken", "expected", "fixed"]


class NetworkStatus(Status):
    made: list[str] = []


class Network(Resource[Spec, NetworkStatus], api="zoo.example.dev/v1"):
    """Wants a router and two ports."""


PARTS = ("router", "port-a", "port-b")


async def make_and_list(network: Network, ctx: Context) -> None:
    names = [f"{network.name}-{part}" for part in PARTS]
    for name in names:
        await ctx.apply(config_map(network, name))
    await ctx.set_status(network, NetworkStatus(made=names))


async def delete_what_is_listed(network: Network, ctx: Context) -> None:
    for name in network.status.made if network.status else ():
        await ctx.delete(Ref(ConfigMap, name, network.namespace))


async def make_owned(network: Network, ctx: Context) -> None:
    names = [f"{network.name}-{part}" for part in PARTS]
    for name in names:
        await ctx.apply(config_map(network, name), owner=network)
    await ctx.set_status(network, NetworkStatus(made=names))


async def scenario(people: Cluster) -> None:
    network = await people.create(Network.new("lan", Spec()))
    await people.advance(0.5)
    await people.delete(network.ref)
    await people.until_gone(network.ref)


broken = Exploration(scenario, lambda: [Controller(Network, make_and_list, cleanup=delete_what_is_listed)])
fixed = Exploration(scenario, lambda: [Controller(Network, make_owned)])
expected = Expected("leaked", "apply", "ConfigMap")
