"""Fails its cleanup for ever if the external resource is already gone: the first deletion had lost its response.

Modelled on kubernetes-sigs/cluster-api-provider-cloudstack#339 (the deletion of an affinity group returns an error but
takes effect, and the finalizer stays) and wso2/api-platform#3323. The fix takes "not found" for deleted.
"""

from contextlib import suppress
from typing import Any

from levelset import Context, Controller, Resource, Spec, Status
from levelset.testing import Cluster
from levelset.testing.explore import Exploration
from tests.testing.explore.zoo.common import Expected

__all__ = ["AffinityGroup", "broken", "expected", "fixed"]


class UnknownGroupError(Exception):
    """The cloud does not have that group."""


class Groups:
    """A cloud with affinity groups, which have names."""

    def __init__(self) -> None:
        self.groups: set[str] = set()

    async def put(self, name: str) -> None:
        self.groups.add(name)

    async def delete(self, name: str) -> None:
        if name not in self.groups:
            raise UnknownGroupError(name)
        self.groups.remove(name)


class AffinityGroup(Resource[Spec, Status], api="zoo.example.dev/v1"):
    """An affinity group of a cloud."""


def deleting(groups: Groups) -> list[Controller[Any]]:
    async def reconcile(group: AffinityGroup, ctx: Context) -> None:
        await groups.put(group.name)

    async def cleanup(group: AffinityGroup, ctx: Context) -> None:
        await groups.delete(group.name)

    return [Controller(AffinityGroup, reconcile, cleanup=cleanup)]


def deleting_twice(groups: Groups) -> list[Controller[Any]]:
    async def reconcile(group: AffinityGroup, ctx: Context) -> None:
        await groups.put(group.name)

    async def cleanup(group: AffinityGroup, ctx: Context) -> None:
        with suppress(UnknownGroupError):
            await groups.delete(group.name)

    return [Controller(AffinityGroup, reconcile, cleanup=cleanup)]


async def scenario(user: Cluster) -> None:
    group = await user.create(AffinityGroup.new("workers", Spec()))
    await user.settled()
    await user.delete(group.ref)
    await user.advance(30)


broken = Exploration(scenario, deleting, outside=Groups)
fixed = Exploration(scenario, deleting_twice, outside=Groups)
expected = Expected("stuck", "outside", "Groups.delete")
