"""Ignores a conflict, and records that the work is done.

Modelled on netobserv/netobserv-operator#2852, which continues after a failed update, and on
kubernetes/kubernetes#66501, where an observed generation is not reconciled again. After a conflict nothing was written:
the reconcile has failed and must be retried.
"""

from levelset import Conflict, Context, Controller, MergePatch, Ref, Resource, Spec, Status, owns, replace
from levelset.testing import Cluster
from levelset.testing.explore import Exploration
from tests.testing.explore.zoo.common import ConfigMap, Expected, config_map

__all__ = ["Gateway", "broken", "expected", "fixed"]


class GatewaySpec(Spec):
    routes: str


class GatewayStatus(Status):
    observed_generation: int = 0


class Gateway(Resource[GatewaySpec, GatewayStatus], api="zoo.example.dev/v1"):
    """A gateway with its routes in a table that other writers share."""


async def ignore_conflict(gateway: Gateway, ctx: Context) -> None:
    try:
        await write_table(gateway, ctx)
    except Conflict:
        ctx.log.info("another writer has changed the table")
    await ctx.set_status(gateway, GatewayStatus(observed_generation=gateway.metadata.generation))


async def fail_on_conflict(gateway: Gateway, ctx: Context) -> None:
    await write_table(gateway, ctx)
    await ctx.set_status(gateway, GatewayStatus(observed_generation=gateway.metadata.generation))


async def write_table(gateway: Gateway, ctx: Context) -> None:
    table = await ctx.live(Ref(ConfigMap, gateway.name, gateway.namespace))
    if table is None:
        await ctx.create(config_map(gateway, gateway.name, routes=gateway.spec.routes), owner=gateway)
    elif table.data["routes"] != gateway.spec.routes:
        await ctx.update(replace(table, data={**table.data, "routes": gateway.spec.routes}))


async def scenario(user: Cluster) -> None:
    gateway = await user.create(Gateway.new("edge", GatewaySpec(routes="/")))
    await user.settled()
    await user.patch(gateway.ref, MergePatch({"spec": {"routes": "/ /shop"}}))
    await user.settled()


broken = Exploration(scenario, lambda: [Controller(Gateway, ignore_conflict)])
fixed = Exploration(scenario, lambda: [Controller(Gateway, fail_on_conflict, owns(ConfigMap))])
expected = Expected("end state", "update", "ConfigMap")
