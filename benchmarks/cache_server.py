"""The server that the cache benchmark's clients list and watch: ours, filled beforehand; commands on its standard input make it write.

`python cache_server.py KIND COUNT` prints its port once it is ready. A line `storm N` makes N writes, one object after
the other, as fast as watchers take them; it answers `done`. The end of the input ends it. Objects are put straight into
the storage, so that only the client is measured, and the objects have the documented size.
"""

import asyncio
import json
import sys
from typing import Any

import payloads
from apiserver_load import TOKEN
from levelset.apiserver import ApiServer
from levelset.apiserver.verbs.watch import feeds_of
from levelset.storage import MemoryStorage

NAMESPACES = 97
TOGETHER = 100
DEFINITION = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "websites.example.dev"},
    "spec": {
        "group": "example.dev",
        "scope": "Namespaced",
        "names": {"plural": "websites", "kind": "Website"},
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "schema": {
                    "openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
                },
            }
        ],
    },
}


async def main(kind: str, count: int) -> None:
    storage = MemoryStorage()
    reader = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    async with ApiServer(storage, tls=False, token=TOKEN) as server:
        await define(server)
        keys = [fill(server, storage, kind, number) for number in range(count)]
        print(json.dumps({"port": int(server.url.rpartition(":")[2])}), flush=True)
        written = 0
        while line := (await reader.readline()).decode():
            for _ in range(int(line.split()[1]) // TOGETHER):
                while is_ahead(server):  # noqa: ASYNC110  # there is no notification
                    await asyncio.sleep(0.001)
                for _ in range(TOGETHER):
                    write(storage, *keys[written % count], written)
                    written += 1
                await asyncio.sleep(0)
            print("done", flush=True)


def is_ahead(server: ApiServer) -> bool:
    """Whether a watcher is missing or behind: the history that it needs could be compacted."""
    feeds = feeds_of(server.state)._feeds.values()
    watchers = [watcher for feed in feeds for watcher in feed._watchers]
    return not watchers or any(watcher.sink.is_backed_up for watcher in watchers)


async def define(server: ApiServer) -> None:
    from levelset.http import Headers, Request

    headers = Headers({"content-type": "application/json"})
    path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    answer: Any = server.handle(Request("POST", path, "", headers, json.dumps(DEFINITION).encode(), ApiServer.owner))
    assert (await answer if asyncio.iscoroutine(answer) or isinstance(answer, asyncio.Future) else answer).status == 201
    for number in range(NAMESPACES):
        body = json.dumps({"metadata": {"name": f"team-{number}"}}).encode()
        answer = server.handle(Request("POST", "/api/v1/namespaces", "", headers, body, ApiServer.owner))
        if not hasattr(answer, "status"):
            await answer


def fill(server: ApiServer, storage: MemoryStorage, kind: str, number: int) -> tuple[str, bytes]:
    """Stores one object unchanged; returns its key and its bytes."""
    tree = json.loads(payloads.pod(number) if kind == "Pod" else payloads.website(number))
    metadata = tree["metadata"]
    # Owners that do not exist would make the garbage collector delete the objects; the version is the storage's.
    metadata.pop("ownerReferences", None)
    metadata.pop("resourceVersion", None)
    served = server.state.catalog.by_gvk("", "v1", "Pod") if kind == "Pod" else _website(server)
    value = json.dumps(tree, separators=(",", ":")).encode()
    key = served.key(metadata["namespace"], metadata["name"])
    storage.put_nowait(key, value, expected=0)
    return key, value


def _website(server: ApiServer) -> Any:
    return server.state.catalog.by_gvk("example.dev", "v1", "Website")


def write(storage: MemoryStorage, key: str, value: bytes, number: int) -> None:
    changed = value.replace(b'"generation":', b'"generation":%d' % (number % 9 + 1), 1)
    storage.put_nowait(key, changed, expected=None)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], int(sys.argv[2])))
