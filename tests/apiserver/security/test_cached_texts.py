"""Caches of the server keep short texts only: what a client has sent is gone with its request or its object."""

import asyncio
import gc
import tracemalloc
from collections.abc import Callable
from typing import Any

import pytest

from levelset.apiserver import ApiServer
from levelset.storage import MemoryStorage
from tests.apiserver.security.test_hostile_schemas import definition, send

CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"
LONG = "x" * 200_000
REQUESTS = 20
# What the last ones leave until the next: each thread of the pool keeps its last result.
MAX_LEFT = 8 * len(LONG)


def config_map(number: int, **metadata: Any) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": f"a{number}", **metadata}}


def owned_by(number: int) -> list[dict[str, Any]]:
    fields: dict[str, Any] = {"f:data": {f"f:{number}{LONG}": {}}}
    entry = {"manager": "m", "operation": "Update", "apiVersion": "v1", "fieldsType": "FieldsV1", "fieldsV1": fields}
    return [{**entry, "time": "2026-01-01T00:00:00Z"}]


def column(number: int) -> dict[str, Any]:
    made = definition({"type": "object"})
    columns = [{"name": "x", "type": "string", "jsonPath": f".spec.n{number}{LONG}"}]
    made["spec"]["versions"][0]["additionalPrinterColumns"] = columns
    return made


REQUESTS_WITH_LONG_TEXTS: dict[str, tuple[str, Callable[[int], dict[str, Any]]]] = {
    "many keys": (CONFIG_MAPS, lambda at: {**config_map(at), "data": {f"{at}-{key}": "" for key in range(800)}}),
    "a label": (CONFIG_MAPS, lambda at: config_map(at, labels={f"{at}{LONG}": ""})),
    "a label's value": (CONFIG_MAPS, lambda at: config_map(at, labels={"a": f"{at}{LONG}"})),
    "an annotation": (CONFIG_MAPS, lambda at: config_map(at, annotations={f"{at}{LONG}": ""})),
    "a finalizer": (CONFIG_MAPS, lambda at: config_map(at, finalizers=[f"a.io/{at}{LONG}"])),
    "a key": (CONFIG_MAPS, lambda at: {**config_map(at), "data": {f"{at}{LONG}": ""}}),
    "a name": (CONFIG_MAPS, lambda at: config_map(at) | {"metadata": {"name": f"{at}{LONG}"}}),
    "managed fields": (CONFIG_MAPS, lambda at: {**config_map(at, managedFields=owned_by(at)), "data": {"a": ""}}),
    "an unknown field": (CONFIG_MAPS, lambda at: {**config_map(at), f"{at}{LONG}": 1}),
    "a printer column": (CRDS, column),
}


@pytest.mark.parametrize("name", REQUESTS_WITH_LONG_TEXTS)
async def test_nothing_of_a_long_text_stays_in_memory(name: str) -> None:
    path, make = REQUESTS_WITH_LONG_TEXTS[name]
    server = ApiServer(MemoryStorage(history_changes=1), tls=False)
    await server.start(listen=False)
    await come_and_go(server, path, make(1_000))
    tracemalloc.start()
    try:
        await come_and_go(server, path, make(1_001))
        gc.collect()
        before, _ = tracemalloc.get_traced_memory()
        for number in range(REQUESTS):
            await come_and_go(server, path, make(number))
        gc.collect()
        after, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
        await server.stop()
    assert after - before < MAX_LEFT, f"{(after - before) // REQUESTS} bytes of each request"


async def come_and_go(server: ApiServer, path: str, tree: dict[str, Any]) -> None:
    made = await send(server, "POST", path, tree)
    if made.status == 201:
        assert (await send(server, "DELETE", f"{path}/{tree['metadata']['name']}", {})).status == 200
        await server.idle()
        await asyncio.sleep(0)
    await server.state.storage.compact(server.state.storage.revision)
