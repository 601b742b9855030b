"""levelset: a declared kind with one index; every change goes into a queue that holds each key once, as controllers do."""

import asyncio
from collections.abc import Sequence
from typing import Any

from meter import EVENTS, KIND, PORT, TOKEN, Meter

import models_levelset
from levelset.cache import Change, Cluster, by_namespace
from levelset.client import Client, Config, Token


async def main() -> None:
    kind: Any = getattr(models_levelset, KIND)
    config = Config(server=f"http://127.0.0.1:{PORT}", credentials=Token(TOKEN))
    async with await Client.connect(config) as client, Cluster(client) as cluster:
        meter = Meter()
        handle = cluster.declare(kind, indexes=[by_namespace()])
        await handle.wait_ready(within=600)
        meter.kept = handle.store
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


asyncio.run(main())
