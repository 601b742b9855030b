"""The cluster: declarations, the sources of reads, and the errors of reads that cannot be served."""

import asyncio
from typing import Any

import pytest

from levelset.apiserver import ApiServer
from levelset.client.client import Client
from levelset.client.object_types import OnlyMetadata
from levelset.errors import BadName, BadSelector, ConfigError, NotCached, NotFound, NotReady
from levelset.objects import GroupVersionKind, Object, Ref, replace
from levelset.runtime.cache.cluster import Cluster, cluster_sources, peek_cached
from levelset.runtime.cache.index import Index, by_label
from levelset.testing.mutation_guard import Mutated, mutation_guard
from levelset.testing.virtual_time import virtual
from tests.runtime.cache.cluster_bench import CRD, Config, Website, config, open_bench, website

__all__: list[str] = []

BLOG = Ref(Config, "blog", "default")
CONFIG = GroupVersionKind("", "v1", "ConfigMap")
CRDS = GroupVersionKind("apiextensions.k8s.io", "v1", "CustomResourceDefinition")


class Namespace(Object, api="v1", scope="Cluster"):
    """A kind without namespaces."""


def value_of(one: Config) -> str | None:
    return one.data.get("value")


by_value: Index[Config] = Index(Config, value_of)


@virtual
async def test_a_read_of_an_undeclared_kind_is_rejected_and_opens_no_watch() -> None:
    async with open_bench() as bench:
        with pytest.raises(NotCached, match="this kind is not declared"):
            await bench.cluster.get(BLOG)
        with pytest.raises(NotCached, match='read="live"'):
            await bench.cluster.list(Config)
        assert bench.holding.calls == []


@virtual
async def test_an_undeclared_kind_is_read_live_with_undeclared_live() -> None:
    async with open_bench(undeclared="live") as bench:
        await bench.other.create(config("blog", "1"))
        assert (await bench.cluster.get(BLOG)).data == {"value": "1"}
        assert "blog" in [one.name for one in await bench.cluster.list(Config)]
        assert await bench.cluster.find(Config, "none") is None
        assert bench.holding.count("watch") == 0


@virtual
async def test_an_undeclared_kind_is_declared_with_undeclared_watch() -> None:
    async with open_bench(undeclared="watch") as bench:
        await bench.other.create(config("blog", "1"))
        for _ in range(3):
            assert (await bench.cluster.get(BLOG)).data == {"value": "1"}
        assert [str(scope) for scope in bench.cluster.declared] == ["v1 ConfigMap"]
        assert bench.holding.count("get") == 0


@virtual
async def test_excluded_kinds_are_read_live_and_all_writes_are_live() -> None:
    async with open_bench(live=[Config]) as bench:
        bench.cluster.declare(Config)
        await bench.cluster.wait_ready()
        bench.holding.hold()
        await bench.client.create(config("blog", "1"))
        assert (await bench.cluster.get(BLOG)).data == {"value": "1"}
        assert (await bench.other.get(BLOG)).data == {"value": "1"}
        assert bench.holding.count("get") == 1


@virtual
async def test_a_peek_returns_what_a_read_would_return_without_waiting() -> None:
    async with open_bench() as bench:
        bench.cluster.declare(Config)
        await bench.cluster.wait_ready()
        (source,) = cluster_sources(bench.cluster)
        await bench.client.create(config("blog", "1"))
        assert peek_cached(bench.cluster, source, "blog", "default") is None, "the own write is not there yet"
        found = await bench.cluster.get(BLOG)
        peeks = [peek_cached(bench.cluster, source, "blog", "default") for _ in range(64)]
        cached = source.cached("default/blog")
        assert cached is not None
        assert cached.head.resource_version == found.metadata.resource_version
        assert peeks.count(None) == 64 - peeks.count(cached) > 0, "now and then it is the turn of others"
        assert peeks[0] is cached
        await bench.cluster.aclose()
        assert peek_cached(bench.cluster, source, "blog", "default") is None


