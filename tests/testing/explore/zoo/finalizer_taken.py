"""Adds its finalizer once, with the first status: when another writer removes it, the external resource leaks.

Modelled on operator-framework/java-operator-sdk#149 (a finalizer is removed by hand, and the object is deleted then).
The fix uses `cleanup`: its finalizer is added whenever it is missing.
"""

from typing import Any

from levelset import Context, Controller, MergePatch, Resource, Spec, Status
from levelset.testing import Cluster
from levelset.testing.explore import Exploration
from tests.testing.explore.zoo.common import Cloud, Expected

__all__ = ["Bucket", "broken", "expected", "fixed"]

FINALIZER = "zoo.example.dev/bucket"


class BucketStatus(Status):
    ready: bool = False


class Bucket(Resource[Spec, BucketStatus], api="zoo.example.dev/v1"):
    """A bucket in the cloud."""


async def put_finalizers(bucket: Bucket, ctx: Context, finalizers: list[str]) -> Bucket:
    version = bucket.metadata.resource_version
    patch = MergePatch({"metadata": {"resourceVersion": version, "finalizers": finalizers}})
    return await ctx.patch(bucket.ref, patch)


async def make(cloud: Cloud, bucket: Bucket) -> None:
    if await cloud.find(bucket.metadata.uid) is None:
        await cloud.create(bucket.metadata.uid)


async def remove(cloud: Cloud, bucket: Bucket) -> None:
    if found := await cloud.find(bucket.metadata.uid):
        await cloud.delete(found.id)


def adding_once(cloud: Cloud) -> list[Controller[Any]]:
    async def reconcile(bucket: Bucket, ctx: Context) -> None:
        if bucket.metadata.deletion_timestamp is not None:
            if FINALIZER in bucket.metadata.finalizers:
                await remove(cloud, bucket)
                await put_finalizers(bucket, ctx, [])
        elif bucket.status is None:
            bucket = await put_finalizers(bucket, ctx, [FINALIZER])
            await make(cloud, bucket)
            await ctx.set_status(bucket, BucketStatus(ready=True))

    return [Controller(Bucket, reconcile)]


def adding_always(cloud: Cloud) -> list[Controller[Any]]:
    async def reconcile(bucket: Bucket, ctx: Context) -> None:
        await make(cloud, bucket)
        await ctx.set_status(bucket, BucketStatus(ready=True))

    async def cleanup(bucket: Bucket, ctx: Context) -> None:
        await remove(cloud, bucket)

    return [Controller(Bucket, reconcile, cleanup=cleanup, finalizer=FINALIZER)]


async def scenario(user: Cluster) -> None:
    bucket = await user.create(Bucket.new("logs", Spec()))
    await user.settled()
    await user.patch(bucket.ref, MergePatch({"metadata": {"labels": {"team": "a"}}}))
    await user.settled()
    await user.delete(bucket.ref)
    await user.until_gone(bucket.ref)


broken = Exploration(scenario, adding_once, outside=Cloud)
fixed = Exploration(scenario, adding_always, outside=Cloud)
expected = Expected("not healed", "patch", "Bucket")
