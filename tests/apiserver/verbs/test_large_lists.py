"""Lists of very many objects are made in slices, between which other requests are served."""

import asyncio
import gzip
import json
import time
from typing import Any

from levelset.apiserver.server import ApiServer
from levelset.apiserver.verbs.response_format import LARGE_LIST
from levelset.http import Headers, Request, Response, iterate
from levelset.storage import MemoryStorage
from tests.apiserver.support.in_process_server import CONFIGMAPS, InProcessServer, open_server

NUMBER = LARGE_LIST + 501


def filled() -> MemoryStorage:
    storage = MemoryStorage()
    for number in range(NUMBER):
        metadata = f'{{"name":"f{number:06}","namespace":"default","labels":{{"n":"{number % 1000}"}}}}'
        value = f'{{"apiVersion":"v1","kind":"ConfigMap","metadata":{metadata}}}'
        storage.put_nowait(f"/registry/core/configmaps/default/f{number:06}", value.encode(), expected=0)
    return storage


async def body_of(response: Response) -> bytes:
    return b"".join([piece async for piece in iterate(response.body)])


async def longest_hold(work: Any) -> tuple[float, Any]:
    """By how much CPU time the event loop was held at most during the work, and its result."""
    held, last, is_over = [0.0], time.thread_time(), False

    def tick() -> None:
        nonlocal last
        held.append(time.thread_time() - last)
        last = time.thread_time()
        if not is_over:
            asyncio.get_running_loop().call_soon(tick)

    tick()
    try:
        result = await work
    finally:
        is_over = True
    return max(held), result


async def test_a_large_list_has_all_objects_and_is_compressed_for_clients_that_accept_it() -> None:
    async with open_server(filled()) as api:
        response = await api.send("GET", CONFIGMAPS)
        assert not isinstance(response.body, bytes)
        content = await body_of(response)
        tree = json.loads(content)
        assert (tree["kind"], len(tree["items"])) == ("ConfigMapList", NUMBER)
        assert [item["metadata"]["name"] for item in tree["items"][-2:]] == [f"f{NUMBER - 2:06}", f"f{NUMBER - 1:06}"]
        assert await gzipped(api) == content


async def gzipped(api: InProcessServer) -> bytes:
    request = Request("GET", CONFIGMAPS, "", Headers({"accept-encoding": "gzip"}), b"", ApiServer.owner)
    made = api.server.handle(request)
    response = made if isinstance(made, Response) else await made
    assert ("Content-Encoding", "gzip") in response.headers
    return await asyncio.to_thread(gzip.decompress, await body_of(response))


async def test_a_selector_over_many_objects_does_not_hold_the_event_loop() -> None:
    async with open_server(filled()) as api:
        held, (status, tree) = await longest_hold(api.request("GET", CONFIGMAPS, labelSelector="n=7", limit="5"))
        assert (status, len(tree["items"])) == (200, 5)
        held, (status, tree) = await longest_hold(api.request("GET", CONFIGMAPS, labelSelector="n=7"))
        assert (status, len(tree["items"])) == (200, 11)
        assert held < 0.05
