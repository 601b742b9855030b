"""levelset: a controller that applies one ConfigMap and sets one status, under a manager with its metrics on.

With the argument `owns` it also watches its ConfigMaps, as a real one would, and reconciles when one changes; without it,
it does the same as the handler for kopf. The server's address is in the environment. With `record=PATH` the run is
recorded in that file. The event loop is that of `levelset.run`: uvloop if it is installed.
"""

import asyncio
import json
import os
import sys
import time

from levelset_operator import Child, reconcile

from levelset import Client, Config, Controller, Manager, owns
from levelset.aio import event_loop
from levelset.client import Token
from models_levelset import Website


async def main() -> None:
    config = Config(server=os.environ["PEER_SERVER"], credentials=Token(os.environ["PEER_TOKEN"]))
    relations = (owns(Child),) if "owns" in sys.argv else ()
    record = next((word.removeprefix("record=") for word in sys.argv if word.startswith("record=")), None)
    websites = Controller(Website, reconcile, *relations, concurrency=32)
    async with await Client.connect(config) as client, Manager(client, record=record) as manager:
        manager.add(websites)
        began = time.process_time()
        print(json.dumps({"phase": "started"}), flush=True)
        await asyncio.get_running_loop().run_in_executor(None, sys.stdin.readline)
        print(json.dumps({"phase": "spent", "cpu": time.process_time() - began}), flush=True)


event_loop.run(main())
