"""A context: what it knows, what it reads, and what it has done by others."""

import logging
from typing import Any

import pytest

from levelset.client import Item, OnlyMetadata, view_of
from levelset.errors import ConfigError, NotCached, NotFound
from levelset.objects import Ref, keep
from levelset.objects.codec import encode
from levelset.runtime.cache import store
from levelset.runtime.controller.cache_lookup import Peeking
from levelset.runtime.controller.context import Context
from levelset.runtime.controller.context_dependencies import BoundLog
from levelset.runtime.controller.request import CHANGED, Reason, Request
from levelset.runtime.queue import LOW, Due
from levelset.runtime.watch import Apply
from tests.apiserver.clock import virtual
from tests.client.world import CONFIG_MAP, WEBSITE, Namespace
from tests.runtime.controller.desk import ConfigMap, Site, config, open_desk, site


@virtual
async def test_a_context_knows_its_object_its_request_and_the_time() -> None:
    async with open_desk() as desk:
        blog = await desk.start(site())
        ctx = desk.context(blog, Reason("changed"), attempt=2)
        assert ctx.object is blog
        assert (ctx.ref, ctx.reasons, ctx.attempt) == (blog.ref, (Reason("changed"),), 2)
        assert (ctx.client, ctx.cluster) == (desk.services.client, desk.cluster)
        assert ctx.now().tzinfo is not None
        assert repr(ctx) == "<Context of sites for Website/default/blog: it has changed>"


@virtual
async def test_each_look_has_an_id_of_its_own() -> None:
    async with open_desk() as desk:
        one, other = desk.context(site()), desk.context(site())
        assert one.reconcile_id == one.reconcile_id != other.reconcile_id


@virtual
async def test_a_context_says_whether_a_newer_request_waits() -> None:
    newer: set[Any] = set()
    async with open_desk(is_superseded=newer.__contains__) as desk:
        ctx = desk.context(site())
        assert not ctx.superseded
        newer.add(ctx.ref)
        assert ctx.superseded


@virtual
async def test_log_lines_name_the_controller_the_object_and_the_look(caplog: pytest.LogCaptureFixture) -> None:
    async with open_desk() as desk:
        ctx = desk.context(site())
        with caplog.at_level(logging.INFO):
            ctx.log.info("scaled to %d", 3, replicas=3)
        record: Any = caplog.records[-1]
        assert record.getMessage() == "scaled to 3"
        found = (record.controller, record.ref, record.reconcile_id, record.replicas)
        assert found == ("sites", ctx.ref, ctx.reconcile_id, 3)


def test_a_bound_logger_can_be_bound_further(caplog: pytest.LogCaptureFixture) -> None:
    log = BoundLog(logging.getLogger("levelset.tests"), {"a": 1}).bind(b=2)
    log.warning("x", extra={"more": 3}, exc_info=False)
    record: Any = caplog.records[-1]
    assert (record.a, record.b, record.more) == (1, 2, 3)


def test_a_field_that_a_record_has_already_does_not_take_its_place(caplog: pytest.LogCaptureFixture) -> None:
    log = BoundLog(logging.getLogger("levelset.tests"), {})
    log.warning("x", name="blog", message="y", args=1)
    record: Any = caplog.records[-1]
    assert (record.name, record.name_, record.message_, record.args_) == ("levelset.tests", "blog", "y", 1)


@virtual
async def test_reads_come_from_the_cache_and_show_own_writes() -> None:
    async with open_desk() as desk:
        blog = await desk.start(site())
        ctx = desk.context(blog)
        await ctx.update(blog.with_spec(replicas=2))
        desk.calls.clear()
        assert (await ctx.get(blog.ref)).spec.replicas == 2
        assert (await ctx.get(Site, "blog", namespace="default")).spec.replicas == 2
        assert (await ctx.get(WEBSITE, "blog")).tree["spec"]["replicas"] == 2
        assert (await ctx.get(OnlyMetadata(Site), "blog")).name == "blog"
        assert await ctx.find(Site, "none") is None
        assert [one.name for one in await ctx.list(Site)] == ["blog"]
        assert not [call for call in desk.calls if "websites" in call.path]


@virtual
async def test_what_is_not_there_is_not_found() -> None:
    async with open_desk() as desk:
        with pytest.raises(NotFound):
            await desk.context(site()).get(Ref(Site, "none", "default"))


@virtual
async def test_a_live_read_asks_the_server() -> None:
    async with open_desk() as desk:
        blog = await desk.start(site())
        found = await desk.context(blog).live(blog.ref)
        assert found is not None
        assert await desk.context(blog).live(Ref(Site, "none", "default")) is None
        assert len(desk.calls) == 2


