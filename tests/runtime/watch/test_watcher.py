"""The watcher against a real server in virtual time: what it tells, and what it asks for."""

import asyncio

import pytest

from levelset.aio import timing
from levelset.client.object_types import OnlyMetadata
from levelset.errors import BadSelector, ConfigError
from levelset.objects.ref import GroupVersionKind
from levelset.runtime.watch.events import Apply, InitApply
from levelset.runtime.watch.transforms import without_fields
from tests.apiserver.clock import virtual
from tests.runtime.watch.world import open_world, reading, said


@virtual
async def test_what_is_there_comes_between_init_and_init_done_and_then_the_changes() -> None:
    async with open_world() as world, world.watcher() as watcher:
        await world.make("a", "b")
        assert await said(watcher, 4) == ["Init", "InitApply a", "InitApply b", "InitDone"]
        await world.change("a")
        await world.remove("b")
        assert await said(watcher, 2) == ["Apply a", "Delete b"]
        assert world.troubles == []


@virtual
async def test_nothing_is_asked_before_somebody_reads() -> None:
    async with open_world() as world, world.watcher():
        await timing.sleep(1)
        assert world.faults.calls == []


@virtual
async def test_a_streaming_list_and_the_watch_after_it_are_one_request() -> None:
    async with open_world() as world, world.watcher() as watcher:
        await world.make("a")
        await said(watcher, 3)
        await world.change("a")
        await said(watcher, 1)
        [asked] = world.faults.of("watch")
        assert (asked["sendInitialEvents"], asked["resourceVersionMatch"]) == ("true", "NotOlderThan")
        assert "resourceVersion" not in asked
        assert world.faults.of("list") == []


@virtual
async def test_lists_are_asked_for_in_pages_and_the_tokens_followed() -> None:
    async with open_world() as world, world.watcher(streaming=False, page_size=2) as watcher:
        await world.make("a", "b", "c", "d", "e")
        names = ["InitApply a", "InitApply b", "InitApply c", "InitApply d", "InitApply e"]
        assert await said(watcher, 7) == ["Init", *names, "InitDone"]
        first, second, third = world.faults.of("list")
        assert [one["limit"] for one in (first, second, third)] == ["2", "2", "2"]
        assert "continue" not in first
        assert second["continue"] != third["continue"]
        assert "resourceVersion" not in first


@virtual
async def test_a_watch_after_a_list_does_not_ask_for_what_is_there() -> None:
    async with open_world() as world, world.watcher(streaming=False) as watcher:
        await said(watcher, 2)
        await world.make("a")
        assert await said(watcher, 1) == ["Apply a"]
        [asked] = world.faults.of("watch")
        assert "sendInitialEvents" not in asked
        assert asked["allowWatchBookmarks"] == "true"


@virtual
async def test_with_any_version_the_first_list_is_what_the_server_has_at_hand() -> None:
    async with open_world() as world, world.watcher(streaming=False, any_version=True) as watcher:
        await said(watcher, 2)
        [asked] = world.faults.of("list")
        assert (asked["resourceVersion"], "limit" in asked) == ("0", False)


@virtual
async def test_a_watch_that_the_server_ends_goes_on_at_the_last_version_without_a_list() -> None:
    async with open_world() as world, reading(world.watcher(watch_timeout=100)) as told:
        await timing.sleep(1)
        await world.make("a")
        await timing.sleep(1000)
        await world.change("a")
        await timing.sleep(1)
        assert told == ["Init", "InitDone", "Apply a", "Apply a"]
        _, *later = world.faults.of("watch")
        assert len(later) >= 10
        assert all("sendInitialEvents" not in one and one["resourceVersion"] for one in later)
        assert (world.faults.of("list"), world.troubles) == ([], [])


@virtual
async def test_a_quiet_watch_goes_on_from_its_bookmarks_after_a_compaction() -> None:
    async with open_world() as world, reading(world.watcher(watch_timeout=100)) as told:
        await timing.sleep(1)
        await world.box.make("/api/v1/namespaces", {"metadata": {"name": "elsewhere"}})
        await timing.sleep(61)
        await world.compact()
        await timing.sleep(500)
        assert (told, world.troubles) == (["Init", "InitDone"], [])


@virtual
async def test_a_bookmark_moves_the_version_and_comes_as_an_empty_batch() -> None:
    async with open_world() as world, world.watcher() as watcher:
        await said(watcher, 2)
        await world.box.make("/api/v1/namespaces", {"metadata": {"name": "elsewhere"}})
        assert await anext(watcher) == []
        assert watcher.resource_version == await world.box.revision()
        assert watcher.bookmarks == 1


@virtual
async def test_the_time_of_a_watch_is_left_to_chance_within_a_quarter() -> None:
    async with open_world() as world:
        chances = iter([0.0, 0.5, 1.0])
        async with reading(world.watcher(random=lambda: next(chances, 0.0))):
            await timing.sleep(290 + 255)
        assert [one["timeoutSeconds"] for one in world.faults.of("watch")] == ["290", "253", "217"]


