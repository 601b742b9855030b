"""The watcher against an in-process server in virtual time: its events and its requests."""

import asyncio
from collections import Counter

import pytest

from levelset.aio import timing
from levelset.client.object_types import OnlyMetadata
from levelset.client.transport.interface import Call, Response
from levelset.errors import BadSelector, ConfigError
from levelset.objects.ref import GroupVersionKind
from levelset.runtime.watch.events import Apply, InitApply
from levelset.runtime.watch.transforms import without_fields
from levelset.runtime.watch.watcher import Watcher
from levelset.testing.virtual_time import virtual
from tests.runtime.watch.watch_bench import Script, Settings, line, open_watch_bench, reading, summarize


@virtual
async def test_existing_objects_come_between_init_and_init_done_and_then_the_changes() -> None:
    async with open_watch_bench() as bench, bench.watcher() as watcher:
        await bench.make("a", "b")
        assert await summarize(watcher, 4) == ["Init", "InitApply a", "InitApply b", "InitDone"]
        await bench.change("a")
        await bench.remove("b")
        assert await summarize(watcher, 2) == ["Apply a", "Delete b"]
        assert bench.errors == []


@virtual
async def test_no_request_is_sent_before_the_first_read() -> None:
    async with open_watch_bench() as bench, bench.watcher():
        await timing.sleep(1)
        assert bench.faults.calls == []


@virtual
async def test_a_streaming_list_and_the_watch_after_it_are_one_request() -> None:
    async with open_watch_bench() as bench, bench.watcher() as watcher:
        await bench.make("a")
        await summarize(watcher, 3)
        await bench.change("a")
        await summarize(watcher, 1)
        [requests] = bench.faults.of("watch")
        assert (requests["sendInitialEvents"], requests["resourceVersionMatch"]) == ("true", "NotOlderThan")
        assert "resourceVersion" not in requests
        assert bench.faults.of("list") == []


@virtual
async def test_lists_are_paged_and_continue_tokens_followed() -> None:
    async with open_watch_bench() as bench, bench.watcher(streaming=False, page_size=2) as watcher:
        await bench.make("a", "b", "c", "d", "e")
        names = ["InitApply a", "InitApply b", "InitApply c", "InitApply d", "InitApply e"]
        assert await summarize(watcher, 7) == ["Init", *names, "InitDone"]
        first, second, third = bench.faults.of("list")
        assert [one["limit"] for one in (first, second, third)] == ["2", "2", "2"]
        assert "continue" not in first
        assert second["continue"] != third["continue"]
        assert "resourceVersion" not in first


@virtual
async def test_a_watch_after_a_list_does_not_request_initial_events() -> None:
    async with open_watch_bench() as bench, bench.watcher(streaming=False) as watcher:
        await summarize(watcher, 2)
        await bench.make("a")
        assert await summarize(watcher, 1) == ["Apply a"]
        [requests] = bench.faults.of("watch")
        assert "sendInitialEvents" not in requests
        assert requests["allowWatchBookmarks"] == "true"


@virtual
async def test_with_any_version_the_first_list_may_come_from_the_watch_cache() -> None:
    async with open_watch_bench() as bench, bench.watcher(streaming=False, any_version=True) as watcher:
        await summarize(watcher, 2)
        [requests] = bench.faults.of("list")
        assert (requests["resourceVersion"], "limit" in requests) == ("0", False)


@virtual
async def test_a_watch_that_the_server_ends_resumes_at_the_last_version_without_a_list() -> None:
    async with open_watch_bench() as bench, reading(bench.watcher(watch_timeout=100)) as seen:
        await timing.sleep(1)
        await bench.make("a")
        await timing.sleep(1000)
        await bench.change("a")
        await timing.sleep(1)
        assert seen == ["Init", "InitDone", "Apply a", "Apply a"]
        _, *later = bench.faults.of("watch")
        assert len(later) >= 10
        assert all("sendInitialEvents" not in one and one["resourceVersion"] for one in later)
        assert (bench.faults.of("list"), bench.errors) == ([], [])


@virtual
async def test_a_quiet_watch_resumes_from_its_bookmarks_after_a_compaction() -> None:
    async with open_watch_bench() as bench, reading(bench.watcher(watch_timeout=100)) as seen:
        await timing.sleep(1)
        await bench.box.create("/api/v1/namespaces", {"metadata": {"name": "elsewhere"}})
        await timing.sleep(61)
        await bench.compact()
        await timing.sleep(500)
        assert (seen, bench.errors) == (["Init", "InitDone"], [])


