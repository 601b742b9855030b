"""After a conflict: one live read, and a wait that grows."""

import pytest

from levelset.aio import Backoff
from levelset.errors import Conflict, ServerFailed
from levelset.objects import Ref
from levelset.runtime.controller.error_policy import BACKOFF, Conflicts
from tests.apiserver.clock import virtual
from tests.client.world import answering
from tests.runtime.controller.desk import ConfigMap, Site, SiteStatus, config, open_desk, site

BLOG = Ref(Site, "blog", "default")


def test_an_object_is_stale_from_a_conflict_until_a_write_that_is_not_refused() -> None:
    conflicts = Conflicts()
    conflicts.note(BLOG)
    assert BLOG in conflicts
    conflicts.settle(BLOG)
    assert BLOG not in conflicts


def test_only_a_conflict_makes_an_object_stale() -> None:
    conflicts = Conflicts()
    conflicts.learn(BLOG, ServerFailed("no"))
    assert not conflicts.stale
    conflicts.learn(BLOG, Conflict("no"))
    assert list(conflicts.stale) == [BLOG]
    conflicts.learn(BLOG, ServerFailed("no"))
    assert not conflicts.stale


def test_the_wait_after_a_conflict_begins_small_and_grows_to_five_seconds() -> None:
    assert 0.04 < BACKOFF.first * (1 - BACKOFF.jitter) < 0.06
    assert (BACKOFF.first, BACKOFF.factor, BACKOFF.cap) == (0.15, 1.5, 5.0)


def test_conflicts_are_waited_for_without_an_end() -> None:
    conflicts = Conflicts(Backoff(first=0.1, factor=1.5, cap=5.0, jitter=0.0))
    waits = [conflicts.delay(BLOG) for _ in range(1000)]
    assert waits[:3] == pytest.approx([0.1, 0.15, 0.225])
    assert waits[-1] == 5.0


def test_a_look_without_a_conflict_makes_the_next_wait_small_again() -> None:
    conflicts = Conflicts(Backoff(first=0.1, factor=1.5, cap=5.0, jitter=0.0))
    assert conflicts.delay(BLOG) < conflicts.delay(BLOG)
    conflicts.calm(BLOG)
    assert conflicts.delay(BLOG) == pytest.approx(0.1)


def test_only_so_many_conflicts_are_remembered_and_the_oldest_is_forgotten() -> None:
    conflicts = Conflicts(most=2)
    refs = [Ref(Site, name, "default") for name in "abc"]
    for ref in refs:
        conflicts.note(ref)
        conflicts.delay(ref)
    assert [ref in conflicts for ref in refs] == [False, True, True]


def test_an_object_that_is_gone_is_forgotten() -> None:
    conflicts = Conflicts()
    conflicts.note(BLOG)
    conflicts.delay(BLOG)
    conflicts.forget(BLOG)
    assert len(conflicts) == 0


@virtual
async def test_a_write_after_somebody_elses_is_a_conflict_and_marks_the_object_stale() -> None:
    async with open_desk() as desk:
        blog = await desk.start(site())
        await desk.other.update(blog.with_spec(replicas=9))
        with pytest.raises(Conflict):
            await desk.context(blog).set_status(blog, SiteStatus(phase="Up"))
        assert blog.ref in desk.services.conflicts


@virtual
async def test_a_stale_object_is_read_from_the_server_until_it_is_written() -> None:
    async with open_desk() as desk:
        blog = await desk.start(site())
        desk.services.conflicts.note(blog.ref)
        ctx = desk.context(blog)
        found = await ctx.get(blog.ref)
        assert await ctx.find(Site, "blog") == found
        assert [call.verb for call in desk.calls] == ["get", "get"]
        await ctx.set_status(found, SiteStatus(phase="Up"))
        desk.calls.clear()
        assert (await ctx.get(blog.ref)).status == SiteStatus(phase="Up")
        assert desk.calls == []


@virtual
async def test_a_look_that_writes_nothing_leaves_the_object_stale() -> None:
    async with open_desk() as desk:
        blog = await desk.start(site())
        desk.services.conflicts.note(blog.ref)
        await desk.context(blog).set_status(blog, blog.status)
        assert blog.ref in desk.services.conflicts


@virtual
async def test_a_write_that_fails_in_another_way_ends_the_staleness() -> None:
    async with open_desk() as desk:
        blog = await desk.start(site())
        desk.services.conflicts.note(blog.ref)

        async def fail(*_: object) -> object:
            return answering(500, b"{}")

        desk.faults.append(fail)
        with pytest.raises(ServerFailed):
            await desk.context(blog).set_status(blog, SiteStatus(phase="Up"))
        assert blog.ref not in desk.services.conflicts


@virtual
async def test_a_conflict_at_a_child_concerns_the_child_alone() -> None:
    async with open_desk() as desk:
        blog = await desk.start(site())
        child = await desk.start(config(namespace="default", a="1"))
        await desk.other.update(ConfigMap(metadata=child.metadata.__replace__(resource_version=""), data={"a": "2"}))
        with pytest.raises(Conflict):
            await desk.context(blog).update(child.__replace__(data={"a": "3"}))
        assert child.ref in desk.services.conflicts
        assert blog.ref not in desk.services.conflicts
