"""Large lists are made in slices while they are sent, between which other requests are served."""

import asyncio
import gzip
import json
import time
from typing import Any

import pytest

from levelset.apiserver.server import ApiServer
from levelset.apiserver.verbs import response_format
from levelset.apiserver.verbs.list_body import LARGE_LIST
from levelset.http import Headers, Pieces, Request, Response, iterate
from levelset.storage import MemoryStorage
from tests.apiserver.support.in_process_server import CONFIGMAPS, TABLE, InProcessServer, open_server
from tests.apiserver.support.loop_watchdog import LIMIT, undisturbed, watch_loop

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


PARTIAL = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
PODS = "/api/v1/namespaces/default/pods"
FORMATS: dict[str, tuple[str | None, dict[str, str]]] = {
    "plain": (None, {}),
    "indented": (None, {"pretty": "true"}),
    "YAML": ("application/yaml", {}),
    "a table": (TABLE, {}),
    "a table of objects": (TABLE, {"includeObject": "Object"}),
    "an indented table": (TABLE, {"pretty": "true"}),
    "a table in YAML": (TABLE.replace("json", "yaml"), {}),
    "metadata": (PARTIAL, {}),
}


def large_pods(number: int) -> MemoryStorage:
    """Pods of 8 KB: text with line breaks and quotes, and values that YAML has to quote."""
    storage = MemoryStorage()
    environment = [{"name": f"E{at}", "value": f'"{at}"\n  yes: {at}\n'} for at in range(150)]
    for at in range(number):
        metadata = {"name": f"p{at:04}", "namespace": "default", "uid": f"u{at}", "labels": {"n": str(at), "on": "yes"}}
        spec = {"containers": [{"name": "c", "image": "x", "env": environment}]}
        tree = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec, "status": {"phase": "Pending"}}
        storage.put_nowait(f"/registry/core/pods/default/p{at:04}", json.dumps(tree).encode(), expected=0)
    return storage


@pytest.mark.parametrize("name", FORMATS)
async def test_a_large_list_is_the_same_whether_it_is_made_whole_or_in_slices(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    accept, query = FORMATS[name]
    async with open_server(large_pods(150)) as api:
        sliced = await api.send("GET", PODS, accept=accept, **query)
        assert isinstance(sliced.body, Pieces)
        pieces = [piece async for piece in iterate(sliced.body)]
        monkeypatch.setattr(response_format, "is_large_list", lambda _items, **_: False)
        whole = await api.send("GET", PODS, accept=accept, **query)
        assert isinstance(whole.body, bytes)
        assert b"".join(pieces) == whole.body
        assert (sliced.status, dict(sliced.headers)["Content-Type"]) == (200, dict(whole.headers)["Content-Type"])
        assert max(map(len, pieces)) < 512 * 1024


@pytest.mark.parametrize("name", FORMATS)
@undisturbed
async def test_no_format_of_a_large_list_keeps_other_requests_waiting(name: str) -> None:
    accept, query = FORMATS[name]
    async with open_server(large_pods(250)) as api:
        await body_of(await api.send("GET", PODS, accept=accept, limit="2", **query))  # imports what it needs
        with watch_loop() as watchdog:
            await asyncio.sleep(0)
            assert len(await body_of(await api.send("GET", PODS, accept=accept, **query))) > 10_000
        assert watchdog.longest < LIMIT, watchdog.culprit


@undisturbed
async def test_selecting_fields_of_large_objects_and_deleting_them_keeps_no_other_request_waiting() -> None:
    async with open_server(large_pods(400)) as api:
        with watch_loop() as watchdog:
            await asyncio.sleep(0)
            response = await api.send("DELETE", PODS, fieldSelector="status.phase=Pending", gracePeriodSeconds="0")
            content = await body_of(response)
        tree = json.loads(content)
        assert (tree["kind"], len(tree["items"])) == ("PodList", 400)
        assert "kind" not in tree["items"][399]
        assert watchdog.longest < LIMIT, watchdog.culprit


@undisturbed
async def test_a_large_object_in_yaml_is_written_off_the_loop() -> None:
    data = {f"k{at}": "yes" for at in range(20_000)}
    async with open_server(MemoryStorage()) as api:
        tree = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": data}
        await api.send("POST", CONFIGMAPS, tree, kind="application/json")
        with watch_loop() as watchdog:
            await asyncio.sleep(0)
            content = await body_of(await api.send("GET", f"{CONFIGMAPS}/a", accept="application/yaml"))
        assert b"  k19999: 'yes'\n" in content
        assert watchdog.longest < LIMIT, watchdog.culprit