@virtual
async def test_a_bookmark_advances_the_version_and_yields_an_empty_batch() -> None:
    async with open_watch_bench() as bench, bench.watcher() as watcher:
        await summarize(watcher, 2)
        await bench.box.create("/api/v1/namespaces", {"metadata": {"name": "elsewhere"}})
        assert await anext(watcher) == []
        assert watcher.resource_version == await bench.box.revision()
        assert watcher.bookmarks == 1


@virtual
async def test_the_timeout_of_a_watch_has_a_quarter_of_jitter() -> None:
    async with open_watch_bench() as bench:
        chances = iter([0.0, 0.5, 1.0])
        async with reading(bench.watcher(random=lambda: next(chances, 0.0))):
            await timing.sleep(290 + 255)
        assert [one["timeoutSeconds"] for one in bench.faults.of("watch")] == ["290", "253", "217"]


@virtual
async def test_selectors_are_part_of_every_request() -> None:
    async with open_watch_bench() as bench, bench.watcher(labels="app=x", fields="metadata.name=a") as watcher:
        await bench.make("a", labels={"app": "x"})
        await bench.make("b")
        assert await summarize(watcher, 3) == ["Init", "InitApply a", "InitDone"]
        [requests] = bench.faults.of("watch")
        assert (requests["labelSelector"], requests["fieldSelector"]) == ("app=x", "metadata.name=a")


@virtual
async def test_an_object_that_leaves_the_selector_is_deleted() -> None:
    async with open_watch_bench() as bench, bench.watcher(labels={"app": "x"}) as watcher:
        await bench.make("a", labels={"app": "x"})
        await summarize(watcher, 3)
        body = {"metadata": {"labels": {"app": "y"}}}
        path = "/api/v1/namespaces/default/configmaps/a"
        await bench.box.request("PATCH", path, body, kind="application/merge-patch+json")
        assert await summarize(watcher, 1) == ["Delete a"]


@pytest.mark.parametrize("streaming", [True, False])
@virtual
async def test_a_metadata_watch_yields_only_metadata(streaming: bool) -> None:
    async with (
        open_watch_bench() as bench,
        bench.watcher(kind=OnlyMetadata(GroupVersionKind("", "v1", "ConfigMap")), streaming=streaming) as watcher,
    ):
        await bench.make("a")
        assert await summarize(watcher, 3) == ["Init", "InitApply a", "InitDone"]
        await bench.change("a")
        [event] = await anext(watcher)
        assert isinstance(event, Apply)
        assert b'"data"' not in event.item.cached.raw


@virtual
async def test_a_gvk_yields_unstructured_objects() -> None:
    async with open_watch_bench() as bench, bench.watcher(kind=GroupVersionKind("", "v1", "ConfigMap")) as watcher:
        await bench.make("a")
        _, first, _ = await anext(watcher)
        assert isinstance(first, InitApply)
        assert (first.item.object.kind, first.item.object.name) == ("ConfigMap", "a")


@pytest.mark.parametrize("streaming", [True, False])
@virtual
async def test_managed_fields_are_dropped_by_default(streaming: bool) -> None:
    async with open_watch_bench() as bench:
        body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"x": "1"}}
        path, kind = "/api/v1/namespaces/default/configmaps/a", "application/apply-patch+yaml"
        await bench.box.request("PATCH", path, body, kind=kind, fieldManager="test")
        for wanted in (False, True):
            async with bench.watcher(streaming=streaming, managed_fields=wanted) as watcher:
                _, first, _ = await anext(watcher)
                assert isinstance(first, InitApply)
                assert (b"managedFields" in first.item.cached.raw) is wanted


@pytest.mark.parametrize("streaming", [True, False])
@virtual
async def test_a_transform_is_applied_to_lists_and_to_changes(streaming: bool) -> None:
    async with (
        open_watch_bench() as bench,
        bench.watcher(streaming=streaming, transform=without_fields("data")) as watcher,
    ):
        await bench.make("a")
        await bench.change("a")
        _, first, _ = await anext(watcher)
        await bench.change("a", "2")
        [second] = await anext(watcher)
        assert isinstance(first, InitApply)
        assert isinstance(second, Apply)
        assert first.item.object.data == second.item.object.data == {}


