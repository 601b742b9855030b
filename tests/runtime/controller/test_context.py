"""Contexts: their attributes, reads, events and background work."""

import logging
from typing import Any

import pytest

from levelset.client import Item, OnlyMetadata, view_of
from levelset.errors import ConfigError, NotCached, NotFound
from levelset.objects import Ref, decode_cached
from levelset.objects.codec import encode
from levelset.runtime.cache import store
from levelset.runtime.controller.cache_lookup import CacheLookup
from levelset.runtime.controller.context import Context
from levelset.runtime.controller.context_dependencies import BoundLogger
from levelset.runtime.controller.request import CHANGED, Reason, Request
from levelset.runtime.queue import LOW, Due
from levelset.runtime.watch import Apply
from levelset.testing.virtual_time import virtual
from tests.client.fixtures import CONFIG_MAP, WEBSITE, Namespace
from tests.runtime.controller.context_environment import ConfigMap, Site, config, open_environment, site


@virtual
async def test_a_context_knows_its_object_its_request_and_the_time() -> None:
    async with open_environment() as env:
        blog = await env.start(site())
        ctx = env.context(blog, Reason("changed"), attempt=2)
        assert ctx.object is blog
        assert (ctx.ref, ctx.reasons, ctx.attempt) == (blog.ref, (Reason("changed"),), 2)
        assert (ctx.client, ctx.cluster) == (env.dependencies.client, env.cluster)
        assert ctx.now().tzinfo is not None
        assert repr(ctx) == "<Context of sites for Website/default/blog: it has changed>"


@virtual
async def test_each_reconcile_has_its_own_id() -> None:
    async with open_environment() as env:
        one, other = env.context(site()), env.context(site())
        assert one.reconcile_id == one.reconcile_id != other.reconcile_id


@virtual
async def test_a_context_knows_whether_a_newer_request_is_queued() -> None:
    newer: set[Any] = set()
    async with open_environment(is_superseded=newer.__contains__) as env:
        ctx = env.context(site())
        assert not ctx.superseded
        newer.add(ctx.ref)
        assert ctx.superseded


@virtual
async def test_log_lines_carry_the_controller_the_object_and_the_reconcile_id(caplog: pytest.LogCaptureFixture) -> None:
    async with open_environment() as env:
        ctx = env.context(site())
        with caplog.at_level(logging.INFO):
            ctx.log.info("scaled to %d", 3, replicas=3)
        record: Any = caplog.records[-1]
        assert record.getMessage() == "scaled to 3"
        found = (record.controller, record.ref, record.reconcile_id, record.replicas)
        assert found == ("sites", ctx.ref, ctx.reconcile_id, 3)


def test_a_bound_logger_can_be_bound_further(caplog: pytest.LogCaptureFixture) -> None:
    log = BoundLogger(logging.getLogger("levelset.tests"), {"a": 1}).bind(b=2)
    log.warning("x", extra={"more": 3}, exc_info=False)
    record: Any = caplog.records[-1]
    assert (record.a, record.b, record.more) == (1, 2, 3)


def test_a_log_field_does_not_overwrite_an_attribute_of_the_record(caplog: pytest.LogCaptureFixture) -> None:
    log = BoundLogger(logging.getLogger("levelset.tests"), {})
    log.warning("x", name="blog", message="y", args=1)
    record: Any = caplog.records[-1]
    assert (record.name, record.name_, record.message_, record.args_) == ("levelset.tests", "blog", "y", 1)


@virtual
async def test_reads_come_from_the_cache_and_show_own_writes() -> None:
    async with open_environment() as env:
        blog = await env.start(site())
        ctx = env.context(blog)
        await ctx.update(blog.with_spec(replicas=2))
        env.calls.clear()
        assert (await ctx.get(blog.ref)).spec.replicas == 2
        assert (await ctx.get(Site, "blog", namespace="default")).spec.replicas == 2
        assert (await ctx.get(WEBSITE, "blog")).tree["spec"]["replicas"] == 2
        assert (await ctx.get(OnlyMetadata(Site), "blog")).name == "blog"
        assert await ctx.find(Site, "none") is None
        assert [one.name for one in await ctx.list(Site)] == ["blog"]
        assert not [call for call in env.calls if "websites" in call.path]


@virtual
async def test_get_raises_not_found_and_find_returns_none_for_a_missing_object() -> None:
    async with open_environment() as env:
        with pytest.raises(NotFound):
            await env.context(site()).get(Ref(Site, "none", "default"))


@virtual
async def test_a_live_read_goes_to_the_server() -> None:
    async with open_environment() as env:
        blog = await env.start(site())
        found = await env.context(blog).live(blog.ref)
        assert found is not None
        assert await env.context(blog).live(Ref(Site, "none", "default")) is None
        assert len(env.calls) == 2


