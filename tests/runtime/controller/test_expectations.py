"""Expectations: neither a slow cache nor a lost response leads to duplicate children."""

from typing import Any

import pytest

from levelset.aio import timing
from levelset.client import Call, OnlyMetadata, Response, Send
from levelset.errors import AlreadyExists, Invalid, TimedOut, Unreachable
from levelset.objects import Ref
from levelset.runtime.cache import Index, by_owner
from levelset.runtime.controller.expectations import Expectation, Expectations, IsObserved
from levelset.testing.virtual_time import virtual
from tests.client.fixtures import CONFIG_MAP
from tests.runtime.controller.context_environment import (
    ConfigMap,
    ContextEnvironment,
    Site,
    config,
    open_environment,
    site,
)

OWNER = Ref(Site, "blog", "default")
CHILD = Ref(ConfigMap, "c-1", "default")
OTHER = Ref(ConfigMap, "c-2", "default")


def never(_: Expectation) -> bool:
    return False


def children(expectations: Expectations, shows: IsObserved = never, now: float = 0.0) -> list[Ref[Any]]:
    return [one.child for one in expectations.pending(OWNER, shows, now=now)]


def test_a_created_child_is_expected_until_the_cache_shows_it() -> None:
    expectations = Expectations()
    expectations.expect_created(OWNER, CHILD, uid="u1", version="5", now=0.0)
    expectations.expect_created(OWNER, OTHER, uid="u2", version="6", now=0.0)
    assert children(expectations) == [CHILD, OTHER]
    assert children(expectations, lambda one: one.version == "5") == [OTHER]
    assert children(expectations) == [OTHER]
    assert children(expectations, lambda _: True) == []
    assert len(expectations) == 0


def test_an_expectation_that_is_never_met_expires() -> None:
    expectations = Expectations(timeout=300.0)
    expectations.expect_deleted(OWNER, CHILD, uid="u1", now=0.0)
    assert children(expectations, now=299.0) == [CHILD]
    assert children(expectations, now=301.0) == []


def test_expectations_of_owners_that_are_never_read_expire_too() -> None:
    expectations = Expectations(timeout=300.0, unknown_create_timeout=60.0)
    for number in range(1000):
        owner = Ref(Site, f"site-{number}", "default")
        expectations.expect_created(owner, CHILD, uid="u1", version="5", now=float(number))
        expectations.record_unknown_create(owner, CONFIG_MAP, now=float(number))
    assert len(expectations) == 300


def test_a_recreated_child_is_expected_in_addition() -> None:
    expectations = Expectations()
    expectations.expect_deleted(OWNER, CHILD, uid="u1", now=0.0)
    expectations.expect_created(OWNER, CHILD, uid="u2", version="6", now=0.0)
    assert children(expectations) == [CHILD, CHILD]


def test_an_unknown_create_concerns_one_kind_for_a_while() -> None:
    expectations = Expectations(unknown_create_timeout=60.0)
    expectations.record_unknown_create(OWNER, CONFIG_MAP, now=0.0)
    assert expectations.has_unknown_create(OWNER, CONFIG_MAP, now=59.0)
    assert not expectations.has_unknown_create(OWNER, OWNER.gvk, now=59.0)
    assert not expectations.has_unknown_create(OWNER, CONFIG_MAP, now=61.0)
    assert len(expectations) == 0


def test_the_expectations_of_an_owner_that_is_gone_are_dropped() -> None:
    expectations = Expectations()
    expectations.expect_created(OWNER, CHILD, uid="u1", version="5", now=0.0)
    expectations.record_unknown_create(OWNER, CONFIG_MAP, now=0.0)
    expectations.forget(OWNER)
    assert len(expectations) == 0


def nameless() -> ConfigMap:
    return ConfigMap().with_metadata(generate_name="c-")


async def ensure(env: ContextEnvironment, blog: Site, wanted: int) -> None:
    """A reconciler that creates children with `generateName`."""
    ctx = env.context(blog)
    for _ in range(wanted - len(await ctx.children(ConfigMap))):
        await ctx.create(nameless(), owner=blog)


@virtual
async def test_children_that_were_just_created_are_not_created_again() -> None:
    async with open_environment() as env:
        blog = await env.start(site())
        for _ in range(5):
            await ensure(env, blog, 3)
        assert len(await env.other.list(ConfigMap, namespace="default")) == 3


