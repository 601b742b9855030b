"""Two controllers that set one field to different values.

Modelled on operator-framework/operator-sdk#3367, druid-io/druid-operator#160, VictoriaMetrics/operator#2190 and
apache/superset-kubernetes-operator#151: an operator and an autoscaler set the replicas in turn, for ever. The fix omits
fields that another controller owns from the applied object.
"""

from typing import Any

from levelset import Context, Controller, Ref, Resource, Spec, Status, owns, watches
from levelset.testing import Cluster
from levelset.testing.explore import Exploration
from tests.testing.explore.zoo.common import ConfigMap, Expected, config_map

__all__ = ["Scaler", "Web", "broken", "expected", "fixed"]


class WebSpec(Spec):
    image: str


class Web(Resource[WebSpec, Status], api="zoo.example.dev/v1"):
    """A web application with a deployment."""


class ScalerSpec(Spec):
    target: str
    replicas: int


class Scaler(Resource[ScalerSpec, Status], api="zoo.example.dev/v1"):
    """An autoscaler with the replicas of a deployment."""


async def deploy_everything(web: Web, ctx: Context) -> None:
    await ctx.apply(config_map(web, web.name, image=web.spec.image, replicas=1), owner=web)


async def deploy_the_image(web: Web, ctx: Context) -> None:
    await ctx.apply(config_map(web, web.name, image=web.spec.image), owner=web)


async def scale(scaler: Scaler, ctx: Context) -> None:
    await ctx.apply(config_map(scaler, scaler.spec.target, replicas=scaler.spec.replicas))


def both(reconcile: Any) -> list[Controller[Any]]:
    aims = watches(ConfigMap, to=lambda one: [Ref(Scaler, one.name, one.namespace)])
    return [Controller(Web, reconcile, owns(ConfigMap)), Controller(Scaler, scale, aims)]


async def scenario(user: Cluster) -> None:
    await user.create(Web.new("shop", WebSpec(image="shop:1")))
    await user.create(Scaler.new("shop", ScalerSpec(target="shop", replicas=3)))
    await user.settled()


broken = Exploration(scenario, lambda: both(deploy_everything))
fixed = Exploration(scenario, lambda: both(deploy_the_image))
expected = Expected("endless loop", "apply", "ConfigMap")
