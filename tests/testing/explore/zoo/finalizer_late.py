"""Adds the finalizer only after the external resource was created: a deletion in between leaks it.

Modelled on kubermatic/machine-controller#581 (the finalizer is added after the provider's create, which takes minutes)
and the discussion in crossplane/crossplane-runtime#63. The fix uses `cleanup`: its finalizer is added before the first
reconcile.
"""

from typing import Any

from levelset import Context, Controller, MergePatch, Resource, Spec, Status
from levelset.testing import Cluster
from levelset.testing.explore import Exploration, State
from tests.testing.explore.zoo.common import Cloud, Expected

__all__ = ["Balancer", "broken", "expected", "fixed"]

FINALIZER = "zoo.example.dev/balancer"


class Balancer(Resource[Spec, Status], api="zoo.example.dev/v1"):
    """A load balancer, which needs an address in the cloud."""


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


def every_address_has_a_balancer(state: State) -> None:
    wanted = {one.metadata.uid for one in state.list(Balancer)}
    assert {one.tag for one in state.outside.instances.values()} <= wanted, "an address belongs to no balancer"


async def scenario(user: Cluster) -> None:
    balancer = await user.create(Balancer.new("front", Spec()))
    await user.advance(0.5)
    await user.delete(balancer.ref)
    await user.until_gone(balancer.ref)


broken = Exploration(scenario, late, invariants=[every_address_has_a_balancer], outside=Cloud)
fixed = Exploration(scenario, early, invariants=[every_address_has_a_balancer], outside=Cloud)
expected = Expected("every_address_has_a_balancer", "patch", "Balancer")
