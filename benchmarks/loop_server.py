"""The server of the loop benchmark's operators: filled beforehand; it checks when an operator is done.

`python loop_server.py COUNT` prints its port once it is ready. Then it checks whether each Website has a ConfigMap of
its own and a status, and then prints the time since `go` was read from its input, the number of writes, and the
number of ConfigMaps. `storm N` makes N writes of generations instead, and `more N` N further Websites, which it waits
for. The end of the input ends it.
"""

import asyncio
import json
import sys
import time
from typing import Any

import payloads
from apiserver_load import TOKEN
from cache_server import DEFINITION, define, is_ahead, write
from levelset.apiserver import ApiServer
from levelset.storage import MemoryStorage

TOGETHER = 100


async def main(count: int) -> None:
    DEFINITION["spec"]["versions"][0]["subresources"] = {"status": {}}  # type: ignore[index]  # a tree
    storage = MemoryStorage()
    reader = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    async with ApiServer(storage, tls=False, token=TOKEN) as server:
        await define(server)
        keys = [fill(server, storage, number) for number in range(count)]
        print(json.dumps({"port": int(server.url.rpartition(":")[2])}), flush=True)
        while words := (await reader.readline()).decode().split():
            if words[0] == "storm":
                await storm(server, storage, keys, int(words[1]))
            elif words[0] == "more":
                added = [fill(server, storage, number) for number in range(len(keys), len(keys) + int(words[1]))]
                keys += added
                print(json.dumps(await wait_right(server, storage, [key for key, _ in added], len(keys))), flush=True)
            else:
                await judge(server, storage, [key for key, _ in keys])


def fill(server: ApiServer, storage: MemoryStorage, number: int) -> tuple[str, bytes]:
    """Stores one Website as its user wrote it: without a status, and without owners."""
    tree = json.loads(payloads.website(number))
    tree.pop("status", None)
    for name in ("ownerReferences", "resourceVersion", "managedFields", "finalizers", "deletionTimestamp"):
        tree["metadata"].pop(name, None)
    served: Any = server.state.catalog.by_gvk("example.dev", "v1", "Website")
    key = served.key(tree["metadata"]["namespace"], tree["metadata"]["name"])
    value = json.dumps(tree, separators=(",", ":")).encode()
    storage.put_nowait(key, value, expected=0)
    return key, value


async def storm(server: ApiServer, storage: MemoryStorage, keys: list[tuple[str, bytes]], events: int) -> None:
    for number in range(events):
        write(storage, *keys[number % len(keys)], number // len(keys))
        if number % TOGETHER == TOGETHER - 1:
            await asyncio.sleep(0)
            while is_ahead(server):  # noqa: ASYNC110  # there is no notification
                await asyncio.sleep(0.001)


async def judge(server: ApiServer, storage: MemoryStorage, keys: list[str]) -> None:
    """Waits until each Website has its child and its status, and then for further writes."""
    before = storage.revision
    right = await wait_right(server, storage, keys, len(keys))
    print(json.dumps(right), flush=True)
    await asyncio.sleep(3.0)
    children = len(children_of(server, storage))
    report = {"seconds": right["seconds"], "writes": storage.revision - before, "children": children}
    print(json.dumps({"phase": "judged", **report}), flush=True)


async def wait_right(server: ApiServer, storage: MemoryStorage, keys: list[str], children: int) -> dict[str, Any]:
    """Waits until each of these Websites has its status, and until there are so many children."""
    items, began = storage._mvcc.items, time.perf_counter()

    def is_right() -> bool:
        return len(children_of(server, storage)) >= children and all(b'"ready":' in items[key].value for key in keys)

    while not is_right():  # noqa: ASYNC110  # there is no notification
        await asyncio.sleep(0.05)
    return {"phase": "right", "seconds": time.perf_counter() - began}


def children_of(server: ApiServer, storage: MemoryStorage) -> list[str]:
    """The keys of all ConfigMaps."""
    served: Any = server.state.catalog.by_gvk("", "v1", "ConfigMap")
    prefix = served.key("x", "y").removesuffix("x/y")
    return [key for key in storage._mvcc.items if key.startswith(prefix)]


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1])))