@virtual
async def test_a_child_whose_create_response_was_lost_is_not_created_again() -> None:
    async with open_environment() as env:
        blog = await env.start(site())

        async def lose_answers(call: Call, send: Send) -> Response | None:
            if call.verb == "create":
                await send(call)
                raise TimedOut(f"{call.words}: no answer")
            return None

        env.faults.append(lose_answers)
        with pytest.raises(TimedOut):
            await ensure(env, blog, 1)
        env.faults.clear()
        await ensure(env, blog, 1)
        assert len(await env.other.list(ConfigMap, namespace="default")) == 1


@virtual
async def test_a_cancelled_create_counts_as_unknown() -> None:
    async with open_environment() as env:
        blog = await env.start(site())

        async def hang(call: Call, send: Send) -> Response | None:
            if call.verb == "create":
                await send(call)
                await timing.sleep(1000)
            return None

        env.faults.append(hang)
        with pytest.raises(TimeoutError):
            async with timing.within(1.0):
                await ensure(env, blog, 1)
        env.faults.clear()
        await ensure(env, blog, 1)
        assert len(await env.other.list(ConfigMap, namespace="default")) == 1


@virtual
async def test_a_create_that_was_never_sent_does_not_count_as_unknown() -> None:
    async with open_environment() as env:
        blog = await env.start(site())

        async def refuse(*_: object) -> None:
            raise Unreachable("connection refused", is_sent=False)

        env.faults.append(refuse)
        with pytest.raises(Unreachable):
            await env.context(blog).create(nameless(), owner=blog)
        assert len(env.dependencies.expectations) == 0


@virtual
async def test_a_rejected_create_does_not_count_as_unknown() -> None:
    async with open_environment() as env:
        blog = await env.start(site())
        with pytest.raises(Invalid):
            await env.context(blog).create(config("Not A Name"), owner=blog)
        assert len(env.dependencies.expectations) == 0


@virtual
async def test_a_child_whose_name_is_taken_is_read_from_the_server_next() -> None:
    async with open_environment() as env:
        blog = await env.start(site())
        await env.other.create(config(namespace="default"))
        ctx = env.context(blog)
        with pytest.raises(AlreadyExists):
            await ctx.create(config(), owner=blog)
        assert Ref(ConfigMap, "settings", "default") in env.dependencies.conflicts


@virtual
async def test_expecting_lists_the_children_that_the_cache_does_not_show_yet() -> None:
    async with open_environment() as env:
        blog = await env.start(site())
        ctx = env.context(blog)
        made = await ctx.create(nameless(), owner=blog)
        assert list(ctx.expecting) == [made.ref]
        assert (await ctx.get(made.ref)).metadata.uid == made.metadata.uid
        assert list(ctx.expecting) == []
        await ctx.delete(made)
        assert list(ctx.expecting) == [made.ref]
        assert await ctx.find(made.ref) is None
        assert list(ctx.expecting) == []


@virtual
async def test_a_child_that_was_deleted_before_the_cache_showed_it_is_not_expected_forever() -> None:
    async with open_environment() as env:
        blog = await env.start(site())
        ctx = env.context(blog)
        made = await ctx.create(nameless(), owner=blog)
        await env.other.delete(made.ref)
        await env.other.create(config("later", namespace="default"))
        await env.cluster.get(ConfigMap, "later", read="consistent")
        assert list(ctx.expecting) == []


@virtual
async def test_a_child_that_is_not_watched_is_not_expected() -> None:
    async with open_environment(OnlyMetadata(ConfigMap)) as env:
        blog = await env.start(site())
        ctx = env.context(blog)
        await ctx.create({"apiVersion": "v1", "kind": "Secret", "metadata": {"generateName": "s-"}}, owner=blog)
        assert list(ctx.expecting) == []
        made = await ctx.create(nameless(), owner=blog)
        assert list(ctx.expecting) == [made.ref]


@pytest.mark.parametrize("indexes", [(), (by_owner(),)], ids=["by a scan", "by an index"])
@virtual
async def test_children_are_matched_by_the_uid_of_the_owner(indexes: tuple[Index[Any], ...]) -> None:
    async with open_environment() as env:
        env.cluster.declare(ConfigMap, indexes=indexes)
        blog = await env.start(site())
        shop = await env.start(site("shop"))
        mine = await env.context(blog).create(config("mine"), owner=blog)
        await env.context(shop).create(config("theirs"), owner=shop)
        await env.other.create(config("nobodys", namespace="default"))
        ctx = env.context(blog)
        assert [one.ref for one in await ctx.children(ConfigMap)] == [mine.ref]
        assert [one.name for one in await ctx.children(ConfigMap, owner=shop)] == ["theirs"]