@virtual
async def test_a_selection_is_part_of_every_request() -> None:
    async with open_world() as world, world.watcher(labels="app=x", fields="metadata.name=a") as watcher:
        await world.make("a", labels={"app": "x"})
        await world.make("b")
        assert await said(watcher, 3) == ["Init", "InitApply a", "InitDone"]
        [asked] = world.faults.of("watch")
        assert (asked["labelSelector"], asked["fieldSelector"]) == ("app=x", "metadata.name=a")


@virtual
async def test_an_object_that_leaves_the_selection_is_deleted() -> None:
    async with open_world() as world, world.watcher(labels={"app": "x"}) as watcher:
        await world.make("a", labels={"app": "x"})
        await said(watcher, 3)
        body = {"metadata": {"labels": {"app": "y"}}}
        path = "/api/v1/namespaces/default/configmaps/a"
        await world.box.ask("PATCH", path, body, kind="application/merge-patch+json")
        assert await said(watcher, 1) == ["Delete a"]


@pytest.mark.parametrize("streaming", [True, False])
@virtual
async def test_metadata_come_without_the_rest(streaming: bool) -> None:
    async with (
        open_world() as world,
        world.watcher(kind=OnlyMetadata(GroupVersionKind("", "v1", "ConfigMap")), streaming=streaming) as watcher,
    ):
        await world.make("a")
        assert await said(watcher, 3) == ["Init", "InitApply a", "InitDone"]
        await world.change("a")
        [event] = await anext(watcher)
        assert isinstance(event, Apply)
        assert b'"data"' not in event.item.kept.raw


@virtual
async def test_a_bare_kind_gives_unstructured_objects() -> None:
    async with open_world() as world, world.watcher(kind=GroupVersionKind("", "v1", "ConfigMap")) as watcher:
        await world.make("a")
        _, first, _ = await anext(watcher)
        assert isinstance(first, InitApply)
        assert (first.item.object.kind, first.item.object.name) == ("ConfigMap", "a")


@pytest.mark.parametrize("streaming", [True, False])
@virtual
async def test_managed_fields_are_left_out_unless_they_are_asked_for(streaming: bool) -> None:
    async with open_world() as world:
        body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"x": "1"}}
        path, kind = "/api/v1/namespaces/default/configmaps/a", "application/apply-patch+yaml"
        await world.box.ask("PATCH", path, body, kind=kind, fieldManager="test")
        for wanted in (False, True):
            async with world.watcher(streaming=streaming, managed_fields=wanted) as watcher:
                _, first, _ = await anext(watcher)
                assert isinstance(first, InitApply)
                assert (b"managedFields" in first.item.kept.raw) is wanted


@pytest.mark.parametrize("streaming", [True, False])
@virtual
async def test_a_transform_is_applied_to_lists_and_to_changes(streaming: bool) -> None:
    async with open_world() as world, world.watcher(streaming=streaming, transform=without_fields("data")) as watcher:
        await world.make("a")
        await world.change("a")
        _, first, _ = await anext(watcher)
        await world.change("a", "2")
        [second] = await anext(watcher)
        assert isinstance(first, InitApply)
        assert isinstance(second, Apply)
        assert first.item.object.data == second.item.object.data == {}


@virtual
async def test_a_transform_that_fails_leaves_the_object_as_it_is_and_is_told() -> None:
    async with open_world() as world, world.watcher(transform=lambda raw: raw[:0] + bytes(1 // 0)) as watcher:
        await world.make("a")
        assert await said(watcher, 3) == ["Init", "InitApply a", "InitDone"]
        assert "ZeroDivisionError" in str(world.troubles[0])


@virtual
async def test_a_long_list_comes_in_slices_and_its_version_with_the_last() -> None:
    async with open_world() as world, world.watcher(streaming=False, page_size=None) as watcher:
        await world.make(*(f"a{number}" for number in range(1100)))
        first = await anext(watcher)
        assert (len(first), watcher.resource_version) == (1000, None)
        second = await anext(watcher)
        assert (len(second), watcher.resource_version) == (102, await world.box.revision())


@virtual
async def test_closing_ends_the_reading_in_another_task_and_the_request() -> None:
    async with open_world() as world:
        watcher = world.watcher()
        async with reading(watcher) as told:
            await timing.sleep(1)
        assert told == ["Init", "InitDone"]
        with pytest.raises(StopAsyncIteration):
            await anext(watcher)
        await watcher.aclose()
        await asyncio.sleep(0)
        assert world.watches == 0


@virtual
async def test_a_reader_that_is_cancelled_closes_the_request() -> None:
    async with open_world() as world:
        watcher = world.watcher()
        await said(watcher, 2)
        with pytest.raises(TimeoutError):
            async with timing.within(1):
                await anext(watcher)
        assert world.watches == 0


async def test_what_cannot_work_is_refused_before_anything_is_asked() -> None:
    async with open_world() as world:
        with pytest.raises(BadSelector):
            world.watcher(labels="a=b=c")
        with pytest.raises(BadSelector):
            world.watcher(fields="a")
        with pytest.raises(ConfigError):
            world.watcher(watch_timeout=0)
        with pytest.raises(ConfigError):
            world.watcher(kind=int)
