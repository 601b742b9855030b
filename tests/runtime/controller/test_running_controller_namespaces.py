"""A controller of several namespaces: its watches, caches, children, references and errors."""

from typing import Any

import pytest

from levelset.aio import timing
from levelset.errors import ConfigError
from levelset.objects import GroupVersionKind, ObjectMeta, Ref
from levelset.runtime.controller import Action, Context, Controller, every, owns, references, requeue, watches
from levelset.runtime.controller.relations import Namespaces
from levelset.testing.virtual_time import virtual
from tests.runtime.controller.controller_loop import (
    ConfigMap,
    ControllerLoop,
    Namespace,
    Web,
    WebStatus,
    child,
    open_loop,
    web,
    web_ref,
)

__all__: list[str] = []

SEVERAL = ("a", "b")


async def create_namespaces(loop: ControllerLoop) -> None:
    for name in ("a", "b", "c"):
        await loop.other.create(Namespace(metadata=ObjectMeta(name=name)))


def watched(loop: ControllerLoop, resource: str) -> set[str]:
    return {call.path for call in loop.calls if call.verb in {"list", "watch"} and call.path.endswith(resource)}


@virtual
async def test_only_the_objects_of_these_namespaces_are_watched_and_reconciled() -> None:
    async with open_loop() as loop:
        await create_namespaces(loop)
        for namespace in ("a", "b", "c"):
            await loop.other.create(web(f"in-{namespace}", namespace=namespace))
        recorded, controller = loop.recording_controller(namespace=SEVERAL)
        async with loop.run(controller) as started:
            assert sorted(recorded.names) == ["in-a", "in-b"]
            assert [len(store) for store in started.stores] == [1, 1]
            await loop.other.create(web("late", namespace="b"))
            await loop.other.create(web("other", namespace="c"))
            await loop.settle(started)
            assert recorded.names[2:] == ["late"]
        assert {path.split("/")[5] for path in watched(loop, "websites")} == {"a", "b"}


@virtual
async def test_children_are_watched_where_their_owners_are() -> None:
    async with open_loop() as loop:
        await create_namespaces(loop)

        async def step(site: Web, ctx: Context) -> None:
            await ctx.apply(child(site.name, namespace=site.namespace or ""), owner=site)

        recorded, controller = loop.recording_controller(step, owns(ConfigMap), namespace=SEVERAL)
        async with loop.run(controller) as started:
            await loop.other.create(web(namespace="b"))
            await loop.settle(started)
            recorded.clear()
            await loop.other.delete(Ref(ConfigMap, "blog", "b"))
            await loop.settle(started)
            assert recorded.reasons[0] == ["ConfigMap/b/blog has changed"]
            assert await loop.other.find(Ref(ConfigMap, "blog", "b")) is not None
        assert {path.split("/")[4] for path in watched(loop, "configmaps")} == {"a", "b"}


@virtual
async def test_references_are_found_in_all_of_the_namespaces() -> None:
    async with open_loop() as loop:
        await create_namespaces(loop)

        def shared(site: Web) -> list[Ref[ConfigMap]]:
            return [Ref(ConfigMap, "shared", "c")]

        recorded, controller = loop.recording_controller(
            None, references(ConfigMap, shared, namespace=["c"]), namespace=list(SEVERAL)
        )
        for namespace in SEVERAL:
            await loop.other.create(web(f"in-{namespace}", namespace=namespace))
        async with loop.run(controller) as started:
            recorded.clear()
            await loop.other.create(child("shared", namespace="c"))
            await loop.settle(started)
            assert sorted(recorded.names) == ["in-a", "in-b"]


