"""What triggers a controller beside its relations: the event filter of all kinds, and streams of one's own."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from levelset.aio import Channel
from levelset.errors import ConfigError
from levelset.objects import ObjectMeta, Ref, replace, set_controller
from levelset.runtime.controller import (
    Context,
    Controller,
    Request,
    owns,
    references,
    source,
    trigger_others,
    trigger_owners,
    trigger_self,
    watches,
)
from levelset.runtime.watch import by, watch, where
from levelset.testing.virtual_time import virtual
from tests.runtime.controller.controller_loop import ConfigMap, ControllerLoop, Web, child, open_loop, web, web_ref

__all__: list[str] = []

Refs = Channel[Ref[Web] | Request[Web]]


def is_ours(obj: Any) -> bool:
    return bool(obj.metadata.labels.get("team") == "ours")


def labelled(obj: Any, **labels: str) -> Any:
    return obj.with_metadata(labels=labels)


def to_blog(one: ConfigMap) -> list[Ref[Web]]:
    return [web_ref()]


@virtual
async def test_the_event_filter_holds_for_the_objects_themselves_and_for_every_relation() -> None:
    async with open_loop() as loop:
        recorded, controller = loop.recording_controller(
            None, watches(ConfigMap, to=to_blog), event_filter=where(is_ours)
        )
        await loop.other.create(web("theirs"))
        async with loop.run(controller) as started:
            await loop.other.create(labelled(web(), team="ours"))
            await loop.settle(started)
            assert recorded.names == ["blog"]
            await loop.other.create(child("theirs"))
            await loop.settle(started)
            assert recorded.names == ["blog"]
            await loop.other.create(labelled(child("ours"), team="ours"))
            await loop.settle(started)
            assert recorded.reasons[1:] == [["ConfigMap/default/ours has changed"]]


@virtual
async def test_a_change_must_pass_the_event_filter_and_the_predicate_of_its_kind() -> None:
    async with open_loop() as loop:
        relation = watches(ConfigMap, to=to_blog, when=by.labels)
        recorded, controller = loop.recording_controller(None, relation, event_filter=where(is_ours))
        await loop.other.create(labelled(web(), team="ours"))
        ours = await loop.other.create(labelled(child("ours"), team="ours"))
        async with loop.run(controller) as started:
            recorded.clear()
            ours = await loop.other.update(labelled(ours, team="ours", color="red"))
            await loop.settle(started)
            assert recorded.reasons == [["ConfigMap/default/ours has changed"]]
            await loop.other.update(replace(ours, data={"changed": "data"}))
            await loop.settle(started)
            assert len(recorded.names) == 1


@virtual
async def test_the_deletion_of_an_object_passes_every_event_filter() -> None:
    async with open_loop() as loop:
        gone: list[Ref[Web]] = []

        async def vanished(ref: Ref[Web], ctx: Context) -> None:
            gone.append(ref)

        _, controller = loop.recording_controller(gone=vanished, event_filter=where(is_ours))
        await loop.other.create(web())
        async with loop.run(controller) as started:
            await loop.other.delete(web_ref())
            await loop.settle(started)
            assert gone == [web_ref()]


@virtual
async def test_a_stream_decides_which_objects_are_reconciled_instead_of_their_changes() -> None:
    async with open_loop() as loop:
        requests: Refs = Channel(capacity=10)
        recorded, controller = loop.recording_controller(for_stream=requests)
        await loop.other.create(web("a"))
        async with loop.run(controller) as started:
            await loop.other.create(web("b"))
            await loop.settle(started)
            assert recorded.names == []
            await requests.send(web_ref("b"))
            await loop.settle(started)
            assert recorded.names == ["b"]
            assert recorded.objects[0].name == "b"


@virtual
async def test_a_controller_with_a_stream_has_children_references_and_a_finalizer_as_any_other() -> None:
    async with open_loop() as loop:
        requests: Refs = Channel(capacity=10)
        cleaned: list[str] = []

        async def step(site: Web, ctx: Context) -> None:
            await ctx.apply(child(site.name), owner=site)

        async def cleanup(site: Web, ctx: Context) -> None:
            cleaned.append(site.name)

        def settings(site: Web) -> list[Ref[ConfigMap]]:
            return [Ref(ConfigMap, "settings", "default")]

        relations = (owns(ConfigMap), references(ConfigMap, settings))
        recorded, controller = loop.recording_controller(step, *relations, for_stream=requests, cleanup=cleanup)
        await loop.other.create(web())
        async with loop.run(controller) as started:
            await requests.send(web_ref())
            await loop.settle(started)
            assert recorded.reasons[0] == ["it has changed"]  # its finalizer was added
            await loop.other.create(child("settings"))
            await loop.settle(started)
            await loop.other.delete(Ref(ConfigMap, "blog", "default"))
            await loop.settle(started)
            assert "ConfigMap/default/settings has changed" in [one for several in recorded.reasons for one in several]
            assert "ConfigMap/default/blog has changed" in [one for several in recorded.reasons for one in several]
            await loop.other.delete(web_ref())
            await loop.settle(started)
            assert cleaned == ["blog"]
            assert await loop.other.find(web_ref()) is None


@virtual
async def test_a_stream_that_fails_is_made_again() -> None:
    async with open_loop() as loop:
        made: list[int] = []

        async def stream() -> AsyncIterator[Ref[Web]]:
            made.append(1)
            if len(made) == 1:
                raise ConnectionError("lost")
            yield web_ref()
            await asyncio.Event().wait()

        recorded, controller = loop.recording_controller(for_stream=stream)
        await loop.other.create(web())
        async with loop.run(controller) as started:
            await asyncio.sleep(5)
            await loop.settle(started)
            assert (len(made), recorded.names) == (2, ["blog"])


def test_a_stream_that_is_none_is_refused() -> None:
    async def reconcile(site: Web, ctx: Context) -> None:
        """Reconciles nothing."""

    wrong: Any = 5
    with pytest.raises(ConfigError, match="for_stream=5, but it must be an async iterable, or a function"):
        Controller(Web, reconcile, for_stream=wrong)


async def owned_child(loop: ControllerLoop, name: str) -> ConfigMap:
    owner = await loop.other.create(web())
    return await loop.other.create(set_controller(child(name), owner))


@virtual
async def test_the_owner_of_an_object_of_a_stream_is_reconciled_because_of_that_object() -> None:
    async with open_loop() as loop:
        await owned_child(loop, "settings")
        await loop.other.create(ConfigMap(metadata=ObjectMeta(name="orphan", namespace="default")))
        requests = trigger_owners(watch(loop.client, ConfigMap).touched(), Web)
        recorded, controller = loop.recording_controller(None, source(requests), when=where(lambda _: False))
        async with loop.run(controller) as started:
            await loop.settle(started)
            assert recorded.names == ["blog"]
            assert recorded.reasons == [["ConfigMap/default/settings has changed"]]


@virtual
async def test_the_refs_of_a_function_are_reconciled_because_of_the_object_of_the_stream() -> None:
    async with open_loop() as loop:
        await loop.other.create(web())
        await loop.other.create(child("settings"))
        requests = trigger_others(watch(loop.client, ConfigMap).touched(), to_blog)
        recorded, controller = loop.recording_controller(None, source(requests), when=where(lambda _: False))
        async with loop.run(controller) as started:
            await loop.settle(started)
            assert recorded.reasons == [["ConfigMap/default/settings has changed"]]


@virtual
async def test_the_objects_of_a_stream_are_reconciled_because_they_have_changed() -> None:
    async with open_loop() as loop:
        await loop.other.create(web())
        stream = trigger_self(watch(loop.client, Web).applied().changed(by.generation))
        recorded, controller = loop.recording_controller(for_stream=stream)
        async with loop.run(controller) as started:
            await loop.settle(started)
            assert recorded.reasons == [["it has changed"]]
