"""Creates its children before it releases its finalizer, also while the namespace is being deleted.

Modelled on tigera/operator#3791 (creating in a terminating namespace fails, so the finalizers there are never removed).
The fix creates nothing while it cleans up.
"""

from levelset import Context, Controller, Resource, Spec, Status, owns
from levelset.testing import Cluster
from levelset.testing.explore import Exploration
from tests.testing.explore.zoo.common import ConfigMap, Expected, config_map

__all__ = ["Network", "broken", "expected", "fixed"]


class Network(Resource[Spec, Status], api="zoo.example.dev/v1"):
    """A network with its configuration."""


async def reconcile(network: Network, ctx: Context) -> None:
    await ctx.apply(config_map(network, f"{network.name}-config"), owner=network)


async def drain(network: Network, ctx: Context) -> None:
    # The report of the last run, for the pods that are still there.
    await ctx.apply(config_map(network, f"{network.name}-drained"), owner=network)


async def release(network: Network, ctx: Context) -> None:
    """Nothing to do: the server deletes the children."""


async def scenario(user: Cluster) -> None:
    await user.create(Network.new("pods", Spec()))
    await user.settled()


broken = Exploration(scenario, lambda: [Controller(Network, reconcile, owns(ConfigMap), cleanup=drain)])
fixed = Exploration(scenario, lambda: [Controller(Network, reconcile, owns(ConfigMap), cleanup=release)])
expected = Expected("stuck", "end", "scenario")