@virtual
async def test_opening_and_closing_a_second_watch_of_a_kind_changes_the_source_of_reads() -> None:
    async with open_bench() as bench:
        await bench.other.create(config("blog", "1"))
        async with bench.cluster.declare(Config) as first:
            assert (await bench.cluster.get(BLOG)).data == {"value": "1"}
            bench.cluster.declare(Config, namespace="default")
            assert (await bench.cluster.get(BLOG)).data == {"value": "1"}
            assert first.is_ready
        assert (await bench.cluster.get(BLOG)).data == {"value": "1"}
        assert [str(scope) for scope in bench.cluster.declared] == ["v1 ConfigMap in default"]


@virtual
async def test_reads_outside_of_the_declared_namespaces_are_errors_that_name_them() -> None:
    async with open_bench() as bench:
        bench.cluster.declare(Config, namespace="default")
        bench.cluster.declare(Config, namespace="kube-public")
        await bench.other.create(config("blog"))
        assert (await bench.cluster.get(BLOG)).name == "blog"
        assert (await bench.cluster.get(Config, "blog")).name == "blog", "the client's namespace is filled in"
        with pytest.raises(NotCached, match="ConfigMap in default; v1 ConfigMap in kube-public"):
            await bench.cluster.get(Config, "blog", namespace="kube-system")
        with pytest.raises(NotCached, match="v1 ConfigMap is not in the cache"):
            await bench.cluster.list(Config)


@virtual
async def test_namespaces_are_ignored_for_a_cluster_scoped_kind() -> None:
    async with open_bench() as bench:
        bench.cluster.declare(Namespace, namespace="default")
        assert (await bench.cluster.get(Namespace, "default", namespace="other")).name == "default"
        assert "default" in [one.name for one in await bench.cluster.list(Namespace, namespace="other")]
        assert await bench.cluster.find(GroupVersionKind("", "v1", "Namespace"), "default") is not None


@virtual
async def test_an_informer_of_all_objects_serves_namespaces_labels_names_and_metadata() -> None:
    async with open_bench() as bench:
        bench.cluster.declare(Config)
        await bench.other.create(config("a", "1", tier="x"))
        await bench.other.create(config("b", "2", tier="y"))
        listed: list[Any] = [
            await bench.cluster.list(Config, namespace="default", labels="tier=x"),
            await bench.cluster.list(OnlyMetadata(Config), labels={"tier": "x"}),
            await bench.cluster.list(CONFIG, fields="metadata.name=a,metadata.namespace=default"),
            await bench.cluster.list(Config, labels="tier", limit=1),
        ]
        assert [[one.name for one in some] for some in listed] == [["a"]] * 4


@virtual
async def test_a_list_wider_than_the_declared_selector_is_refused() -> None:
    async with open_bench() as bench:
        bench.cluster.declare(Config, labels="tier=a")
        with pytest.raises(NotCached, match="with labels tier=a"):
            await bench.cluster.list(Config)
        bench.cluster.declare(OnlyMetadata(Website))
        with pytest.raises(NotCached, match=r"Website \(metadata only\)"):
            await bench.cluster.list(Website)


