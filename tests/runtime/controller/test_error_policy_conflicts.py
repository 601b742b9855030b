"""After a conflict: one live read, and a growing delay."""

import pytest

from levelset.aio import Backoff
from levelset.errors import Conflict, ServerFailed
from levelset.objects import Ref
from levelset.runtime.controller.error_policy import CONFLICT_BACKOFF, ConflictTracker
from levelset.testing.virtual_time import virtual
from tests.client.fixtures import fake_response
from tests.runtime.controller.context_environment import ConfigMap, Site, SiteStatus, config, open_environment, site

BLOG = Ref(Site, "blog", "default")


def test_an_object_is_stale_from_a_conflict_until_a_write_without_one() -> None:
    conflicts = ConflictTracker()
    conflicts.mark_stale(BLOG)
    assert BLOG in conflicts
    conflicts.clear_stale(BLOG)
    assert BLOG not in conflicts


def test_only_a_conflict_makes_an_object_stale() -> None:
    conflicts = ConflictTracker()
    conflicts.record_failed_write(BLOG, ServerFailed("no"))
    assert not conflicts.stale
    conflicts.record_failed_write(BLOG, Conflict("no"))
    assert list(conflicts.stale) == [BLOG]
    conflicts.record_failed_write(BLOG, ServerFailed("no"))
    assert not conflicts.stale


def test_the_wait_after_a_conflict_begins_small_and_grows_to_five_seconds() -> None:
    assert 0.04 < CONFLICT_BACKOFF.first * (1 - CONFLICT_BACKOFF.jitter) < 0.06
    assert (CONFLICT_BACKOFF.first, CONFLICT_BACKOFF.factor, CONFLICT_BACKOFF.cap) == (0.15, 1.5, 5.0)


def test_there_is_no_limit_to_the_number_of_conflicts() -> None:
    conflicts = ConflictTracker(Backoff(first=0.1, factor=1.5, cap=5.0, jitter=0.0))
    waits = [conflicts.next_delay(BLOG) for _ in range(1000)]
    assert waits[:3] == pytest.approx([0.1, 0.15, 0.225])
    assert waits[-1] == 5.0


def test_a_reconcile_without_a_conflict_resets_the_backoff() -> None:
    conflicts = ConflictTracker(Backoff(first=0.1, factor=1.5, cap=5.0, jitter=0.0))
    assert conflicts.next_delay(BLOG) < conflicts.next_delay(BLOG)
    conflicts.reset_delay(BLOG)
    assert conflicts.next_delay(BLOG) == pytest.approx(0.1)


def test_the_number_of_tracked_conflicts_is_bounded_and_the_oldest_is_dropped() -> None:
    conflicts = ConflictTracker(most=2)
    refs = [Ref(Site, name, "default") for name in "abc"]
    for ref in refs:
        conflicts.mark_stale(ref)
        conflicts.next_delay(ref)
    assert [ref in conflicts for ref in refs] == [False, True, True]


def test_an_object_that_is_gone_is_forgotten() -> None:
    conflicts = ConflictTracker()
    conflicts.mark_stale(BLOG)
    conflicts.next_delay(BLOG)
    conflicts.forget(BLOG)
    assert len(conflicts) == 0


@virtual
async def test_a_write_after_another_writer_is_a_conflict_and_marks_the_object_stale() -> None:
    async with open_environment() as env:
        blog = await env.start(site())
        await env.other.update(blog.with_spec(replicas=9))
        with pytest.raises(Conflict):
            await env.context(blog).set_status(blog, SiteStatus(phase="Up"))
        assert blog.ref in env.dependencies.conflicts


@virtual
async def test_a_stale_object_is_read_from_the_server_until_it_is_written() -> None:
    async with open_environment() as env:
        blog = await env.start(site())
        env.dependencies.conflicts.mark_stale(blog.ref)
        ctx = env.context(blog)
        found = await ctx.get(blog.ref)
        assert await ctx.find(Site, "blog") == found
        assert [call.verb for call in env.calls] == ["get", "get"]
        await ctx.set_status(found, SiteStatus(phase="Up"))
        env.calls.clear()
        assert (await ctx.get(blog.ref)).status == SiteStatus(phase="Up")
        assert env.calls == []


@virtual
async def test_a_reconcile_that_writes_nothing_leaves_the_object_stale() -> None:
    async with open_environment() as env:
        blog = await env.start(site())
        env.dependencies.conflicts.mark_stale(blog.ref)
        await env.context(blog).set_status(blog, blog.status)
        assert blog.ref in env.dependencies.conflicts


@virtual
async def test_a_write_that_fails_with_another_error_is_no_longer_stale() -> None:
    async with open_environment() as env:
        blog = await env.start(site())
        env.dependencies.conflicts.mark_stale(blog.ref)

        async def fail(*_: object) -> object:
            return fake_response(500, b"{}")

        env.faults.append(fail)
        with pytest.raises(ServerFailed):
            await env.context(blog).set_status(blog, SiteStatus(phase="Up"))
        assert blog.ref not in env.dependencies.conflicts


@virtual
async def test_a_conflict_of_a_child_makes_only_the_child_stale() -> None:
    async with open_environment() as env:
        blog = await env.start(site())
        child = await env.start(config(namespace="default", a="1"))
        await env.other.update(ConfigMap(metadata=child.metadata.__replace__(resource_version=""), data={"a": "2"}))
        with pytest.raises(Conflict):
            await env.context(blog).update(child.__replace__(data={"a": "3"}))
        assert child.ref in env.dependencies.conflicts
        assert blog.ref not in env.dependencies.conflicts
