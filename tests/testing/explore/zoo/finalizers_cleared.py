"""Removes all finalizers of a shared secret when it does not need it any more, also that of another controller.

Modelled on k-orc/openstack-resource-controller#424 (the other controller loses the credentials that it still needs).
The fix removes its own finalizer only.
"""

from functools import partial
from typing import Any

from levelset import Context, Controller, MergePatch, Object, ObjectMeta, Ref, Resource, Spec, Status, watches
from levelset.testing import Cluster
from levelset.testing.explore import Exploration
from tests.testing.explore.zoo.common import Cloud, Expected

__all__ = ["Image", "broken", "expected", "fixed"]

OURS = "zoo.example.dev/image"
THEIRS = "zoo.example.dev/audit"


class Secret(Object, api="v1"):
    """The credentials of a cloud."""


class Image(Resource[Spec, Status], api="zoo.example.dev/v1"):
    """An image in the cloud, which needs the credentials."""


CREDENTIALS = Ref(Secret, "cloud", "test")


async def put_finalizers(secret: Secret, ctx: Context, finalizers: list[str]) -> None:
    version = secret.metadata.resource_version
    await ctx.patch(secret.ref, MergePatch({"metadata": {"resourceVersion": version, "finalizers": finalizers}}))


def needing(_: Secret) -> list[Ref[Image]]:
    return [Ref(Image, "base", "test")]


def images(*, is_modest: bool) -> Controller[Any]:
    async def reconcile(image: Image, ctx: Context) -> None:
        secret = await ctx.live(CREDENTIALS)
        if secret is not None and OURS not in secret.metadata.finalizers and not secret.metadata.deletion_timestamp:
            await put_finalizers(secret, ctx, [*secret.metadata.finalizers, OURS])

    async def cleanup(image: Image, ctx: Context) -> None:
        secret = await ctx.live(CREDENTIALS)
        if secret is not None and OURS in secret.metadata.finalizers:
            left = [one for one in secret.metadata.finalizers if one != OURS] if is_modest else []
            await put_finalizers(secret, ctx, left)

    return Controller(Image, reconcile, watches(Secret, to=needing), cleanup=cleanup)


def audits(cloud: Cloud) -> Controller[Any]:
    """Records each secret outside, and removes the record before the secret goes."""

    async def reconcile(secret: Secret, ctx: Context) -> None:
        if await cloud.find(secret.metadata.uid) is None:
            await cloud.create(secret.metadata.uid)

    async def cleanup(secret: Secret, ctx: Context) -> None:
        if found := await cloud.find(secret.metadata.uid):
            await cloud.delete(found.id)

    return Controller(Secret, reconcile, cleanup=cleanup, finalizer=THEIRS)


async def scenario(user: Cluster) -> None:
    await user.create(Secret(metadata=ObjectMeta(name="cloud")))
    image = await user.create(Image.new("base", Spec()))
    await user.settled()
    await user.delete(CREDENTIALS)
    await user.settled()
    await user.delete(image.ref)
    await user.until_gone(CREDENTIALS)


def controllers(cloud: Cloud, *, is_modest: bool) -> list[Controller[Any]]:
    return [images(is_modest=is_modest), audits(cloud)]


broken = Exploration(scenario, partial(controllers, is_modest=False), outside=Cloud)
fixed = Exploration(scenario, partial(controllers, is_modest=True), outside=Cloud)
expected = Expected("leaked", "outside", "Cloud.delete")
