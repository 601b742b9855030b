"""Finds its children by their label, and does not see one whose label another writer has changed.

Modelled on openshift/external-secrets-operator#153 (a resource without its managed label is invisible for the operator,
and creating it fails because it exists) and kubernetes/kubernetes#27405. The fix applies each child by its name, label
included.
"""

from contextlib import suppress

from levelset import Context, Controller, MergePatch, Resource, Spec, Status, owns
from levelset.errors import AlreadyExists
from levelset.testing import Cluster
from levelset.testing.explore import Exploration
from tests.testing.explore.zoo.common import ConfigMap, Expected, config_map

__all__ = ["Fleet", "broken", "expected", "fixed"]


class FleetSpec(Spec):
    image: str
    size: int


class Fleet(Resource[FleetSpec, Status], api="zoo.example.dev/v1"):
    """A fleet of pods with one image."""


def pod(fleet: Fleet, number: int) -> ConfigMap:
    return config_map(fleet, f"{fleet.name}-{number}", labels={"fleet": fleet.name}, image=fleet.spec.image)


async def find_by_label(fleet: Fleet, ctx: Context) -> None:
    listed = await ctx.list(ConfigMap, namespace=fleet.namespace, labels={"fleet": fleet.name})
    found = {one.name: one for one in listed}
    for wanted in (pod(fleet, number) for number in range(fleet.spec.size)):
        if wanted.name not in found:
            with suppress(AlreadyExists):
                await ctx.create(wanted, owner=fleet)
        elif found[wanted.name].data != wanted.data:
            await ctx.patch(found[wanted.name].ref, MergePatch({"data": dict(wanted.data)}))
    await delete_surplus(fleet, list(found.values()), ctx)


async def apply_by_name(fleet: Fleet, ctx: Context) -> None:
    for number in range(fleet.spec.size):
        await ctx.apply(pod(fleet, number), owner=fleet)
    await delete_surplus(fleet, await ctx.children(ConfigMap), ctx)


async def delete_surplus(fleet: Fleet, found: list[ConfigMap], ctx: Context) -> None:
    wanted = {f"{fleet.name}-{number}" for number in range(fleet.spec.size)}
    for one in found:
        if one.name not in wanted:
            await ctx.delete(one)


async def scenario(user: Cluster) -> None:
    fleet = await user.create(Fleet.new("web", FleetSpec(image="web:1", size=2)))
    await user.settled()
    await user.patch(fleet.ref, MergePatch({"spec": {"image": "web:2"}}))
    await user.settled()


broken = Exploration(scenario, lambda: [Controller(Fleet, find_by_label, owns(ConfigMap))])
fixed = Exploration(scenario, lambda: [Controller(Fleet, apply_by_name, owns(ConfigMap))])
expected = Expected("not healed", "end", "scenario")