@virtual
async def test_a_cached_read_returns_the_current_state_of_the_cache() -> None:
    async with open_environment() as env:
        blog = await env.start(site())
        ctx = env.context(blog)
        assert ctx.cached(blog.ref) is blog
        assert ctx.cached(Ref(Site, "blog")) is blog
        assert ctx.cached(Ref(Site, "none", "default")) is None
        made = await ctx.create(config(), owner=blog)
        assert ctx.cached(made.ref) is None
        await ctx.get(made.ref)
        assert ctx.cached(made.ref) is not None
        assert ctx.cached(Ref(CONFIG_MAP, "settings", "default")) is not None


@virtual
async def test_a_cached_read_of_an_undeclared_kind_raises_not_cached() -> None:
    async with open_environment(OnlyMetadata(ConfigMap)) as env:
        ctx = env.context(site())
        with pytest.raises(NotCached, match="Namespace"):
            ctx.cached(Ref(Namespace, "default"))
        with pytest.raises(NotCached, match="metadata only"):
            ctx.cached(Ref(ConfigMap, "settings", "default"))


@virtual
async def test_a_cached_read_notices_informers_that_were_declared_or_closed_meanwhile() -> None:
    async with open_environment() as env:
        ctx = env.context(site())
        handle = env.cluster.declare(Namespace)
        await handle.wait_ready()
        assert ctx.cached(Ref(Namespace, "default")) is not None
        await handle.aclose()
        with pytest.raises(NotCached):
            ctx.cached(Ref(Namespace, "default"))


@virtual
async def test_given_stores_are_read_first() -> None:
    async with open_environment() as env:
        mine, writer = store(Site)
        writer.apply([Apply(Item(decode_cached(encode(site("stored"))), view_of(Site)))])
        cache_lookup = CacheLookup(env.cluster, {WEBSITE: mine})
        found = cache_lookup.get(Ref(Site, "stored", "default"))
        assert found is not None
        assert found.name == "stored"


@virtual
async def test_background_work_runs_outside_of_the_reconcile_and_once_at_a_time() -> None:
    async with open_environment() as env:
        done: list[str] = []

        async def work() -> None:
            done.append("work")

        ctx = env.context(site())
        handle = ctx.background(work())
        assert ctx.background(work, name=handle.name) is handle
        await handle.wait()
        assert done == ["work"]
        assert handle.ref == ctx.ref


@virtual
async def test_everything_tracked_about_an_object_is_dropped_when_it_is_gone() -> None:
    async with open_environment() as env:
        blog = await env.start(site())
        dependencies = env.dependencies
        dependencies.conflicts.mark_stale(blog.ref)
        dependencies.expectations.expect_deleted(blog.ref, blog.ref, uid="u", now=0.0)
        dependencies.hot_loops.record_write(blog.ref, is_own=True, now=0.0)
        dependencies.forget(blog.ref)
        assert (len(dependencies.conflicts), len(dependencies.expectations), len(dependencies.hot_loops)) == (0, 0, 0)


@virtual
async def test_the_request_of_a_queue_entry_is_made_once_and_only_when_it_is_read() -> None:
    keys: list[str] = []

    def ref_of(key: str) -> Ref[Site]:
        keys.append(key)
        return view_of(Site).ref_at(key)

    async with open_environment(ref_of=ref_of) as env:
        due: Due[str, Reason] = Due("default/blog", LOW, (CHANGED,), 0.0, 0.0)
        ctx = Context(None, due, env.dependencies)
        assert (ctx.reasons, keys) == ((CHANGED,), [])
        assert (ctx.request, ctx.attempt) == (Request(Ref(Site, "blog", "default"), (CHANGED,), LOW), 0)
        assert ctx.ref is ctx.ref is ctx.request.ref
        assert keys == ["default/blog"]
        assert repr(ctx) == "<Context of sites for Website/default/blog: it has changed>"


@virtual
async def test_dependencies_without_ref_of_raise_a_config_error() -> None:
    async with open_environment() as env:
        ctx = Context(None, Due("default/blog", LOW, (), 0.0, 0.0), env.dependencies)
        with pytest.raises(ConfigError, match="pass ref_of="):
            ctx.ref  # noqa: B018 -- reading it raises


@virtual
async def test_a_context_for_an_object_that_is_gone_can_still_write() -> None:
    async with open_environment() as env:
        ref = Ref(Site, "gone", "default")
        ctx = Context(None, Request(ref), env.dependencies)
        made = await ctx.apply(config(a="1"))
        ctx.record(ref, "Gone", "it is no more")
        assert made.namespace == "default"
        await env.dependencies.recorder.wait_idle()
        assert env.dependencies.recorder.written == 1
