"""Watches as streams of events, objects and references."""

from typing import Any

import pytest

from levelset.aio import Backoff, merge, timing
from levelset.client.lists import Transform
from levelset.errors import ConfigError, Unreachable
from levelset.objects.ref import Ref
from levelset.runtime.watch.events import Apply, Delete, Event, Init, InitApply, InitDone
from levelset.runtime.watch.predicates import by
from levelset.runtime.watch.streams import EventStream, watch
from levelset.runtime.watch.transforms import without_fields
from levelset.testing.virtual_time import virtual
from tests.runtime.watch.machine_inputs import item
from tests.runtime.watch.watch_bench import Settings, in_words, open_watch_bench

STORY: list[Event[Settings]] = [
    Init(),
    InitApply(item("a")),
    InitDone("1"),
    Apply(item("b")),
    Delete(item("a")),
]


class Writer:
    """Stores names as a store would."""

    def __init__(self) -> None:
        self.names: set[str] = set()
        self.coming: set[str] = set()

    def apply(self, events: Any, /) -> None:
        for event in events:
            match event:
                case Init():
                    self.coming = set()
                case InitApply(one):
                    self.coming.add(one.cached.head.name)
                case InitDone():
                    self.names = self.coming
                case Apply(one):
                    self.names.add(one.cached.head.name)
                case Delete(one):
                    self.names.discard(one.cached.head.name)


def versions(*pairs: tuple[str, str], generation: int = 1) -> EventStream[Settings]:
    """Apply events for objects by name and version."""
    made = [{"name": name, "uid": name, "resourceVersion": rv, "generation": generation} for name, rv in pairs]
    return EventStream.of(*(Apply(item("", metadata=one)) for one in made))


@virtual
async def test_a_watch_is_a_stream_of_single_events() -> None:
    async with open_watch_bench() as bench, watch(bench.client, Settings, namespace="default") as events:
        await bench.make("a")
        assert [in_words(await anext(events)) for _ in range(3)] == ["Init", "InitApply a", "InitDone"]
        await bench.change("a")
        assert in_words(await anext(events)) == "Apply a"
    assert bench.watches == 0


@virtual
async def test_applied_yields_existing_added_and_modified_objects() -> None:
    assert [one.name for one in await EventStream.of(*STORY).applied().to_list()] == ["a", "b"]


@virtual
async def test_touched_also_yields_deleted_objects() -> None:
    assert [one.name for one in await EventStream.of(*STORY).touched().to_list()] == ["a", "b", "a"]


@virtual
async def test_objects_are_available_as_items_and_as_references() -> None:
    assert await EventStream.of(*STORY).applied().items().to_list() == [item("a"), item("b")]
    refs = await EventStream.of(*STORY).touched().refs().to_list()
    assert refs == [Ref(Settings, name, "default") for name in ("a", "b", "a")]


@virtual
async def test_a_reflected_event_is_in_the_store_and_a_list_only_when_it_is_complete() -> None:
    writer = Writer()
    writer.names = {"old"}
    async with EventStream.of(*STORY).reflect(writer) as events:
        seen = [(in_words(event), sorted(writer.names)) async for event in events]
    assert seen == [
        ("Init", ["old"]),
        ("InitApply a", ["old"]),
        ("InitDone", ["a"]),
        ("Apply b", ["a", "b"]),
        ("Delete a", ["b"]),
    ]


@virtual
async def test_an_object_that_cannot_be_decoded_is_skipped_and_reported() -> None:
    seen: list[Any] = []
    events = EventStream.of(Apply(item("bad", data="no map")), Apply(item("good")))
    objects = EventStream(events, on_error=seen.append).applied()
    assert [one.name for one in await objects.to_list()] == ["good"]
    assert "ConfigMap/default/bad" in str(seen[0])


