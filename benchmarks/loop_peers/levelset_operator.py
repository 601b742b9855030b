"""The controller of levelset_peer.py, for replays of its recordings."""

from typing import Any

from levelset import Context, Controller, Object, ObjectMeta, owns
from models_levelset import Website, WebsiteStatus


class Child(Object, api="v1", kind="ConfigMap"):
    data: dict[str, str] = {}


async def reconcile(site: Website, ctx: Context) -> None:
    metadata = ObjectMeta(name=site.name, namespace=site.namespace)
    await ctx.apply(Child(metadata=metadata, data={"image": site.spec.image}), owner=site)
    await ctx.set_status(site, WebsiteStatus(ready=1))


def controllers() -> list[Controller[Any]]:
    """With its children watched, as with the argument `owns`."""
    return [Controller(Website, reconcile, owns(Child), concurrency=32)]
