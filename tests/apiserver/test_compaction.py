import asyncio
import logging
from pathlib import Path

from levelset.apiserver import compaction
from levelset.storage import SqliteStorage
from levelset.testing.virtual_time import virtual
from tests.apiserver.support.in_process_server import CONFIGMAPS, InProcessServer, configmap, open_server


async def _page(api: InProcessServer) -> str:
    """The continue token of a first page."""
    for name in ("a", "b"):
        await api.create(CONFIGMAPS, configmap(name))
    token: str = (await api.request("GET", CONFIGMAPS, limit="1"))[1]["metadata"]["continue"]
    return token


@virtual
async def test_a_continue_token_expires_after_one_to_two_periods_although_nothing_is_written():
    async with open_server(compaction=300.0) as api:
        token = await _page(api)
        await asyncio.sleep(301)
        assert (await api.request("GET", CONFIGMAPS, limit="1", **{"continue": token}))[0] == 200
        await asyncio.sleep(300)
        code, status = await api.request("GET", CONFIGMAPS, limit="1", **{"continue": token})
        assert (code, status["reason"]) == (410, "Expired")
        code, rest = await api.request("GET", CONFIGMAPS, limit="1", **{"continue": status["metadata"]["continue"]})
        assert [one["metadata"]["name"] for one in rest["items"]] == ["b"]


@virtual
async def test_without_a_period_only_the_size_of_the_history_limits_it():
    async with open_server() as api:
        token = await _page(api)
        await asyncio.sleep(86_400)
        assert (await api.request("GET", CONFIGMAPS, limit="1", **{"continue": token}))[0] == 200


@virtual
async def test_a_watch_that_is_open_does_not_notice_a_compaction():
    async with open_server(compaction=300.0) as api:
        watch = api.watch(CONFIGMAPS, resourceVersion=await api.revision())
        waiting = asyncio.ensure_future(anext(watch))
        await asyncio.sleep(700)  # both together less than a watch may last
        await api.create("/api/v1/namespaces/default/secrets", {"metadata": {"name": "other"}})
        await asyncio.sleep(700)
        await api.create(CONFIGMAPS, configmap("a"))
        assert (await waiting)["object"]["metadata"]["name"] == "a"
        await watch.aclose()


class _Warnings(logging.Handler):
    """Sets `enough` after the second record."""

    def __init__(self) -> None:
        super().__init__()
        self.records: list[logging.LogRecord] = []
        self.enough = asyncio.Event()

    def emit(self, record: logging.LogRecord) -> None:
        self.records.append(record)
        if len(self.records) == 2:
            self.enough.set()


async def test_a_compaction_that_fails_is_tried_again(tmp_path: Path):
    storage, warnings = await SqliteStorage.open(tmp_path / "data.db"), _Warnings()
    compaction.log.addHandler(warnings)
    try:
        async with open_server(storage, compaction=0.001) as api:
            await api.create(CONFIGMAPS, configmap("a"))
            await storage.close()
            async with asyncio.timeout(120):
                await warnings.enough.wait()
    finally:
        compaction.log.removeHandler(warnings)
    assert {one.getMessage() for one in warnings.records} == {"the storage was not compacted; it is tried again"}
