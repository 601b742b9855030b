"""Shared informers on an in-process server, in virtual time."""

import asyncio
import json
from typing import Any

import pytest

from levelset.aio import timing
from levelset.client.object_types import OnlyMetadata
from levelset.errors import BadSelector, ConfigError, Forbidden, NotFound, NotReady
from levelset.objects import GroupVersionKind, Object, Unstructured
from levelset.runtime.cache.index import Index, by_label
from levelset.runtime.cache.shared_informers import Handle, Informers
from levelset.testing.virtual_time import virtual
from tests.apiserver.support.in_process_server import CONFIGMAPS, configmap, widgets
from tests.runtime.watch.watch_bench import Settings, WatchBench, open_watch_bench, refusing, status, streaming

CONFIGMAP = GroupVersionKind("", "v1", "ConfigMap")


class Widget(Object, api="example.com/v1"):
    """A kind whose CRD is installed later."""

    spec: dict[str, Any] = {}


CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
WIDGETS = "/apis/example.com/v1/namespaces/default/widgets"
WIDGET = {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "a"}}


async def until_suspended(handle: Handle[Any]) -> None:
    """Waits until the informer has an error, then shortly for it to become ready."""
    for _ in range(200):
        if not handle.is_ready:
            break
        await timing.sleep(0.5)
    await handle.wait_ready(within=1)


def quiet(error: object) -> None: ...


def open_informers(bench: WatchBench, **options: Any) -> Informers:
    return Informers(bench.client, on_error=quiet, **options)


async def settle() -> None:
    await timing.sleep(0.5)


@virtual
async def test_the_store_has_the_objects_of_the_server_and_follows_changes() -> None:
    async with open_watch_bench() as bench, open_informers(bench) as informers:
        await bench.make("a", "b")
        async with informers.open(Settings, namespace="default") as settings:
            await settings.wait_ready(within=5)
            assert [one.name for one in settings.store.state()] == ["a", "b"]
            await bench.change("a", "7")
            await bench.remove("b")
            await settle()
            (only,) = settings.store.state()
            assert only.data == {"value": "7"}


@virtual
async def test_equal_handles_share_one_watch_and_closing_the_last_ends_it() -> None:
    async with open_watch_bench() as bench, open_informers(bench) as informers:
        first = informers.open(Settings, labels="a=b,c")
        second = informers.open(Settings, labels="c,a=b")
        await first.wait_ready(within=5)
        assert first.informer is second.informer
        assert (len(informers), len(bench.faults.of("watch"))) == (1, 1)
        await first.aclose()
        await first.aclose()
        assert (len(informers), second.is_ready) == (1, True)
        await second.aclose()
        assert len(informers) == 0
        assert second.informer.is_closed


@virtual
async def test_an_informer_that_was_closed_can_be_opened_again() -> None:
    async with open_watch_bench() as bench, open_informers(bench) as informers:
        await bench.make("a")
        for _ in range(2):
            async with informers.open(Settings, namespace="default") as settings:
                await settings.wait_ready(within=5)
                assert len(settings.store) == 1


@virtual
async def test_an_informer_opened_while_its_predecessor_is_closing_is_a_new_one() -> None:
    async with open_watch_bench() as bench, open_informers(bench) as informers:
        old = informers.open(Settings)
        await old.wait_ready(within=5)
        closing = asyncio.create_task(old.aclose())
        await asyncio.sleep(0)
        new = informers.open(Settings)
        await closing
        await new.wait_ready(within=5)
        assert (new.informer is not old.informer, len(informers)) == (True, 1)


@virtual
async def test_different_selectors_namespaces_and_projections_are_different_informers() -> None:
    async with open_watch_bench() as bench, open_informers(bench) as informers:
        await bench.make("a", labels={"color": "red"})
        await bench.make("b")
        opened: list[Handle[Any]] = [
            informers.open(Settings),
            informers.open(Settings, namespace="default"),
            informers.open(Settings, namespace="default", labels={"color": "red"}),
            informers.open(Settings, namespace="default", fields="metadata.name=b"),
            informers.open(OnlyMetadata(Settings), namespace="default"),
            informers.open(Settings, namespace="default", managed_fields=True),
        ]
        await asyncio.gather(*(one.wait_ready(within=5) for one in opened))
        assert len(informers) == len(opened)
        assert [one.name for one in opened[2].store.state()] == ["a"]
        assert [one.name for one in opened[3].store.state()] == ["b"]
        assert [one.name for one in opened[4].store.state()] == ["a", "b"]