@virtual
async def test_a_cached_read_is_what_the_cache_shows_this_moment() -> None:
    async with open_desk() as desk:
        blog = await desk.start(site())
        ctx = desk.context(blog)
        assert ctx.cached(blog.ref) is blog
        assert ctx.cached(Ref(Site, "blog")) is blog
        assert ctx.cached(Ref(Site, "none", "default")) is None
        made = await ctx.create(config(), owner=blog)
        assert ctx.cached(made.ref) is None
        await ctx.get(made.ref)
        assert ctx.cached(made.ref) is not None
        assert ctx.cached(Ref(CONFIG_MAP, "settings", "default")) is not None


@virtual
async def test_a_cached_read_of_a_kind_that_nobody_declared_is_refused() -> None:
    async with open_desk(OnlyMetadata(ConfigMap)) as desk:
        ctx = desk.context(site())
        with pytest.raises(NotCached, match="Namespace"):
            ctx.cached(Ref(Namespace, "default"))
        with pytest.raises(NotCached, match="metadata only"):
            ctx.cached(Ref(ConfigMap, "settings", "default"))


@virtual
async def test_a_cached_read_finds_what_was_declared_or_closed_meanwhile() -> None:
    async with open_desk() as desk:
        ctx = desk.context(site())
        handle = desk.cluster.declare(Namespace)
        await handle.wait_ready()
        assert ctx.cached(Ref(Namespace, "default")) is not None
        await handle.aclose()
        with pytest.raises(NotCached):
            ctx.cached(Ref(Namespace, "default"))


@virtual
async def test_stores_that_were_given_are_looked_at_first() -> None:
    async with open_desk() as desk:
        mine, writer = store(Site)
        writer.apply([Apply(Item(keep(encode(site("kept"))), view_of(Site)))])
        peeking = Peeking(desk.cluster, {WEBSITE: mine})
        found = peeking.get(Ref(Site, "kept", "default"))
        assert found is not None
        assert found.name == "kept"


@virtual
async def test_slow_work_is_done_outside_of_the_look_and_once_at_a_time() -> None:
    async with open_desk() as desk:
        done: list[str] = []

        async def work() -> None:
            done.append("work")

        ctx = desk.context(site())
        handle = ctx.background(work())
        assert ctx.background(work, name=handle.name) is handle
        await handle.wait()
        assert done == ["work"]
        assert handle.ref == ctx.ref


@virtual
async def test_an_object_that_is_gone_is_forgotten_by_all_services() -> None:
    async with open_desk() as desk:
        blog = await desk.start(site())
        services = desk.services
        services.conflicts.note(blog.ref)
        services.expectations.expect_gone(blog.ref, blog.ref, uid="u", now=0.0)
        services.hot_loops.note(blog.ref, is_own=True, now=0.0)
        services.forget(blog.ref)
        assert (len(services.conflicts), len(services.expectations), len(services.hot_loops)) == (0, 0, 0)


@virtual
async def test_the_request_of_what_the_scheduler_handed_out_is_made_once_and_for_who_asks() -> None:
    async with open_desk(ref_of=view_of(Site).ref_at) as desk:
        due: Due[str, Reason] = Due("default/blog", LOW, (CHANGED,), 0.0, 0.0)
        ctx = Context(None, due, desk.services)
        assert (ctx.reasons, ctx.asked) == ((CHANGED,), due)
        assert (ctx.request, ctx.attempt) == (Request(Ref(Site, "blog", "default"), (CHANGED,), LOW), 0)
        assert ctx.ref is ctx.ref is ctx.request.ref
        assert repr(ctx) == "<Context of sites for Website/default/blog: it has changed>"


@virtual
async def test_services_that_know_of_no_kind_say_so() -> None:
    async with open_desk() as desk:
        ctx = Context(None, Due("default/blog", LOW, (), 0.0, 0.0), desk.services)
        with pytest.raises(ConfigError, match="give open_services ref_of="):
            ctx.ref  # noqa: B018 -- asked for in vain


@virtual
async def test_a_context_for_an_object_that_is_gone_can_still_act() -> None:
    async with open_desk() as desk:
        ref = Ref(Site, "gone", "default")
        ctx = Context(None, Request(ref), desk.services)
        made = await ctx.apply(config(a="1"))
        ctx.record(ref, "Gone", "it is no more")
        assert made.namespace == "default"
        await desk.services.recorder.wait_idle()
        assert desk.services.recorder.written == 1
