"""Creates its child, and makes it a dependent of its object only in a second request.

Modelled on noironetworks/aci-containers#436 (if the owner reference is not set and the object is deleted at that point,
the resources are orphans). The fix sends the owner reference with the child.
"""

from typing import Any

from levelset import Context, Controller, MergePatch, Resource, Spec, Status
from levelset.testing import Cluster
from levelset.testing.explore import Exploration
from tests.testing.explore.zoo.common import ConfigMap, Expected, config_map

__all__ = ["Network", "broken", "expected", "fixed"]


class Network(Resource[Spec, Status], api="zoo.example.dev/v1"):
    """A network with its settings."""


def owner_of(network: Network) -> dict[str, Any]:
    return {
        "apiVersion": "zoo.example.dev/v1",
        "kind": "Network",
        "name": network.name,
        "uid": network.metadata.uid,
        "controller": True,
    }


async def own_later(network: Network, ctx: Context) -> None:
    child = config_map(network, f"{network.name}-settings", mtu=1500)
    if await ctx.live(child.ref) is None:
        made = await ctx.create(child)
        await ctx.patch(made.ref, MergePatch({"metadata": {"ownerReferences": [owner_of(network)]}}))


async def own_at_once(network: Network, ctx: Context) -> None:
    await ctx.apply(config_map(network, f"{network.name}-settings", mtu=1500), owner=network)


async def scenario(user: Cluster) -> None:
    network = await user.create(Network.new("office", Spec()))
    await user.settled()
    await user.delete(network.ref)
    await user.until_gone(network.ref)


broken = Exploration(scenario, lambda: [Controller(Network, own_later)], kinds=[ConfigMap])
fixed = Exploration(scenario, lambda: [Controller(Network, own_at_once)], kinds=[ConfigMap])
expected = Expected("leaked", "create", "ConfigMap")
