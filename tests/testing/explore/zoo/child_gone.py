"""Creates a child once, and does not notice when another writer deletes it.

Modelled on knative/serving#2343 (controllers should handle delete events of child resources) and datastax/kaap#125. The
fix watches the children that it owns.
"""

from levelset import Context, Controller, Resource, Spec, Status, owns
from levelset.testing import Cluster
from levelset.testing.explore import Exploration
from tests.testing.explore.zoo.common import ConfigMap, Expected, config_map

__all__ = ["Proxy", "broken", "expected", "fixed"]


class Proxy(Resource[Spec, Status], api="zoo.example.dev/v1", plural="proxies"):
    """A proxy with its configuration."""


async def reconcile(proxy: Proxy, ctx: Context) -> None:
    await ctx.apply(config_map(proxy, f"{proxy.name}-config", port=80), owner=proxy)


async def scenario(user: Cluster) -> None:
    await user.create(Proxy.new("edge", Spec()))
    await user.settled()


broken = Exploration(scenario, lambda: [Controller(Proxy, reconcile)])
fixed = Exploration(scenario, lambda: [Controller(Proxy, reconcile, owns(ConfigMap))])
expected = Expected("not watched", "end", "scenario")
