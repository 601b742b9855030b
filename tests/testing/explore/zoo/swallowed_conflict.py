"""Passes over a conflict, since "the next event will bring us back", and notes that the work is done.

Modelled on netobserv/netobserv-operator#2852, which goes on when an update fails, and on kubernetes/kubernetes#66501,
where a generation that is noted as observed is not looked at again. A conflict means that nothing was written: the look
failed, and must be repeated.
"""

from levelset import Conflict, Context, Controller, MergePatch, Ref, Resource, Spec, Status, replace
from levelset.testing import Cluster
from levelset.testing.explore import Exploration
from tests.testing.explore.zoo.habitat import ConfigMap, Expected, config_map

__all__ = ["Gateway", "broken", "expected", "fixed"]


class GatewaySpec(Spec):
    routes: str


class GatewayStatus(Status):
    observed_generation: int = 0


class Gateway(Resource[GatewaySpec, GatewayStatus], api="zoo.example.dev/v1"):
    """Wants its routes in a table, where others have fields too."""


async def pass_over(gateway: Gateway, ctx: Context) -> None:
    try:
        await write_table(gateway, ctx)
    except Conflict:
        ctx.log.info("somebody else writes the table just now")
    await ctx.set_status(gateway, GatewayStatus(observed_generation=gateway.metadata.generation))


async def look_again(gateway: Gateway, ctx: Context) -> None:
    await write_table(gateway, ctx)
    await ctx.set_status(gateway, GatewayStatus(observed_generation=gateway.metadata.generation))


async def write_table(gateway: Gateway, ctx: Context) -> None:
    table = await ctx.live(Ref(ConfigMap, gateway.name, gateway.namespace))
    if table is None:
        await ctx.create(config_map(gateway, gateway.name, routes=gateway.spec.routes), owner=gateway)
    elif table.data["routes"] != gateway.spec.routes:
        await ctx.update(replace(table, data={**table.data, "routes": gateway.spec.routes}))


async def scenario(people: Cluster) -> None:
    gateway = await people.create(Gateway.new("edge", GatewaySpec(routes="/")))
    await people.settled()
    await people.patch(gateway.ref, MergePatch({"spec": {"routes": "/ /shop"}}))
    await people.settled()


broken = Exploration(scenario, lambda: [Controller(Gateway, pass_over)])
fixed = Exploration(scenario, lambda: [Controller(Gateway, look_again)])
expected = Expected("end state", "update", "ConfigMap")
