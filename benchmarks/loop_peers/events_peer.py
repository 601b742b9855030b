"""levelset: a controller whose reconciler only reads the typed object, fed by a storm of watch events."""

import asyncio
import json
import sys
import time

from levelset import Client, Config, Context, Controller, Manager
from levelset.client import Token
from models_levelset import Website

PORT, TOKEN, COUNT, STORMS = int(sys.argv[1]), sys.argv[2], int(sys.argv[3]), int(sys.argv[4])


class Counter:
    def __init__(self) -> None:
        self.seen = 0
        self.all_seen = asyncio.Event()
        self.until = COUNT

    async def reconcile(self, site: Website, _: Context) -> None:
        assert site.spec.image
        self.seen += 1
        if self.seen >= self.until:
            self.all_seen.set()


async def main() -> None:
    config = Config(server=f"http://127.0.0.1:{PORT}", credentials=Token(TOKEN))
    counter = Counter()
    async with await Client.connect(config) as client, Manager(client) as manager:
        manager.add(Controller(Website, counter.reconcile, concurrency=4))
        await counter.all_seen.wait()
        print(json.dumps({"phase": "watching"}), flush=True)
        for _ in range(STORMS):
            counter.all_seen.clear()
            counter.until += COUNT
            began = time.process_time()
            await counter.all_seen.wait()
            spent = time.process_time() - began
            print(json.dumps({"phase": "watched", "cpu": spent, "number": COUNT}), flush=True)


asyncio.run(main())
