"""Takes a failed read for an object that does not exist, and never reads it again.

Modelled on apache/apisix-ingress-controller#2734 (an API server that cannot be reached is taken for a missing resource
until the process restarts). The fix treats only "not found" as missing; other errors are retried.
"""

from levelset import Context, Controller, LevelsetError, ObjectMeta, Ref, Resource, Spec, Status
from levelset.testing import Cluster
from levelset.testing.explore import Exploration
from tests.testing.explore.zoo.common import ConfigMap, Expected

__all__ = ["Gateway", "broken", "expected", "fixed"]


class GatewayStatus(Status):
    mode: str = ""


class Gateway(Resource[Spec, GatewayStatus], api="zoo.example.dev/v1"):
    """A gateway, with optional settings in a ConfigMap."""


async def take_errors_for_missing(gateway: Gateway, ctx: Context) -> None:
    try:
        settings = await ctx.live(Ref(ConfigMap, "settings", gateway.namespace))
    except LevelsetError:
        settings = None
    await ctx.set_status(gateway, GatewayStatus(mode=settings.data["mode"] if settings else "default"))


async def let_errors_propagate(gateway: Gateway, ctx: Context) -> None:
    settings = await ctx.live(Ref(ConfigMap, "settings", gateway.namespace))
    await ctx.set_status(gateway, GatewayStatus(mode=settings.data["mode"] if settings else "default"))


async def scenario(user: Cluster) -> None:
    await user.create(ConfigMap(metadata=ObjectMeta(name="settings"), data={"mode": "secure"}))
    await user.create(Gateway.new("edge", Spec()))
    await user.settled()


broken = Exploration(scenario, lambda: [Controller(Gateway, take_errors_for_missing)])
fixed = Exploration(scenario, lambda: [Controller(Gateway, let_errors_propagate)])
expected = Expected("end state", "get", "ConfigMap")
