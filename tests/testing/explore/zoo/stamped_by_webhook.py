"""Compares its whole child with the wanted one, and writes it for ever because a webhook stamps each write.

Modelled on Kong/kong-operator#522 (a deployment that a mutating webhook changes is patched in a loop) and
rajsinghtech/homer-operator#114 (twenty updates a second). The fix compares only the fields that it sets.
"""

from typing import Any

from levelset import Context, Controller, MergePatch, Ref, Resource, Spec, Status, defaults, owns, replace
from levelset.testing import Cluster
from levelset.testing.explore import Exploration
from tests.testing.explore.zoo.common import ConfigMap, Expected, config_map

__all__ = ["Portal", "broken", "expected", "fixed"]


class PortalSpec(Spec):
    image: str


class Portal(Resource[PortalSpec, Status], api="zoo.example.dev/v1"):
    """A portal with a deployment."""


def stamp(deployment: ConfigMap) -> ConfigMap:
    return replace(deployment, data={**deployment.data, "scans": str(int(deployment.data.get("scans", "0")) + 1)})


async def compare_everything(portal: Portal, ctx: Context) -> None:
    wanted = config_map(portal, portal.name, image=portal.spec.image)
    found = await ctx.find(Ref(ConfigMap, portal.name, portal.namespace))
    if found is None:
        await ctx.create(wanted, owner=portal)
    elif found.data != wanted.data:
        await ctx.patch(found.ref, MergePatch({"data": dict(wanted.data)}))


async def compare_own_fields(portal: Portal, ctx: Context) -> None:
    wanted = config_map(portal, portal.name, image=portal.spec.image)
    found = await ctx.find(Ref(ConfigMap, portal.name, portal.namespace))
    if found is None:
        await ctx.create(wanted, owner=portal)
    elif found.data.get("image") != portal.spec.image:
        await ctx.patch(found.ref, MergePatch({"data": dict(wanted.data)}))


async def scenario(user: Cluster) -> None:
    await user.create(Portal.new("shop", PortalSpec(image="shop:1")))
    await user.settled()


def exploration(reconcile: Any) -> Exploration:
    # The stamps belong to the webhook, which counts every write.
    return Exploration(
        scenario,
        lambda: [Controller(Portal, reconcile, owns(ConfigMap))],
        webhooks=[defaults(ConfigMap, stamp, failure_policy="Ignore")],
        ignored=["ConfigMap.data.scans"],
    )


broken = exploration(compare_everything)
fixed = exploration(compare_own_fields)
expected = Expected("endless loop", "patch", "ConfigMap")
