"""Marks an image as failed for ever after three attempts, though the registry would answer the fourth.

Modelled on kubernetes-retired/service-catalog#1157 (the controller stops to retry, and adds a Failed condition that
stays). The fix retries, with backoff, for as long as the object exists.
"""

from typing import Any

from levelset import Context, Controller, Resource, Spec, Status
from levelset.testing import Cluster
from levelset.testing.explore import Exploration
from tests.testing.explore.zoo.common import Expected

__all__ = ["Image", "broken", "expected", "fixed"]

ATTEMPTS = 3


class Registry:
    """A registry of images."""

    def __init__(self) -> None:
        self.images: set[str] = set()

    async def push(self, name: str) -> None:
        self.images.add(name)


class ImageStatus(Status):
    phase: str = ""


class Image(Resource[Spec, ImageStatus], api="zoo.example.dev/v1"):
    """An image, which has to be in the registry."""


def giving_up(registry: Registry) -> list[Controller[Any]]:
    async def reconcile(image: Image, ctx: Context) -> None:
        if image.status is not None:
            return
        for _ in range(ATTEMPTS):
            try:
                await registry.push(image.name)
            except ConnectionError:
                continue
            await ctx.set_status(image, ImageStatus(phase="Pushed"))
            return
        await ctx.set_status(image, ImageStatus(phase="Failed"))

    return [Controller(Image, reconcile)]


def retrying(registry: Registry) -> list[Controller[Any]]:
    async def reconcile(image: Image, ctx: Context) -> None:
        if image.status is None:
            await registry.push(image.name)
            await ctx.set_status(image, ImageStatus(phase="Pushed"))

    return [Controller(Image, reconcile)]


async def scenario(user: Cluster) -> None:
    await user.create(Image.new("shop", Spec()))
    await user.settled()


broken = Exploration(scenario, giving_up, outside=Registry)
fixed = Exploration(scenario, retrying, outside=Registry)
expected = Expected("end state", "outside", "Registry.push")