@virtual
async def test_an_object_that_cannot_be_decoded_still_has_an_item_and_a_reference() -> None:
    broken = Apply(item("bad", data="no map"))
    assert await EventStream.of(broken).applied().items().to_list() == [broken.item]
    assert [one.name for one in await EventStream.of(broken).applied().refs().to_list()] == ["bad"]


@virtual
async def test_a_modified_stream_transforms_objects_and_keeps_init_events() -> None:
    changed = Apply(item("a", data={"x": "1"}))
    events = EventStream.of(Init(), InitDone("1"), changed).modify(without_fields("data"))
    init, done, applied = await events.to_list()
    assert (init, done) == (Init(), InitDone("1"))
    assert isinstance(applied, Apply)
    assert applied.item.object.data == {}


@virtual
async def test_transforms_of_a_watch_are_done_while_it_is_read_and_in_their_order() -> None:
    order: list[int] = []

    def noting(number: int) -> Transform:
        def transform(raw: bytes) -> bytes:
            order.append(number)
            return raw

        return transform

    async with open_watch_bench() as bench:
        await bench.make("a")
        events = watch(bench.client, Settings, namespace="default", transform=noting(1)).modify(noting(2))
        async with events.modify(without_fields("data")).applied() as objects:
            assert (await anext(objects)).name == "a"
    assert order == [1, 2]


@virtual
async def test_a_watch_uses_its_backoff_policy() -> None:
    async with open_watch_bench() as bench:
        bench.faults.act = lambda call: Unreachable("refused") if timing.now() < 10 else None
        policy = Backoff(first=3.0, cap=3.0, jitter=0.0)
        events = watch(bench.client, Settings, on_error=bench.errors.append).backoff(policy)
        async with events:
            await anext(events)
        assert [when for when, _ in bench.faults.calls] == [0.0, 3.0, 6.0, 9.0, 12.0]


def test_backoff_must_directly_follow_watch() -> None:
    with pytest.raises(ConfigError, match="directly after watch"):
        EventStream.of(*STORY).backoff(Backoff())


@virtual
async def test_objects_unchanged_by_a_predicate_are_filtered_out() -> None:
    objects = versions(("a", "1"), ("a", "2"), ("b", "3")).applied().changed(by.generation)
    assert [one.metadata.resource_version for one in await objects.to_list()] == ["1", "3"]


@virtual
async def test_one_passing_predicate_is_enough_and_the_default_is_the_resource_version() -> None:
    pairs = ("a", "1"), ("a", "2"), ("a", "2")
    both = versions(*pairs).applied().changed(by.generation, by.resource_version)
    assert len(await both.to_list()) == len(await versions(*pairs).applied().changed().to_list()) == 2


@virtual
async def test_a_delete_always_passes_and_removes_the_trace() -> None:
    one = item("a", metadata={"name": "a", "uid": "u", "resourceVersion": "1", "generation": 1})
    events = EventStream.of(Apply(one), Apply(one), Delete(one), Apply(one))
    assert len(await events.touched().changed(by.generation).to_list()) == 3


@virtual
async def test_a_relist_of_known_objects_passes_nothing() -> None:
    again: list[Event[Settings]] = [Init(), InitApply(item("a")), InitDone("1")]
    assert len(await EventStream.of(*again, *again).applied().changed(by.generation).to_list()) == 1


@virtual
async def test_streams_of_several_watches_merge_and_close_together() -> None:
    async with open_watch_bench() as bench:
        await bench.make("a")
        sources = [watch(bench.client, Settings, namespace=name).applied().refs() for name in ("default", None)]
        async with merge(*sources) as refs:
            assert {await anext(refs), await anext(refs)} == {Ref(Settings, "a", "default")}
        assert bench.watches == 0


@virtual
async def test_an_error_of_the_source_ends_the_stream_after_the_earlier_events() -> None:
    async def source():
        yield Apply(item("a"))
        raise ValueError("broken")

    objects = EventStream(source()).applied()
    assert (await anext(objects)).name == "a"
    with pytest.raises(ValueError, match="broken"):
        await anext(objects)