@virtual
async def test_an_index_whose_function_fails_for_an_object_does_not_have_it_cached_or_live() -> None:
    async with open_bench() as bench:
        fragile = Index(Config, lambda one: [1 // len(one.metadata.labels)])
        bench.cluster.declare(Config, indexes=[fragile])
        await bench.other.create(config("a", "1", tier="x"))
        await bench.other.create(config("b", "1"))
        await bench.cluster.wait_ready()
        for read in ("cached", "live"):
            assert [one.name for one in await bench.cluster.list(Config, index=(fragile, 1), read=read)] == ["a"]


@virtual
async def test_a_list_by_index_cached_and_live() -> None:
    async with open_bench() as bench:
        tier = by_label("tier")
        bench.cluster.declare(Config, indexes=[by_value, tier])
        for name, value in (("a", "1"), ("b", "2"), ("c", "1")):
            await bench.other.create(config(name, value, tier=name))
        await bench.cluster.wait_ready()
        for read in ("cached", "live"):
            found = await bench.cluster.list(Config, index=(by_value, "1"), read=read)
            assert [one.name for one in found] == ["a", "c"]
            both = await bench.cluster.list(
                Config, index=[(by_value, "1"), (tier, "c")], read=read, namespace="default"
            )
            assert [one.name for one in both] == ["c"]


@virtual
async def test_a_missing_index_and_a_field_that_cannot_be_evaluated_are_clear_errors() -> None:
    async with open_bench() as bench:
        bench.cluster.declare(Config)
        with pytest.raises(ConfigError, match="value_of"):
            await bench.cluster.list(Config, index=(by_value, "1"))
        with pytest.raises(BadSelector, match="data.value"):
            await bench.cluster.list(Config, fields="data.value=1")


@virtual
async def test_the_first_of_a_list_or_none() -> None:
    async with open_bench() as bench:
        bench.cluster.declare(Config)
        await bench.other.create(config("b", tier="x"))
        await bench.other.create(config("a", tier="x"))
        await bench.cluster.wait_ready()
        found = await bench.cluster.first(Config, labels="tier=x")
        assert found is not None
        assert found.name == "a"
        assert await bench.cluster.first(Config, labels="tier=y") is None


@virtual
async def test_reads_and_declarations_outside_of_the_async_with_are_errors() -> None:
    server = ApiServer()
    await server.start(listen=False)
    async with await Client.connect(server) as client:
        cluster = Cluster(client)
        with pytest.raises(NotReady, match="is not open yet"):
            await cluster.get(BLOG)
        with pytest.raises(NotReady, match="is not open yet"):
            cluster.declare(Config)
        with pytest.raises(NotFound):
            await cluster.get(BLOG, read="live")
        async with cluster:
            cluster.declare(Config)
        with pytest.raises(NotReady, match="is closed"):
            await cluster.list(Config)
        with pytest.raises(NotReady, match="closed already"):
            await cluster.__aenter__()
    await server.stop()


@virtual
async def test_a_read_blocks_until_the_cache_is_filled_and_can_be_cancelled() -> None:
    async with open_bench() as bench:
        bench.holding.hold_lists()
        bench.cluster.declare(Config)
        reading = asyncio.ensure_future(bench.cluster.list(Config))
        given_up = asyncio.ensure_future(bench.cluster.list(Config))
        assert await bench.is_waiting(reading)
        given_up.cancel()
        bench.holding.release()
        assert len(await reading) >= 0
        assert (await asyncio.gather(given_up, return_exceptions=True))[0].__class__ is asyncio.CancelledError


@virtual
async def test_a_missing_kind_is_the_cause_of_the_read_error_and_does_not_affect_other_kinds() -> None:
    class Missing(Object, api="missing.dev/v1"):
        """A kind that the server does not serve."""

    async with open_bench() as bench:
        bench.cluster.declare(Missing)
        bench.cluster.declare(Config)
        assert len(await bench.cluster.list(Config)) >= 0
        with pytest.raises(NotReady, match="Missing") as caught:
            await bench.cluster.get(Missing, "x")
        assert isinstance(caught.value.cause, NotFound)
        with pytest.raises(NotReady, match="Missing"):
            await bench.cluster.wait_ready(1)
        with pytest.raises(NotFound):
            await bench.cluster.get(Missing, "x", read="consistent")


@virtual
async def test_a_kind_that_is_installed_later_is_read_as_soon_as_it_exists() -> None:
    async with open_bench() as bench:
        await bench.other.delete(GroupVersionKind("apiextensions.k8s.io", "v1", "CustomResourceDefinition"), CRD_NAME)
        await bench.server.idle()
        bench.cluster.declare(Website)
        with pytest.raises(NotReady):
            await bench.cluster.list(Website)
        await bench.other.create(CRD)
        await bench.other.create(website("blog"))
        await bench.cluster.wait_ready(600)
        assert [one.name for one in await bench.cluster.list(Website)] == ["blog"]


CRD_NAME = "websites.example.dev"


@virtual
async def test_a_declaration_can_be_closed_and_made_again() -> None:
    async with open_bench() as bench:
        await bench.other.create(config("blog"))
        for _ in range(2):
            async with bench.cluster.declare(Config), bench.cluster.declare(Config):
                assert (await bench.cluster.get(BLOG)).name == "blog"
                assert len(bench.cluster.declared) == 1
            with pytest.raises(NotCached):
                await bench.cluster.get(BLOG)
            assert len(bench.cluster.declared) == 0


@virtual
async def test_different_selectors_of_one_kind_have_different_informers() -> None:
    async with open_bench() as bench:
        for tier in "ab":
            bench.cluster.declare(Config, labels={"tier": tier})
            await bench.other.create(config(tier, tier=tier))
        assert [str(scope) for scope in bench.cluster.declared] == [
            "v1 ConfigMap with labels tier=a",
            "v1 ConfigMap with labels tier=b",
        ]
        assert [one.name for one in await bench.cluster.list(Config, labels="tier=b")] == ["b"]


@virtual
async def test_all_readers_share_one_frozen_object_until_it_changes() -> None:
    async with open_bench() as bench:
        await bench.other.create(config("blog", "1"))
        bench.cluster.declare(Config)
        found = await bench.cluster.get(BLOG)
        assert await bench.cluster.get(BLOG) is found
        assert any(one is found for one in await bench.cluster.list(Config))
        with pytest.raises(AttributeError):
            found.data = {}  # type: ignore[misc]
        await bench.client.update(replace(found, data={"value": "2"}))
        assert (await bench.cluster.get(BLOG)).data == {"value": "2"}
        assert found.data == {"value": "1"}


@virtual
async def test_mutating_an_object_of_the_cache_is_detected() -> None:
    async with open_bench() as bench:
        await bench.other.create(config("blog", "1"))
        bench.cluster.declare(Config)
        with mutation_guard(bench.cluster):
            found = await bench.cluster.get(BLOG)
        with pytest.raises(Mutated, match=r"ConfigMap/default/blog at data\.value\."), mutation_guard(bench.cluster):
            found.data["value"] = "3"


@virtual
async def test_objects_always_have_their_kind_and_version() -> None:
    async with open_bench() as bench:
        await bench.other.create(config("blog"))
        bench.cluster.declare(Config)
        typed = await bench.cluster.get(BLOG)
        dynamic = await bench.cluster.get(CONFIG, "blog")
        listed = await bench.cluster.list(CONFIG, fields="metadata.name=blog")
        for one in (typed, dynamic, listed[0]):
            assert (one.api_version, one.kind) == ("v1", "ConfigMap")


@virtual
async def test_the_stats_of_all_informers_are_there_for_metrics() -> None:
    async with open_bench() as bench:
        bench.cluster.declare(Config)
        await bench.cluster.wait_ready()
        (stats,) = bench.cluster.stats()
        assert stats.name == "v1 ConfigMap"
        assert stats.is_ready


@virtual
async def test_reads_of_a_removed_kind_raise_and_are_never_silently_stale() -> None:
    async with open_bench() as bench:
        await bench.other.create(website("blog"))
        sites = bench.cluster.declare(Website)
        await bench.cluster.wait_ready(within=5)
        bench.holding.cut()  # so that the watch does not see the objects deleted
        await bench.other.delete(Ref(CRDS, "websites.example.dev"))
        await asyncio.sleep(60)
        assert not sites.is_ready
        for read in (bench.cluster.find(Website, "blog", within=2), bench.cluster.list(Website, within=2)):
            began = asyncio.get_running_loop().time()
            with pytest.raises(NotReady, match="could not be kept current") as caught:
                await read
            assert isinstance(caught.value.cause, NotFound)
            assert asyncio.get_running_loop().time() - began == pytest.approx(2)
        with pytest.raises(NotFound):
            await bench.cluster.list(Website, read="consistent", within=2)
        assert await bench.cluster.find(Website, "blog", read="stale") is not None
        assert len(await bench.cluster.list(Website, read="stale")) == 1


@virtual
async def test_reads_of_a_reinstalled_kind_wait_for_it() -> None:
    async with open_bench() as bench:
        bench.cluster.declare(Website)
        await bench.cluster.wait_ready(within=5)
        await bench.other.delete(Ref(CRDS, "websites.example.dev"))
        await asyncio.sleep(60)
        reading = asyncio.ensure_future(bench.cluster.list(Website, within=100))
        assert await bench.is_waiting(reading)
        await bench.other.create(CRD)
        await bench.other.create(website("blog"))
        assert [site.name for site in await reading] in ([], ["blog"])
        assert await bench.cluster.find(Website, "blog", read="consistent") is not None


@virtual
async def test_a_misspelt_read_mode_is_rejected() -> None:
    async with open_bench() as bench:
        slip: Any = "wach"
        with pytest.raises(
            ConfigError, match="undeclared='wach' is not a valid choice; choose one of: live, refuse, watch"
        ):
            Cluster(bench.client, undeclared=slip)
        with pytest.raises(
            ConfigError, match="read='wach' is not a valid choice; choose one of: cached, consistent, live, stale"
        ):
            await bench.cluster.list(Config, read=slip)
        with pytest.raises(ConfigError, match="read='wach' is not a valid choice"):
            await bench.cluster.find(BLOG, read=slip)


@virtual
async def test_the_cache_of_a_client_confined_to_a_namespace_does_not_serve_others() -> None:
    async with open_bench() as bench:
        await bench.other.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "far"}})
        await bench.other.create(config("blog", "1"))
        await bench.other.create(config("blog", "2", namespace="far"))
        async with Cluster(bench.client.in_namespace("default")) as cluster:
            with pytest.raises(ConfigError, match="confined to namespace default and cannot read namespace far"):
                cluster.declare(Config, namespace="far")
            await cluster.declare(Config).wait_ready(10)
            assert [one.data["value"] for one in await cluster.list(Config) if one.name == "blog"] == ["1"]
            assert (await cluster.get(Config, "blog")).data == {"value": "1"}
            with pytest.raises(NotCached, match="declared scopes of this kind: v1 ConfigMap in default"):
                await cluster.find(Config, "blog", namespace="far")
            with pytest.raises(NotCached):
                await cluster.list(Config, namespace="far")


