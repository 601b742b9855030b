"""Expectations: a slow cache, or an answer that never came, makes no duplicates."""

from typing import Any

import pytest

from levelset.aio import timing
from levelset.client import Answer, Call, OnlyMetadata, Send
from levelset.errors import AlreadyExists, Invalid, TimedOut, Unreachable
from levelset.objects import Ref
from levelset.runtime.cache import Index, by_owner
from levelset.runtime.controller.expectations import Expectations, Expected, Shows
from tests.apiserver.clock import virtual
from tests.client.world import CONFIG_MAP
from tests.runtime.controller.desk import ConfigMap, Desk, Site, config, open_desk, site

OWNER = Ref(Site, "blog", "default")
CHILD = Ref(ConfigMap, "c-1", "default")
OTHER = Ref(ConfigMap, "c-2", "default")


def never(_: Expected) -> bool:
    return False


def children(expectations: Expectations, shows: Shows = never, now: float = 0.0) -> list[Ref[Any]]:
    return [one.child for one in expectations.pending(OWNER, shows, now=now)]


def test_what_was_made_is_expected_until_the_cache_shows_it() -> None:
    expectations = Expectations()
    expectations.expect_made(OWNER, CHILD, uid="u1", version="5", now=0.0)
    expectations.expect_made(OWNER, OTHER, uid="u2", version="6", now=0.0)
    assert children(expectations) == [CHILD, OTHER]
    assert children(expectations, lambda one: one.version == "5") == [OTHER]
    assert children(expectations) == [OTHER]
    assert children(expectations, lambda _: True) == []
    assert len(expectations) == 0


def test_an_expectation_that_does_not_come_true_is_given_up_in_the_end() -> None:
    expectations = Expectations(patience=300.0)
    expectations.expect_gone(OWNER, CHILD, uid="u1", now=0.0)
    assert children(expectations, now=299.0) == [CHILD]
    assert children(expectations, now=301.0) == []


def test_what_nobody_asks_about_is_forgotten_all_the_same() -> None:
    expectations = Expectations(patience=300.0, doubt=60.0)
    for number in range(1000):
        owner = Ref(Site, f"site-{number}", "default")
        expectations.expect_made(owner, CHILD, uid="u1", version="5", now=float(number))
        expectations.be_in_doubt(owner, CONFIG_MAP, now=float(number))
    assert len(expectations) == 300


def test_a_child_that_was_made_anew_is_expected_besides() -> None:
    expectations = Expectations()
    expectations.expect_gone(OWNER, CHILD, uid="u1", now=0.0)
    expectations.expect_made(OWNER, CHILD, uid="u2", version="6", now=0.0)
    assert children(expectations) == [CHILD, CHILD]


def test_an_owner_is_in_doubt_about_one_kind_for_a_while() -> None:
    expectations = Expectations(doubt=60.0)
    expectations.be_in_doubt(OWNER, CONFIG_MAP, now=0.0)
    assert expectations.is_in_doubt(OWNER, CONFIG_MAP, now=59.0)
    assert not expectations.is_in_doubt(OWNER, OWNER.gvk, now=59.0)
    assert not expectations.is_in_doubt(OWNER, CONFIG_MAP, now=61.0)
    assert len(expectations) == 0


def test_an_owner_that_is_gone_expects_nothing() -> None:
    expectations = Expectations()
    expectations.expect_made(OWNER, CHILD, uid="u1", version="5", now=0.0)
    expectations.be_in_doubt(OWNER, CONFIG_MAP, now=0.0)
    expectations.forget(OWNER)
    assert len(expectations) == 0


def nameless() -> ConfigMap:
    return ConfigMap().with_metadata(generate_name="c-")


async def ensure(desk: Desk, blog: Site, wanted: int) -> None:
    """A reconciler that makes children whose names the server makes up."""
    ctx = desk.context(blog)
    for _ in range(wanted - len(await ctx.children(ConfigMap))):
        await ctx.create(nameless(), owner=blog)


@virtual
async def test_children_that_were_made_a_moment_ago_are_not_made_again() -> None:
    async with open_desk() as desk:
        blog = await desk.start(site())
        for _ in range(5):
            await ensure(desk, blog, 3)
        assert len(await desk.other.list(ConfigMap, namespace="default")) == 3


