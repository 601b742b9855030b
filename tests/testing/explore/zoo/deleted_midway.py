"""Cleans up the objects that its status lists, but the status is written after everything was created.

If the object is deleted before that, the rest leaks. Modelled on kubernetes-sigs/cluster-api-provider-cloudstack#190 (a
machine that is deleted before its VM is ready has no id, and the VM stays) and kubermatic/machine-controller#16. The
fix sets an owner reference on each child from the start.
"""

from levelset import Context, Controller, Ref, Resource, Spec, Status
from levelset.testing import Cluster
from levelset.testing.explore import Exploration
from tests.testing.explore.zoo.common import ConfigMap, Expected, config_map

__all__ = ["Network", "broken", "expected", "fixed"]


class NetworkStatus(Status):
    made: list[str] = []


class Network(Resource[Spec, NetworkStatus], api="zoo.example.dev/v1"):
    """A network with a router and two ports."""


PARTS = ("router", "port-a", "port-b")


async def create_and_list(network: Network, ctx: Context) -> None:
    names = [f"{network.name}-{part}" for part in PARTS]
    for name in names:
        await ctx.apply(config_map(network, name))
    await ctx.set_status(network, NetworkStatus(made=names))


async def delete_what_is_listed(network: Network, ctx: Context) -> None:
    for name in network.status.made if network.status else ():
        await ctx.delete(Ref(ConfigMap, name, network.namespace))


async def apply_owned(network: Network, ctx: Context) -> None:
    names = [f"{network.name}-{part}" for part in PARTS]
    for name in names:
        await ctx.apply(config_map(network, name), owner=network)
    await ctx.set_status(network, NetworkStatus(made=names))


async def scenario(user: Cluster) -> None:
    network = await user.create(Network.new("lan", Spec()))
    await user.advance(0.5)
    await user.delete(network.ref)
    await user.until_gone(network.ref)


broken = Exploration(scenario, lambda: [Controller(Network, create_and_list, cleanup=delete_what_is_listed)])
fixed = Exploration(scenario, lambda: [Controller(Network, apply_owned)])
expected = Expected("leaked", "apply", "ConfigMap")