@virtual
async def test_typed_and_unstructured_reads_of_a_kind_share_one_informer_and_agree() -> None:
    async with open_watch_bench() as bench, open_informers(bench) as informers:
        await bench.make("a")
        typed, loose = informers.open(Settings, namespace="default"), informers.open(CONFIGMAP, namespace="default")
        await typed.wait_ready(within=5)
        tree = loose.store.get("a", "default")
        site = typed.store.get("a", "default")
        assert len(informers) == 1
        assert isinstance(tree, Unstructured)
        assert site is not None
        assert site.metadata.uid == tree.metadata.uid


@virtual
async def test_a_namespace_means_nothing_for_a_cluster_scoped_kind() -> None:
    class Namespace(Object, api="v1", scope="Cluster"):
        pass

    async with open_watch_bench() as bench, open_informers(bench) as informers:
        one, other = informers.open(Namespace, namespace="default"), informers.open(Namespace)
        await one.wait_ready(within=5)
        assert one.informer is other.informer
        assert one.store.get("default", "whatever") is not None


@virtual
async def test_objects_deleted_while_the_watch_was_disconnected_are_reported_with_their_last_state() -> None:
    async with open_watch_bench() as bench, open_informers(bench, streaming=False) as informers:
        await bench.make("a", "b")
        bench.faults.act = lambda call: streaming(then="hang") if call.verb == "watch" else None
        settings = informers.open(Settings, namespace="default")
        async with settings.subscribe() as changes:
            await settings.wait_ready(within=5)
            changes.drain()
            await bench.remove("b")
            await bench.make("c")
            await bench.compact()
            bench.faults.act = lambda call: None
            await timing.sleep(200)  # until the dead stream is noticed
            delivered = [(str(change.ref), change.new is None, change.item.object.name) for change in changes.drain()]
        assert delivered == [("ConfigMap/default/b", True, "b"), ("ConfigMap/default/c", False, "c")]
        assert [one.name for one in settings.store.state()] == ["a", "c"]
        assert settings.stats().relists == 1


@virtual
async def test_an_object_that_leaves_the_selector_is_gone_for_the_informer() -> None:
    async with open_watch_bench() as bench, open_informers(bench) as informers:
        await bench.make("a", labels={"color": "red"})
        red = informers.open(Settings, namespace="default", labels="color=red")
        await red.wait_ready(within=5)
        body = {"metadata": {"labels": {"color": "blue"}}}
        await bench.box.request("PATCH", f"{CONFIGMAPS}/a", body, kind="application/merge-patch+json")
        await settle()
        assert len(red.store) == 0


@virtual
async def test_a_transform_and_the_cutting_of_managed_fields_are_applied_to_lists_and_to_events() -> None:
    def without_data(raw: bytes) -> bytes:
        tree = json.loads(raw)
        tree.pop("data", None)
        return json.dumps(tree).encode()

    async with open_watch_bench() as bench, open_informers(bench) as informers:
        await bench.box.create(CONFIGMAPS, {**configmap("a"), "data": {"k": "v"}})
        bare = informers.open(Settings, namespace="default", transform=without_data)
        full = informers.open(Settings, namespace="default", managed_fields=True)
        same = informers.open(Settings, namespace="default", transform=without_data)
        await asyncio.gather(bare.wait_ready(within=5), full.wait_ready(within=5))
        await bench.change("a")
        await bench.make("b")
        await settle()
        assert bare.informer is same.informer
        assert [one.data for one in bare.store.state()] == [{}, {}]
        cached = full.store.cached("default/a"), bare.store.cached("default/a")
        assert ["managedFields" in one.tree()["metadata"] for one in cached if one is not None] == [True, False]


