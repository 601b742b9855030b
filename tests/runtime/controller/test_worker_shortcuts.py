"""Looks that need nothing around the user's function take a shortcut, and nobody can tell them from others."""

import asyncio
from typing import Any

import pytest

from levelset.aio import Backoff
from levelset.errors import GiveUp, Retry
from levelset.runtime.controller import Context, remembers
from levelset.runtime.state import StateMap
from tests.apiserver.clock import virtual
from tests.runtime.controller.loops import Loop, Web, WebStatus, open_loop, web

WAYS = pytest.mark.parametrize("is_short", [True, False], ids=["the short way", "the long way"])


def relations(is_short: bool) -> tuple[Any, ...]:
    """A relation to a state is a reason to take the long way."""
    states: StateMap[Web, int, int] = StateMap()
    return () if is_short else (remembers(states),)


def webs(loop: Loop, step: Any, is_short: bool, **options: Any) -> Any:
    return loop.watching(step, *relations(is_short), **options)[1]


@WAYS
@virtual
async def test_who_gives_up_after_a_write_may_write_again_with_the_same_context(is_short: bool) -> None:
    contexts: list[Context] = []

    async def step(site: Web, ctx: Context) -> None:
        contexts.append(ctx)
        await ctx.set_status(site, WebStatus(seen=1))
        raise GiveUp("enough")

    async def told(site: Web, error: GiveUp, ctx: Context) -> None:
        contexts.append(ctx)
        assert (site is ctx.object, str(error)) == (True, "enough")
        await ctx.set_status(site, WebStatus(seen=2))

    async with open_loop() as loop:
        site = await loop.other.create(web())
        async with loop.run(webs(loop, step, is_short, gave_up=told)) as started:
            assert [one.result for one in started.history] == ["gave_up"]
            assert contexts[0] is contexts[1]
            assert (await loop.other.get(site.ref)).status == WebStatus(seen=2)


@WAYS
@virtual
async def test_what_is_raised_where_giving_up_is_told_counts_instead(is_short: bool) -> None:
    async def step(_: Web, __: Context) -> None:
        raise GiveUp("enough")

    async def told(_: Web, __: GiveUp, ___: Context) -> None:
        raise Retry("not so fast", seconds=1000)

    async with open_loop() as loop:
        await loop.other.create(web())
        async with loop.run(webs(loop, step, is_short, gave_up=told)) as started:
            assert [(one.result, str(one.error)) for one in started.history] == [("retry", "not so fast")]


@WAYS
@virtual
async def test_who_takes_too_long_over_giving_up_is_cancelled_and_the_worker_goes_on(is_short: bool) -> None:
    async def step(_: Web, __: Context) -> None:
        raise GiveUp("enough")

    async def told(_: Web, __: GiveUp, ___: Context) -> None:
        await asyncio.sleep(1000)

    async with open_loop() as loop:
        await loop.other.create(web())
        options: dict[str, Any] = {
            "gave_up": told,
            "timeout": 5.0,
            "concurrency": 1,
            "backoff": Backoff(first=60.0, cap=60.0, jitter=0.0),
        }
        async with loop.run(webs(loop, step, is_short, **options)) as started:
            await asyncio.sleep(70)
            assert [one.result for one in started.history] == ["timed_out", "timed_out"]


@WAYS
@virtual
async def test_each_look_runs_in_the_task_of_a_worker_and_may_have_timeouts_of_its_own(is_short: bool) -> None:
    names: list[str] = []

    async def step(_: Web, __: Context) -> None:
        task = asyncio.current_task()
        assert task is not None
        names.append(task.get_name())
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(1):
                await asyncio.sleep(10)

    async with open_loop() as loop:
        await loop.other.create(web())
        async with loop.run(webs(loop, step, is_short, concurrency=1)) as started:
            assert [one.result for one in started.history] == ["done"]
            assert [round(one.seconds) for one in started.history] == [1]
            assert len(names) == 1
            assert "worker 0" in names[0]


@virtual
async def test_a_running_controller_says_for_how_long_each_look_has_gone_on() -> None:
    async def step(_: Web, __: Context) -> None:
        await asyncio.sleep(100)

    async with open_loop() as loop:
        await loop.other.create(web("a"))
        _, controller = loop.watching(step)
        async with loop.run(controller, ready=False, grace=0.0) as started:
            await asyncio.sleep(50)
            await loop.other.create(web("b"))
            await asyncio.sleep(25)
            assert [round(age) for age in sorted(started.ages())] == [25, 75]
            assert started.stats().asked == 2
            await asyncio.sleep(200)
            assert started.ages() == []