@virtual
async def test_a_reconcile_sees_its_own_writes_in_every_namespace() -> None:
    async with open_loop() as loop:
        await create_namespaces(loop)
        seen: dict[str, list[int]] = {"a": [], "b": []}

        async def step(site: Web, ctx: Context) -> Action:
            count = 0 if site.status is None else site.status.seen
            seen[site.namespace or ""].append(count)
            await ctx.set_status(site, WebStatus(seen=count + 1))
            return requeue(0) if count < 3 else requeue(3600)

        _, controller = loop.recording_controller(step, namespace=SEVERAL)
        for namespace in SEVERAL:
            await loop.other.create(web(namespace=namespace))
        async with loop.run(controller) as started:
            await loop.settle(started)
            assert seen == {"a": [0, 1, 2, 3], "b": [0, 1, 2, 3]}


@virtual
async def test_ticks_reach_the_objects_of_every_namespace() -> None:
    async with open_loop() as loop:
        await create_namespaces(loop)
        recorded, controller = loop.recording_controller(None, every(60), namespace=SEVERAL)
        for namespace in SEVERAL:
            await loop.other.create(web(f"in-{namespace}", namespace=namespace))
        async with loop.run(controller) as started:
            recorded.clear()
            await timing.sleep(61)
            await loop.settle(started)
            assert sorted(recorded.names) == ["in-a", "in-b"]


@virtual
async def test_a_failing_object_is_given_to_the_error_policy_from_its_own_namespace() -> None:
    async with open_loop() as loop:
        await create_namespaces(loop)
        given: list[Any] = []

        def on_error(site: Any, _: Exception, __: Any) -> Action:
            given.append(site.namespace)
            return requeue(3600)

        async def step(site: Web, ctx: Context) -> None:
            raise RuntimeError("no")

        _, controller = loop.recording_controller(step, namespace=SEVERAL, on_error=on_error)
        await loop.other.create(web(namespace="b"))
        async with loop.run(controller):
            assert given == ["b"]


@virtual
async def test_an_object_of_another_namespace_is_gone() -> None:
    async with open_loop() as loop:
        await create_namespaces(loop)
        await loop.other.create(web(namespace="c"))
        gone: list[str] = []

        async def vanished(ref: Ref[Web], ctx: Context) -> None:
            gone.append(str(ref))

        _, controller = loop.recording_controller(namespace=SEVERAL, gone=vanished)
        async with loop.run(controller) as started:
            started.enqueue(web_ref(namespace="c"))
            await loop.settle(started)
            assert gone == ["Website/c/blog"]
            with pytest.raises(ConfigError, match="use stores"):
                _ = started.store


async def reconcile(site: Any, ctx: Context) -> None:
    """Reconciles nothing."""


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (None, (None,)),
        ("", (None,)),
        ("a", ("a",)),
        (["a", "b"], ("a", "b")),
    ],
)
def test_the_namespaces_of_a_controller(given: Namespaces, expected: tuple[str | None, ...]) -> None:
    assert Controller(Web, reconcile, namespace=given).namespaces == expected
    assert Controller(Namespace, reconcile, namespace=given).namespaces == (None,)


@pytest.mark.parametrize("given", [[], ["a", "a"], ["a", ""], [None], 5])
def test_namespaces_that_are_not_different_names_are_refused(given: Any) -> None:
    with pytest.raises(ConfigError, match="sequence of different names"):
        Controller(Web, reconcile, namespace=given)
    with pytest.raises(ConfigError, match="sequence of different names"):
        owns(ConfigMap, namespace=given)


def test_only_children_follow_the_namespaces_of_the_controller() -> None:
    children, others = owns(ConfigMap), watches(ConfigMap, to=lambda _: [])
    controller = Controller(Web, reconcile, children, others, namespace=SEVERAL)
    assert controller.watched_namespaces(children) == SEVERAL
    assert controller.watched_namespaces(others) == (None,)
    assert controller.watched_namespaces(owns(ConfigMap, namespace="c")) == ("c",)
    assert controller.watched_namespaces(owns(Namespace)) == (None,)
    assert controller.watched_namespaces(owns(GroupVersionKind("", "v1", "Secret"))) == SEVERAL
    assert Controller(Web, reconcile, children).watched_namespaces(children) == (None,)
