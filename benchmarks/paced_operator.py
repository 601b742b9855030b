"""The operator of paced.py: gives each Website a ConfigMap, which it watches, and a status."""

from levelset import Context, Controller, ObjectMeta, owns, run
from levelset.kinds.core_v1 import ConfigMap
from models_levelset import Website, WebsiteStatus


async def reconcile(site: Website, ctx: Context) -> None:
    metadata = ObjectMeta(name=site.name, namespace=site.namespace)
    await ctx.apply(ConfigMap(metadata=metadata, data={"image": site.spec.image}), owner=site)
    await ctx.set_status(site, WebsiteStatus(ready=1))


if __name__ == "__main__":
    run(Controller(Website, reconcile, owns(ConfigMap), concurrency=4))
