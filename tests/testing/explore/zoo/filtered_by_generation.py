"""Ignores events without a new generation, and so the changes of labels that other writers make.

Modelled on konflux-ci/konflux-ci#6253 and vmware-archive/operator-builder#201 (a change of metadata has no new
generation, is filtered, and stays). The fix filters nothing that it also manages.
"""

from levelset import Context, Controller, Resource, Spec, Status, by, owns
from levelset.testing import Cluster
from levelset.testing.explore import Exploration
from tests.testing.explore.zoo.common import Expected

__all__ = ["App", "Route", "broken", "expected", "fixed"]


class RouteSpec(Spec):
    host: str = ""


class Route(Resource[RouteSpec, Status], api="zoo.example.dev/v1"):
    """A route, which the router finds by its label."""


class App(Resource[Spec, Status], api="zoo.example.dev/v1"):
    """An application with its route."""


async def reconcile(app: App, ctx: Context) -> None:
    route = Route.new(app.name, RouteSpec(host=f"{app.name}.example.dev"), namespace=app.namespace)
    route.metadata.labels["router"] = "public"
    await ctx.apply(route, owner=app)


async def scenario(user: Cluster) -> None:
    await user.create(App.new("shop", Spec()))
    await user.settled()


broken = Exploration(scenario, lambda: [Controller(App, reconcile, owns(Route, when=by.generation))])
fixed = Exploration(scenario, lambda: [Controller(App, reconcile, owns(Route))])
expected = Expected("not healed", "end", "scenario")
