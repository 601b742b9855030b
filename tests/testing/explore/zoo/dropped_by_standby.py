"""Looks at everything in every replica, and drops what it sees while it does not lead.

When the lead moves, nobody brings back what was dropped. Modelled on linkerd/linkerd2#12021 (changes are observed by a
replica that does not lead, are not written, and are only made good at the next resync). A controller that is left to
the manager starts when its replica begins to lead, and looks at everything there is.
"""

from typing import Any

from levelset import Context, Controller, MergePatch, Resource, Spec, Status
from levelset.testing import Cluster
from levelset.testing.explore import Exploration
from tests.testing.explore.zoo.habitat import Expected, config_map

__all__ = ["Mesh", "Route", "broken", "expected", "fixed"]


class Mesh(Resource[Spec, Status], api="zoo.example.dev/v1", plural="meshes"):
    """The whole; who looks at it knows that it leads."""


class RouteSpec(Spec):
    to: str


class Route(Resource[RouteSpec, Status], api="zoo.example.dev/v1"):
    """Wants a slice that says where it goes."""


def looking_everywhere() -> list[Controller[Any]]:
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


async def scenario(people: Cluster) -> None:
    await people.create(Mesh.new("mesh", Spec()))
    await people.advance(30)
    route = await people.create(Route.new("shop", RouteSpec(to="v1")))
    await people.advance(30)
    await people.patch(route.ref, MergePatch({"spec": {"to": "v2"}}))
    await people.advance(30)


broken = Exploration(scenario, looking_everywhere, leader=True)
fixed = Exploration(scenario, lambda: [Controller(Route, write_slice)], leader=True, kinds=[Mesh])
expected = Expected("end state", "apply", "ConfigMap")
