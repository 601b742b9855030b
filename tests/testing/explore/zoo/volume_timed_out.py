"""Creates a volume in the cloud again when the response of the first request is lost.

Modelled on kubernetes-csi/external-provisioner#131 (timed-out CreateVolume calls leak volumes). The fix asks the cloud
for the volume of the claim before it creates one.
"""

from dataclasses import dataclass
from typing import Any

from levelset import Context, Controller, Resource, Spec, Status
from levelset.testing import Cluster
from levelset.testing.explore import Exploration
from tests.testing.explore.zoo.common import Expected

__all__ = ["Claim", "broken", "expected", "fixed"]


@dataclass
class Volume:
    """A volume of the cloud, with a tag that its creator chose."""

    id: str
    tag: str


class Disks:
    """A cloud that names its volumes itself."""

    def __init__(self) -> None:
        self.volumes: dict[str, Volume] = {}

    async def create(self, tag: str) -> Volume:
        made = Volume(f"vol-{len(self.volumes) + 1:04}", tag)
        self.volumes[made.id] = made
        return made

    async def find(self, tag: str) -> Volume | None:
        return next((one for one in self.volumes.values() if one.tag == tag), None)


class ClaimStatus(Status):
    volume: str = ""


class Claim(Resource[Spec, ClaimStatus], api="zoo.example.dev/v1"):
    """A claim of one volume."""


def creating(disks: Disks) -> list[Controller[Any]]:
    async def reconcile(claim: Claim, ctx: Context) -> None:
        if claim.status is None:
            made = await disks.create(claim.name)
            await ctx.set_status(claim, ClaimStatus(volume=made.id))

    return [Controller(Claim, reconcile)]


def finding(disks: Disks) -> list[Controller[Any]]:
    async def reconcile(claim: Claim, ctx: Context) -> None:
        if claim.status is None:
            made = await disks.find(claim.name) or await disks.create(claim.name)
            await ctx.set_status(claim, ClaimStatus(volume=made.id))

    return [Controller(Claim, reconcile)]


async def scenario(user: Cluster) -> None:
    await user.create(Claim.new("data", Spec()))
    await user.settled()


broken = Exploration(scenario, creating, outside=Disks)
fixed = Exploration(scenario, finding, outside=Disks)
expected = Expected("created twice", "outside", "Disks.create")
