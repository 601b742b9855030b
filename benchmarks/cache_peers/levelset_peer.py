"""levelset: a declared kind; every change goes into a queue that holds each key once, as a controller's does."""

import asyncio
from collections.abc import Sequence
from typing import Any

from meter import EVENTS, KIND, PORT, TOKEN, Meter

from levelset.client import Client, Config, Token
from levelset.kinds.core_v1 import Pod
from levelset.objects import GroupVersionKind
from levelset.runtime.cache import Change, Cluster, Index, by_label
from models_levelset import Website


async def main() -> None:
    kind: Any = Pod if KIND == "Pod" else Website
    config = Config(server=f"http://127.0.0.1:{PORT}", credentials=Token(TOKEN))
    async with await Client.connect(config) as client, Cluster(client) as cluster:
        await client.list(GroupVersionKind("", "v1", "Namespace"))  # warm-up, not measured
        meter = Meter()
        handle = cluster.declare(kind)
        await handle.wait_ready(within=600)
        meter.cached = handle.store
        meter.say("listed", len(handle.store))
        queue: dict[str, Change[Any]] = {}
        seen, done = 0, asyncio.Event()

        def take(changes: Sequence[Change[Any]]) -> None:
            nonlocal seen
            for change in changes:
                queue[change.key] = change
            seen += sum(not change.is_initial for change in changes)
            if seen >= EVENTS:
                done.set()

        handle.listen(take)
        while len(queue) < len(handle.store):  # noqa: ASYNC110  # the replay comes in slices
            await asyncio.sleep(0.01)
        meter.watching()
        await done.wait()
        meter.say("watched", EVENTS)
        await handle.add_index(by_label("tier"))
        meter.say("indexed by label", len(handle.store))
        await handle.add_index(Index(kind, lambda one: [one.spec.node_name if KIND == "Pod" else one.spec.image]))
        meter.say("indexed by function", len(handle.store))


asyncio.run(main())
