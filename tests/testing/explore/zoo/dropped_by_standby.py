"""Reconciles in every replica, and drops events while it is not the leader.

When the leader changes, the dropped events are not replayed. Modelled on linkerd/linkerd2#12021 (changes that a standby
observes are written only at the next resync). The fix lets the manager start the controller when its replica becomes
the leader, so that it reconciles all objects.
"""

from typing import Any

from levelset import Context, Controller, MergePatch, Resource, Spec, Status, owns
from levelset.testing import Cluster
from levelset.testing.explore import Exploration
from tests.testing.explore.zoo.common import ConfigMap, Expected, config_map

__all__ = ["Mesh", "Route", "broken", "expected", "fixed"]


class Mesh(Resource[Spec, Status], api="zoo.example.dev/v1", plural="meshes"):
    """The mesh; only the leader reconciles it."""


class RouteSpec(Spec):
    to: str


class Route(Resource[RouteSpec, Status], api="zoo.example.dev/v1"):
    """A route, which needs a slice with its target."""


def reconciling_everywhere() -> list[Controller[Any]]:
    leads = False

    async def begin_to_lead(mesh: Mesh, ctx: Context) -> None:
        nonlocal leads
        leads = True

    async def reconcile(route: Route, ctx: Context) -> None:
        if leads:
            await write_slice(route, ctx)

    return [Controller(Mesh, begin_to_lead), Controller(Route, reconcile, leader_only=False)]


async def write_slice(route: Route, ctx: Context) -> None:
    await ctx.apply(config_map(route, route.name, to=route.spec.to), owner=route)


async def scenario(user: Cluster) -> None:
    await user.create(Mesh.new("mesh", Spec()))
    await user.advance(30)
    route = await user.create(Route.new("shop", RouteSpec(to="v1")))
    await user.advance(30)
    await user.patch(route.ref, MergePatch({"spec": {"to": "v2"}}))
    await user.advance(30)


broken = Exploration(scenario, reconciling_everywhere, leader=True, within=90)
fixed = Exploration(
    scenario, lambda: [Controller(Route, write_slice, owns(ConfigMap))], leader=True, kinds=[Mesh], within=90
)
expected = Expected("end state", "apply", "ConfigMap")