@virtual
async def test_a_missing_kind_makes_the_informer_not_ready_until_it_is_installed() -> None:
    async with open_watch_bench() as bench, open_informers(bench) as informers:
        widgets_, settings = informers.open(Widget), informers.open(Settings)
        await settings.wait_ready(within=5)  # not affected by the other informer
        with pytest.raises(NotReady, match="Widget") as caught:
            await widgets_.wait_ready(within=5)
        assert isinstance(caught.value.cause, NotFound)
        assert widgets_.error is not None
        await bench.box.create(CRDS, widgets())
        await widgets_.wait_ready(within=60)
        assert widgets_.error is None


@virtual
async def test_a_removed_kind_empties_the_store_and_makes_the_informer_not_ready() -> None:
    async with open_watch_bench() as bench, open_informers(bench) as informers:
        await bench.box.create(CRDS, widgets())
        await bench.box.create(WIDGETS, WIDGET)
        widgets_, settings = informers.open(Widget), informers.open(Settings)
        await asyncio.gather(widgets_.wait_ready(within=5), settings.wait_ready(within=5))
        async with widgets_.subscribe(replay=False) as changes:
            await bench.box.request("DELETE", f"{CRDS}/widgets.example.com")
            gone = await changes.receive(within=5)
        assert (gone.ref.name, gone.new, len(widgets_.store)) == ("a", None, 0)
        with pytest.raises(NotReady, match="Widget.* could not be kept current") as caught:
            await until_suspended(widgets_)
        assert isinstance(caught.value.cause, NotFound)
        stats = widgets_.stats()
        assert (widgets_.is_ready, widgets_.store.is_ready, stats.is_ready, settings.is_ready) == (
            False,
            False,
            False,
            True,
        )
        assert stats.error is not None
        assert "Widget" in stats.error


@virtual
async def test_a_reinstalled_kind_is_ready_again_with_its_current_objects() -> None:
    async with open_watch_bench() as bench, open_informers(bench) as informers:
        await bench.box.create(CRDS, widgets())
        await bench.box.create(WIDGETS, WIDGET)
        widgets_ = informers.open(Widget)
        await widgets_.wait_ready(within=5)
        await bench.box.request("DELETE", f"{CRDS}/widgets.example.com")
        with pytest.raises(NotReady):
            await until_suspended(widgets_)
        waiting = asyncio.create_task(widgets_.wait_ready(within=100))
        await bench.box.create(CRDS, widgets())
        await bench.box.create(WIDGETS, {**WIDGET, "metadata": {"name": "b"}})
        await waiting
        assert (widgets_.is_ready, widgets_.error, widgets_.stats().error) == (True, None, None)
        assert [one.name for one in widgets_.store.state()] == ["b"]


@virtual
async def test_a_revoked_permission_makes_the_informer_not_ready_until_the_watch_reopens() -> None:
    async with open_watch_bench() as bench, open_informers(bench) as informers:
        await bench.make("a")
        settings = informers.open(Settings, namespace="default")
        await settings.wait_ready(within=5)
        bench.faults.act = lambda call: status(403, "Forbidden", message="no") if "configmaps" in call.path else None
        bench.end_watches()
        with pytest.raises(NotReady, match="could not be kept current") as caught:
            await until_suspended(settings)
        assert isinstance(caught.value.cause, Forbidden)
        assert [one.name for one in settings.store.state()] == ["a"]  # the last observed objects stay readable
        bench.faults.act = lambda call: None
        await settings.wait_ready(within=60)
        assert (settings.error, settings.stats().relists, settings.stats().bookmarks) == (None, 0, 0)


@virtual
@pytest.mark.parametrize("code", [500, 503, 429, 410])
async def test_transient_errors_leave_the_informer_ready(code: int) -> None:
    async with open_watch_bench() as bench, open_informers(bench) as informers:
        await bench.make("a")
        settings = informers.open(Settings, namespace="default")
        await settings.wait_ready(within=5)
        bench.faults.act = refusing(code, "Expired" if code == 410 else "")
        bench.end_watches()
        for _ in range(20):
            await timing.sleep(1)
            assert settings.is_ready
        assert settings.error is not None
        await settings.wait_ready(within=0)


