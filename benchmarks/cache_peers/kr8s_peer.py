"""kr8s: lists in its pages and watches; a dict is the cache."""

import asyncio
import tempfile
from pathlib import Path

import kr8s.asyncio
import yaml
from kr8s.asyncio.objects import Pod, new_class
from meter import EVENTS, KIND, Meter, kubeconfig


async def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "config")
        path.write_text(yaml.safe_dump(kubeconfig()))  # noqa: ASYNC240  # before anything runs
        api = await kr8s.asyncio.api(kubeconfig=str(path))
        kind = Pod if KIND == "Pod" else new_class("Website", version="example.dev/v1", namespaced=True)
        [one async for one in api.get("namespaces")]  # warm-up, not measured
        meter = Meter()
        cached = meter.cached = {}
        async for obj in api.get(kind, namespace=kr8s.ALL):
            cached[obj.namespace, obj.name] = obj
        meter.say("listed", len(cached))
        # Its watch cannot start at a version: it sends all existing objects first.
        seen = -len(cached)
        async for _, obj in api.watch(kind, namespace=kr8s.ALL):
            cached[obj.namespace, obj.name] = obj
            seen += 1
            if seen == 0:
                meter.watching()
            if seen == EVENTS:
                break
        meter.say("watched", seen)


asyncio.run(main())