@virtual
async def test_a_transform_that_fails_leaves_the_object_unchanged_and_is_reported() -> None:
    async with open_watch_bench() as bench, bench.watcher(transform=lambda raw: raw[:0] + bytes(1 // 0)) as watcher:
        await bench.make("a")
        assert await summarize(watcher, 3) == ["Init", "InitApply a", "InitDone"]
        assert "ZeroDivisionError" in str(bench.errors[0])


@virtual
async def test_a_long_list_comes_in_slices_and_its_version_with_the_last() -> None:
    async with open_watch_bench() as bench, bench.watcher(streaming=False, page_size=None) as watcher:
        await bench.make(*(f"a{number}" for number in range(1100)))
        first = await anext(watcher)
        assert (len(first), watcher.resource_version) == (1000, None)
        second = await anext(watcher)
        assert (len(second), watcher.resource_version) == (102, await bench.box.revision())


@virtual
async def test_closing_ends_a_read_in_another_task_and_the_request() -> None:
    async with open_watch_bench() as bench:
        watcher = bench.watcher()
        async with reading(watcher) as seen:
            await timing.sleep(1)
        assert seen == ["Init", "InitDone"]
        with pytest.raises(StopAsyncIteration):
            await anext(watcher)
        await watcher.aclose()
        await asyncio.sleep(0)
        assert bench.watches == 0


@virtual
async def test_a_reader_that_is_cancelled_closes_the_request() -> None:
    async with open_watch_bench() as bench:
        watcher = bench.watcher()
        await summarize(watcher, 2)
        with pytest.raises(TimeoutError):
            async with timing.within(1):
                await anext(watcher)
        assert bench.watches == 0


async def test_invalid_options_are_rejected_before_any_request() -> None:
    async with open_watch_bench() as bench:
        with pytest.raises(BadSelector):
            bench.watcher(labels="a=b=c")
        with pytest.raises(BadSelector):
            bench.watcher(fields="a")
        with pytest.raises(ConfigError):
            bench.watcher(watch_timeout=0)
        with pytest.raises(ConfigError):
            bench.watcher(kind=int)


class TurnCounter:
    """Counts what happens in each turn of the event loop."""

    def __init__(self) -> None:
        self.found = Counter[int]()
        self._turn = 0
        self._task = asyncio.create_task(self._run())

    async def _run(self) -> None:
        while True:
            self._turn += 1
            await asyncio.sleep(0)

    def count(self, *_: object) -> None:
        self.found[self._turn] += 1

    def stop(self) -> None:
        self._task.cancel()


@pytest.mark.parametrize("streams", [True, False])
async def test_of_many_watchers_that_start_at_once_one_begins_in_each_turn_of_the_loop(streams: bool) -> None:
    async with open_watch_bench() as bench:
        turns = TurnCounter()
        bench.faults.act = turns.count
        watchers = [bench.watcher(streaming=streams) for _ in range(30)]
        await asyncio.gather(*(anext(one) for one in watchers))
        turns.stop()
        for one in watchers:
            await one.aclose()
    assert turns.found.total() >= 30
    assert max(turns.found.values()) == 1


async def test_of_many_watches_with_a_large_part_one_is_read_in_each_turn_of_the_loop() -> None:
    is_open, large = asyncio.Event(), line("ADDED", "large", "99999", data={"text": "x" * 20_000})

    class Waiting(Script):
        async def __anext__(self) -> bytes:
            await is_open.wait()
            return await super().__anext__()

    def answer(call: Call) -> Response | None:
        is_watch = call.verb == "watch"
        return Response(status=200, stream=Waiting(large, then="hang")) if is_watch else None

    async with open_watch_bench() as bench:
        bench.faults.act = answer
        turns = TurnCounter()

        async def read(watcher: Watcher[Settings]) -> None:
            async for batch in watcher:
                if any(isinstance(one, Apply) for one in batch):
                    turns.count()
                    return

        watchers = [bench.watcher(streaming=False) for _ in range(10)]
        tasks = [asyncio.create_task(read(one)) for one in watchers]
        while len(bench.faults.of("watch")) < 10:  # noqa: ASYNC110 -- requests have no event
            await asyncio.sleep(0)
        is_open.set()
        await asyncio.gather(*tasks)
        turns.stop()
        for one in watchers:
            await one.aclose()
    assert sorted(turns.found.values()) == [1] * 10