@virtual
async def test_a_missing_permission_makes_only_its_informer_not_ready_and_is_the_cause() -> None:
    async with open_watch_bench() as bench, open_informers(bench) as informers:
        bench.faults.act = lambda call: status(403, "Forbidden", message="no") if "configmaps" in call.path else None
        settings, other = informers.open(Settings), informers.open(GroupVersionKind("", "v1", "Namespace"))
        await other.wait_ready(within=5)
        with pytest.raises(NotReady) as caught:
            await settings.wait_ready(within=5)
        assert isinstance(caught.value.cause, Forbidden)
        error = informers.stats()[0].error
        assert error is not None
        assert "no" in error
        bench.faults.act = lambda call: None
        await settings.wait_ready(within=60)


@virtual
async def test_waiting_for_readiness_can_be_cancelled() -> None:
    async with open_watch_bench() as bench, open_informers(bench) as informers:
        bench.faults.act = refusing(500, "InternalError")
        settings = informers.open(Settings)
        waiting = asyncio.create_task(settings.wait_ready())
        await timing.sleep(1)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting


@virtual
async def test_closing_the_informers_leaves_no_task_and_ends_all_subscribers() -> None:
    async with open_watch_bench() as bench:
        informers = open_informers(bench)
        bench.faults.act = lambda call: status(500, "InternalError") if "namespaces" not in call.path else None
        ready, never = informers.open(Settings, namespace="default"), informers.open(Settings)
        await ready.wait_ready(within=5)
        reader = ready.subscribe()
        waiting = asyncio.create_task(never.wait_ready())
        await asyncio.sleep(0)
        await informers.aclose()
        with pytest.raises(NotReady, match="was closed"):
            await waiting
        assert [change async for change in reader] == []
        await ready.aclose()
        with pytest.raises(ConfigError, match="closed"):
            informers.open(Settings)


@virtual
async def test_a_wrong_option_raises_in_the_caller_and_starts_nothing() -> None:
    async with open_watch_bench() as bench, open_informers(bench) as informers:
        with pytest.raises(BadSelector):
            informers.open(Settings, labels="a==b==c")
        with pytest.raises(ConfigError):
            informers.open(Settings, indexes=[Index(Widget, lambda one: one.name)])
        assert len(informers) == 0


@virtual
async def test_indexes_of_all_handles_are_built_before_the_informer_is_ready() -> None:
    async with open_watch_bench() as bench, open_informers(bench) as informers:
        await bench.make("a", labels={"color": "red"})
        first = informers.open(Settings, namespace="default", indexes=[by_label("color")])
        await first.wait_ready(within=5)
        data = Index(Settings, lambda one: list(one.data.values()), name="data")
        second = informers.open(Settings, namespace="default", indexes=[data, by_label("color")])
        await second.wait_ready(within=5)
        await bench.change("a", "7")
        await settle()
        for handle in (first, second):
            assert [one.name for one in handle.store.by(data, "7")] == ["a"]
            assert [one.name for one in handle.store.by(by_label("color"), "red")] == ["a"]


@virtual
async def test_closing_a_handle_closes_its_own_subscriptions_only() -> None:
    async with open_watch_bench() as bench, open_informers(bench) as informers:
        one, other = informers.open(Settings), informers.open(Settings)
        mine, theirs = one.subscribe(), other.subscribe()
        calls: list[int] = []
        one.listen(lambda changes: calls.append(len(changes)))
        await one.wait_ready(within=5)
        await one.aclose()
        assert (mine.is_closed, theirs.is_closed) == (True, False)
        with pytest.raises(ConfigError, match="open another"):
            one.subscribe()
        calls.clear()
        await bench.make("a")
        assert (await theirs.receive(within=5)).ref.name == "a"
        assert calls == []


@virtual
async def test_the_statistics_have_size_lag_and_errors() -> None:
    async with open_watch_bench() as bench, open_informers(bench, streaming=False) as informers:
        await bench.make("a", "b")
        settings = informers.open(Settings, namespace="default")
        await settings.wait_ready(within=5)
        await bench.change("a")
        await timing.sleep(10)
        stats = settings.stats()
        assert (stats.name, stats.is_ready, stats.objects, stats.readers) == ("v1 ConfigMap in default", True, 2, 0)
        assert stats.bytes == settings.store.size > 0
        assert (stats.events, stats.relists, stats.errors, stats.error) == (3, 0, 0, None)  # two listed, one changed
        assert stats.resource_version == settings.informer.observed
        assert stats.lag is not None
        assert 9 < stats.lag < 11
        assert informers.stats() == [stats]