@virtual
async def test_a_child_whose_answer_never_came_is_not_made_again() -> None:
    async with open_desk() as desk:
        blog = await desk.start(site())

        async def lose_answers(call: Call, send: Send) -> Answer | None:
            if call.verb == "create":
                await send(call)
                raise TimedOut(f"{call.words}: no answer")
            return None

        desk.faults.append(lose_answers)
        with pytest.raises(TimedOut):
            await ensure(desk, blog, 1)
        desk.faults.clear()
        await ensure(desk, blog, 1)
        assert len(await desk.other.list(ConfigMap, namespace="default")) == 1


@virtual
async def test_a_create_that_was_cancelled_leaves_its_owner_in_doubt() -> None:
    async with open_desk() as desk:
        blog = await desk.start(site())

        async def hang(call: Call, send: Send) -> Answer | None:
            if call.verb == "create":
                await send(call)
                await timing.sleep(1000)
            return None

        desk.faults.append(hang)
        with pytest.raises(TimeoutError):
            async with timing.within(1.0):
                await ensure(desk, blog, 1)
        desk.faults.clear()
        await ensure(desk, blog, 1)
        assert len(await desk.other.list(ConfigMap, namespace="default")) == 1


@virtual
async def test_a_create_that_cannot_have_reached_the_server_leaves_no_doubt() -> None:
    async with open_desk() as desk:
        blog = await desk.start(site())

        async def refuse(*_: object) -> None:
            raise Unreachable("refused", is_sent=False)

        desk.faults.append(refuse)
        with pytest.raises(Unreachable):
            await desk.context(blog).create(nameless(), owner=blog)
        assert len(desk.services.expectations) == 0


@virtual
async def test_a_create_that_was_refused_leaves_no_doubt() -> None:
    async with open_desk() as desk:
        blog = await desk.start(site())
        with pytest.raises(Invalid):
            await desk.context(blog).create(config("Not A Name"), owner=blog)
        assert len(desk.services.expectations) == 0


@virtual
async def test_a_child_whose_name_is_taken_is_a_conflict_and_is_read_from_the_server_next() -> None:
    async with open_desk() as desk:
        blog = await desk.start(site())
        await desk.other.create(config(namespace="default"))
        ctx = desk.context(blog)
        with pytest.raises(AlreadyExists):
            await ctx.create(config(), owner=blog)
        assert Ref(ConfigMap, "settings", "default") in desk.services.conflicts


@virtual
async def test_a_context_says_which_children_the_cache_does_not_show_yet() -> None:
    async with open_desk() as desk:
        blog = await desk.start(site())
        ctx = desk.context(blog)
        made = await ctx.create(nameless(), owner=blog)
        assert list(ctx.expecting) == [made.ref]
        assert (await ctx.get(made.ref)).metadata.uid == made.metadata.uid
        assert list(ctx.expecting) == []
        await ctx.delete(made)
        assert list(ctx.expecting) == [made.ref]
        assert await ctx.find(made.ref) is None
        assert list(ctx.expecting) == []


@virtual
async def test_a_child_that_was_deleted_before_the_cache_showed_it_is_not_expected_for_ever() -> None:
    async with open_desk() as desk:
        blog = await desk.start(site())
        ctx = desk.context(blog)
        made = await ctx.create(nameless(), owner=blog)
        await desk.other.delete(made.ref)
        await desk.other.create(config("later", namespace="default"))
        await desk.cluster.get(ConfigMap, "later", read="consistent")
        assert list(ctx.expecting) == []


@virtual
async def test_a_child_that_nobody_watches_is_not_expected() -> None:
    async with open_desk(OnlyMetadata(ConfigMap)) as desk:
        blog = await desk.start(site())
        ctx = desk.context(blog)
        await ctx.create({"apiVersion": "v1", "kind": "Secret", "metadata": {"generateName": "s-"}}, owner=blog)
        assert list(ctx.expecting) == []
        made = await ctx.create(nameless(), owner=blog)
        assert list(ctx.expecting) == [made.ref]


@pytest.mark.parametrize("indexes", [(), (by_owner(),)], ids=["by looking at all", "by an index"])
@virtual
async def test_children_are_those_of_this_very_owner(indexes: tuple[Index[Any], ...]) -> None:
    async with open_desk() as desk:
        desk.cluster.declare(ConfigMap, indexes=indexes)
        blog = await desk.start(site())
        shop = await desk.start(site("shop"))
        mine = await desk.context(blog).create(config("mine"), owner=blog)
        await desk.context(shop).create(config("theirs"), owner=shop)
        await desk.other.create(config("nobodys", namespace="default"))
        ctx = desk.context(blog)
        assert [one.ref for one in await ctx.children(ConfigMap)] == [mine.ref]
        assert [one.name for one in await ctx.children(ConfigMap, owner=shop)] == ["theirs"]
