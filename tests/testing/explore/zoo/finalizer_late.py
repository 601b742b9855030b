"""Puts the finalizer on only after the outside thing was made: who deletes the object in between leaks it.

Modelled on kubermatic/machine-controller#581 (the finalizer is added after the provider's create, which takes minutes)
and on the discussion in crossplane/crossplane-runtime#63: too early leaves an object that hangs, too late leaves
something that is paid for. A controller with a `cleanup` has its finalizer on the object before it first reconciles.
"""

from typing import Any

from levelset import Context, Controller, MergePatch, Resource, Spec, Status
from levelset.testing import Cluster
from levelset.testing.explore import Exploration, State
from tests.testing.explore.zoo.habitat import Cloud, Expected

__all__ = ["Balancer", "broken", "expected", "fixed"]

FINALIZER = "zoo.example.dev/balancer"


class Balancer(Resource[Spec, Status], api="zoo.example.dev/v1"):
    """Wants an address in the cloud."""


def late(cloud: Cloud) -> list[Controller[Any]]:
    async def reconcile(balancer: Balancer, ctx: Context) -> None:
        if balancer.metadata.deletion_timestamp is not None:
            await release(cloud, balancer)
            await put_finalizers(balancer, ctx, [])
        elif FINALIZER not in balancer.metadata.finalizers:
            await take(cloud, balancer)
            await put_finalizers(balancer, ctx, [FINALIZER])

    return [Controller(Balancer, reconcile)]


def early(cloud: Cloud) -> list[Controller[Any]]:
    async def reconcile(balancer: Balancer, ctx: Context) -> None:
        await take(cloud, balancer)

    async def cleanup(balancer: Balancer, ctx: Context) -> None:
        await release(cloud, balancer)

    return [Controller(Balancer, reconcile, cleanup=cleanup, finalizer=FINALIZER)]


async def take(cloud: Cloud, balancer: Balancer) -> None:
    if not await cloud.find(balancer.metadata.uid):
        await cloud.create(balancer.metadata.uid)


async def release(cloud: Cloud, balancer: Balancer) -> None:
    if found := await cloud.find(balancer.metadata.uid):
        await cloud.delete(found.id)


async def put_finalizers(balancer: Balancer, ctx: Context, finalizers: list[str]) -> None:
    version = balancer.metadata.resource_version
    await ctx.patch(balancer.ref, MergePatch({"metadata": {"resourceVersion": version, "finalizers": finalizers}}))


def every_address_is_wanted(state: State) -> None:
    wanted = {one.metadata.uid for one in state.list(Balancer)}
    assert {one.tag for one in state.outside.instances.values()} <= wanted, "an address belongs to no balancer"


async def scenario(people: Cluster) -> None:
    balancer = await people.create(Balancer.new("front", Spec()))
    await people.advance(0.5)
    await people.delete(balancer.ref)
    await people.until_gone(balancer.ref)


broken = Exploration(scenario, late, invariants=[every_address_is_wanted], outside=Cloud)
fixed = Exploration(scenario, early, invariants=[every_address_is_wanted], outside=Cloud)
expected = Expected("every_address_is_wanted", "patch", "Balancer")