@virtual
async def test_polling_the_cache_does_not_starve_the_watch() -> None:
    async with open_bench() as bench, bench.cluster.declare(Config) as handle:
        await bench.other.create(config("blog", "1"))
        await handle.wait_ready(10)
        writing = asyncio.create_task(bench.other.apply(config("blog", "2"), force=True))
        for _ in range(100_000):
            if (await bench.cluster.get(BLOG)).data == {"value": "2"}:
                break
        for _ in range(100_000):
            if (await bench.cluster.list(Config, namespace="default"))[0].data == {"value": "2"}:
                break
        assert writing.done()


@virtual
async def test_a_cluster_that_is_closed_or_was_never_started_is_never_ready() -> None:
    async with open_bench() as bench:
        cluster = Cluster(bench.client)
        with pytest.raises(NotReady, match="use it in `async with`"):
            await cluster.wait_ready(1)
        async with cluster:
            cluster.declare(Config)
            await cluster.wait_ready(10)
        with pytest.raises(NotReady, match="is closed"):
            await cluster.wait_ready(1)


@virtual
@pytest.mark.parametrize("name", ["", 5, b"blog"], ids=repr)
async def test_a_cached_read_with_an_invalid_name_is_rejected_as_a_live_one_is(name: Any) -> None:
    async with open_bench() as bench, bench.cluster.declare(Config):
        for read in (bench.cluster.get, bench.cluster.find, bench.client.get, bench.client.find, bench.client.delete):
            with pytest.raises(BadName, match="is not the name of a ConfigMap: give a string"):
                await read(Config, name)
