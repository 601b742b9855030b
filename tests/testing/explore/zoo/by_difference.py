"""Acts on the difference between two observed versions, and misses changes that happen while it is down.

Treats events as state. Modelled on strimzi/strimzi-kafka-operator#363 (a rolling update is never finished if the
operator restarts in the middle) and linkerd/linkerd2#12021 (changes without a leader are not acted on). The fix applies
the desired number, whatever it was before.
"""

from typing import Any

from levelset import Context, Controller, MergePatch, Ref, Resource, Spec, Status, owns
from levelset.testing import Cluster
from levelset.testing.explore import Exploration
from tests.testing.explore.zoo.common import ConfigMap, Expected, config_map

__all__ = ["Fleet", "broken", "expected", "fixed"]


class FleetSpec(Spec):
    size: int


class Fleet(Resource[FleetSpec, Status], api="zoo.example.dev/v1"):
    """A fleet, which needs a dock of its size."""


def remembering() -> list[Controller[Any]]:
    seen: dict[str, int] = {}

    async def reconcile(fleet: Fleet, ctx: Context) -> None:
        dock = Ref(ConfigMap, fleet.name, fleet.namespace)
        before = seen.get(fleet.name)
        found = await ctx.live(dock)
        if found is None:
            await ctx.create(config_map(fleet, fleet.name, size=fleet.spec.size), owner=fleet)
        elif before is not None and before != fleet.spec.size:
            size = int(found.data["size"]) + fleet.spec.size - before
            await ctx.patch(dock, MergePatch({"data": {"size": str(size)}}))
        seen[fleet.name] = fleet.spec.size

    return [Controller(Fleet, reconcile)]


async def apply_size(fleet: Fleet, ctx: Context) -> None:
    await ctx.apply(config_map(fleet, fleet.name, size=fleet.spec.size), owner=fleet)


async def scenario(user: Cluster) -> None:
    fleet = await user.create(Fleet.new("north", FleetSpec(size=2)))
    await user.settled()
    await user.patch(fleet.ref, MergePatch({"spec": {"size": 5}}))
    await user.settled()


broken = Exploration(scenario, remembering)
fixed = Exploration(scenario, lambda: [Controller(Fleet, apply_size, owns(ConfigMap))])
expected = Expected("end state", "patch", "ConfigMap")
