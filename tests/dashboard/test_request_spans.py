"""The requests of a reconcile as spans: with their durations, also of tasks that it has started, beside a recording."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from levelset import Context, Controller, ObjectMeta, requeue
from levelset.client import Client, MergePatch
from levelset.client.transport.interface import Call, Response
from levelset.dashboard import Dashboard, DashboardSource
from levelset.dashboard.request_spans import RequestSpans
from levelset.errors import AlreadyExists
from levelset.kinds.core_v1 import ConfigMap, Secret
from levelset.runtime.controller.traced_tasks import RECONCILE, RunningReconcile
from levelset.runtime.manager import Manager, Tracing
from levelset.runtime.recording import read_recording, reconciles_in
from levelset.testing.virtual_time import virtual
from tests.dashboard.fixtures import TOKEN, get, open_client, tree

SLOW = 3.0


async def reconcile(one: ConfigMap, ctx: Context) -> Any:
    """Two requests one after the other, then two at once in tasks of their own, and one that fails.

    `poll` only reads each time, and `writer` sends a patch.
    """
    if one.name in {"poll", "writer"}:
        await ctx.client.list(Secret)
        if one.name == "writer":
            await ctx.client.patch(one.ref, MergePatch({"data": {"a": "b"}}))
        return requeue(2)
    if one.name != "parent":
        return None
    await ctx.client.create(ConfigMap(metadata=ObjectMeta(name="first", namespace="default")))
    await ctx.client.create(ConfigMap(metadata=ObjectMeta(name="second", namespace="default")))
    await asyncio.gather(*(ctx.client.list(kind) for kind in (ConfigMap, Secret)))
    with suppress(AlreadyExists):
        await ctx.client.create(ConfigMap(metadata=ObjectMeta(name="first", namespace="default")))
    return None


async def slow_creates(call: Call, send: Any) -> Response:
    """A hook for which a create takes three seconds."""
    if call.verb == "create":
        await asyncio.sleep(SLOW)
    response: Response = await send(call)
    return response


@asynccontextmanager
async def followed() -> AsyncGenerator[tuple[Dashboard, Client, Manager], None]:
    async with open_client() as given:
        server = given.in_process_server
        assert server is not None
        async with await Client.connect(server, hooks=[slow_creates]) as client, Manager(client) as manager:
            page = Dashboard(DashboardSource.of(manager), token=TOKEN)
            assert page.activity is not None
            manager.on_start(page.activity.start)
            manager.add(Controller(ConfigMap, reconcile, name="maps", namespace="default"))
            await manager.wait_elected()
            await asyncio.sleep(1)
            yield page, given, manager
            await page.close()


async def spans_of_parent(page: Dashboard) -> list[dict[str, Any]]:
    all_ = (await get(page, "/api/reconciles"))["reconciles"]
    spans: list[dict[str, Any]] = next(one["spans"] for one in all_ if one["object"]["name"] == "parent")
    return spans


@virtual
async def test_a_reconcile_has_its_requests_as_spans_with_their_durations() -> None:
    async with followed() as (page, client, _):
        await client.create(tree("v1", "ConfigMap", "parent"))
        await asyncio.sleep(20)
        queue, whole, *requests = await spans_of_parent(page)
        assert (queue["name"], whole["name"]) == ("in the queue", "reconcile")
        assert [one["name"] for one in requests[:2]] == [
            "create ConfigMap/default/first",
            "create ConfigMap/default/second",
        ]
        assert [(round(one["from"], 3), round(one["seconds"], 3), one["result"]) for one in requests[:2]] == [
            (0.0, SLOW, "201"),
            (SLOW, SLOW, "201"),
        ]
        lists = [one for one in requests if one["name"].startswith("list")]
        assert len(lists) == 2  # they were sent by tasks of `gather`
        assert {round(one["from"], 3) for one in lists} == {2 * SLOW}
        assert (requests[-1]["result"], requests[-1]["isFailed"]) == ("409", True)
        assert whole["seconds"] >= 3 * SLOW


@virtual
async def test_polls_that_read_are_collapsed_and_those_that_write_are_not() -> None:
    async with followed() as (page, client, _):
        for name in ("poll", "writer"):
            await client.create(tree("v1", "ConfigMap", name))
        await asyncio.sleep(21)
        found = (await get(page, "/api/reconciles"))["reconciles"]
    times = {name: [one["times"] for one in found if one["object"]["name"] == name] for name in ("poll", "writer")}
    assert times["poll"][0] >= 9
    assert len(times["poll"]) <= 2
    assert set(times["writer"]) == {1}


@virtual
async def test_a_recording_and_the_dashboard_see_the_same_requests(tmp_path: Path) -> None:
    file = tmp_path / "run.levelset"
    async with followed() as (page, client, manager):
        await manager.start_recording(file)
        await client.create(tree("v1", "ConfigMap", "parent"))
        await asyncio.sleep(20)
        requests = (await spans_of_parent(page))[2:]
        await manager.stop_recording()
        await client.create(tree("v1", "ConfigMap", "afterwards"))
        await asyncio.sleep(1)
        assert (await get(page, "/api/reconciles"))["reconciles"][0]["object"]["name"] == "afterwards"
    recorded = await asyncio.to_thread(lambda: reconciles_in(read_recording(str(file)), "configmap", "parent", None))
    assert [one["result"] for one in recorded] == ["done"]
    assert len(requests) == 5


@virtual
async def test_without_a_dashboard_and_after_it_nothing_is_noted() -> None:
    async with followed() as (page, client, _):
        await page.close()
        await client.create(tree("v1", "ConfigMap", "parent"))
        await asyncio.sleep(20)
        assert page.activity is not None
        assert len(page.activity.requests.spans) == 0
        assert len(page.activity.writes) == 0
        assert RECONCILE.get() is None


def test_spans_that_a_reconcile_starts_itself_are_beside_its_requests_while_the_page_is_served() -> None:
    exported, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exported))
    all_ = traced(provider)
    spans = {one["object"]["name"]: one["spans"][2:] for one in all_}
    (span,) = spans["parent"]
    assert (span["name"], round(span["seconds"], 3), span["result"]) == ("ask the bank", SLOW, "")
    assert not span["isFailed"]
    (failed,) = spans["poor"]
    assert failed["isFailed"]
    assert "no money" in failed["result"]
    assert max(one["times"] for one in all_ if one["object"]["name"] == "poll") > 2
    assert {"ask the bank", "reconcile maps"} <= {one.name for one in exported.get_finished_spans()}


@virtual
async def traced(provider: TracerProvider) -> list[dict[str, Any]]:
    """The last reconciles of a traced controller that starts spans of its own."""
    tracing, own = Tracing(provider.get_tracer("levelset")), provider.get_tracer("shop")

    async def reconcile(one: ConfigMap, ctx: Context) -> Any:
        with own.start_as_current_span("ask the bank"):
            await asyncio.sleep(SLOW)
            if one.name == "poor":
                raise RuntimeError("no money")
        return requeue(10) if one.name == "poll" else None

    async with open_client() as given:
        server = given.in_process_server
        assert server is not None
        client = await Client.connect(server, hooks=[tracing.hook])
        async with client, Manager(client, observers=[tracing]) as manager:
            page = Dashboard(DashboardSource.of(manager), token=TOKEN)
            assert page.activity is not None
            manager.on_start(page.activity.start)
            manager.add(Controller(ConfigMap, reconcile, name="maps", namespace="default"))
            await manager.wait_elected()
            await asyncio.sleep(1)
            for name in ("parent", "poor", "poll"):
                await given.create(tree("v1", "ConfigMap", name))
            await asyncio.sleep(60)
            all_ = (await get(page, "/api/reconciles"))["reconciles"]
            await page.close()
            known = len(page.activity.requests.spans)
            await asyncio.sleep(60)
            assert len(page.activity.requests.spans) == known
    found: list[dict[str, Any]] = all_
    return found


def test_only_the_last_requests_are_remembered() -> None:
    async def run() -> list[str]:
        spans = RequestSpans(most=3)
        RECONCILE.set(RunningReconcile("maps", "default/a", 0.0))
        for number in range(5):
            begun = spans.begin_call(Call(method="GET", path=f"/{number}"))
            assert begun is not None
            spans.end_call(begun, OSError("gone"))
        assert spans.begin_call(Call(method="GET", path="/watch", is_stream=True)) is None
        return [f"{one.about} {one.result}" for one in spans.by_reconcile()["maps", "default/a"]]

    assert asyncio.run(run()) == [f"GET /{number} OSError" for number in (2, 3, 4)]
