"""levelset: a controller that applies one ConfigMap and sets one status, under a manager with its metrics on.

With the argument `owns` it also watches its ConfigMaps, as a real one would, and reconciles when one changes; without it,
it does the same as the handler for kopf. The server's address is in the environment.
"""

import asyncio
import json
import os
import sys
import time

from levelset import Client, Config, Context, Controller, Manager, Object, ObjectMeta, owns
from levelset.client import Token
from models_levelset import Website, WebsiteStatus


class Child(Object, api="v1", kind="ConfigMap"):
    data: dict[str, str] = {}


async def reconcile(site: Website, ctx: Context) -> None:
    metadata = ObjectMeta(name=site.name, namespace=site.namespace)
    await ctx.apply(Child(metadata=metadata, data={"image": site.spec.image}), owner=site)
    await ctx.set_status(site, WebsiteStatus(ready=1))


async def main() -> None:
    config = Config(server=os.environ["PEER_SERVER"], credentials=Token(os.environ["PEER_TOKEN"]))
    relations = (owns(Child),) if "owns" in sys.argv else ()
    websites = Controller(Website, reconcile, *relations, concurrency=32)
    async with await Client.connect(config) as client, Manager(client) as manager:
        manager.add(websites)
        began = time.process_time()
        print(json.dumps({"phase": "started"}), flush=True)
        await asyncio.get_running_loop().run_in_executor(None, sys.stdin.readline)
        print(json.dumps({"phase": "spent", "cpu": time.process_time() - began}), flush=True)


asyncio.run(main())
