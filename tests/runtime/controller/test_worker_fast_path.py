"""Reconciles on the fast path behave like all others."""

import asyncio
from typing import Any

import pytest

from levelset.aio import Backoff
from levelset.errors import GiveUp, Retry
from levelset.runtime.controller import Context, remembers
from levelset.runtime.state import StateMap
from levelset.testing.virtual_time import virtual
from tests.runtime.controller.controller_loop import ControllerLoop, Web, WebStatus, open_loop, web

WAYS = pytest.mark.parametrize("is_fast", [True, False], ids=["the fast path", "the full path"])


def relations(is_fast: bool) -> tuple[Any, ...]:
    """A relation to a state is a reason to take the full path."""
    states: StateMap[Web, int, int] = StateMap()
    return () if is_fast else (remembers(states),)


def webs(loop: ControllerLoop, step: Any, is_fast: bool, **options: Any) -> Any:
    return loop.recording_controller(step, *relations(is_fast), **options)[1]


@WAYS
@virtual
async def test_gave_up_may_write_with_the_same_context_after_a_write(is_fast: bool) -> None:
    contexts: list[Context] = []

    async def step(site: Web, ctx: Context) -> None:
        contexts.append(ctx)
        await ctx.set_status(site, WebStatus(seen=1))
        raise GiveUp("enough")

    async def gave_up(site: Web, error: GiveUp, ctx: Context) -> None:
        contexts.append(ctx)
        assert (site is ctx.object, str(error)) == (True, "enough")
        await ctx.set_status(site, WebStatus(seen=2))

    async with open_loop() as loop:
        site = await loop.other.create(web())
        async with loop.run(webs(loop, step, is_fast, gave_up=gave_up)) as started:
            assert [one.result for one in started.history] == ["gave_up"]
            assert contexts[0] is contexts[1]
            assert (await loop.other.get(site.ref)).status == WebStatus(seen=2)


@WAYS
@virtual
async def test_an_error_raised_by_gave_up_counts_instead(is_fast: bool) -> None:
    async def step(_: Web, __: Context) -> None:
        raise GiveUp("enough")

    async def gave_up(_: Web, __: GiveUp, ___: Context) -> None:
        raise Retry("not so fast", seconds=1000)

    async with open_loop() as loop:
        await loop.other.create(web())
        async with loop.run(webs(loop, step, is_fast, gave_up=gave_up)) as started:
            assert [(one.result, str(one.error)) for one in started.history] == [("retry", "not so fast")]


@WAYS
@virtual
async def test_gave_up_that_exceeds_the_timeout_is_cancelled_and_the_worker_continues(is_fast: bool) -> None:
    async def step(_: Web, __: Context) -> None:
        raise GiveUp("enough")

    async def gave_up(_: Web, __: GiveUp, ___: Context) -> None:
        await asyncio.sleep(1000)

    async with open_loop() as loop:
        await loop.other.create(web())
        options: dict[str, Any] = {
            "gave_up": gave_up,
            "timeout": 5.0,
            "concurrency": 1,
            "backoff": Backoff(first=60.0, cap=60.0, jitter=0.0),
        }
        async with loop.run(webs(loop, step, is_fast, **options)) as started:
            await asyncio.sleep(70)
            assert [one.result for one in started.history] == ["timed_out", "timed_out"]


@WAYS
@virtual
async def test_each_reconcile_runs_in_the_task_of_a_worker_and_may_use_timeouts(is_fast: bool) -> None:
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
        async with loop.run(webs(loop, step, is_fast, concurrency=1)) as started:
            assert [one.result for one in started.history] == ["done"]
            assert [round(one.seconds) for one in started.history] == [1]
            assert len(names) == 1
            assert "worker 0" in names[0]


@virtual
async def test_a_running_controller_knows_the_age_of_each_running_reconcile() -> None:
    async def step(_: Web, __: Context) -> None:
        await asyncio.sleep(100)

    async with open_loop() as loop:
        await loop.other.create(web("a"))
        _, controller = loop.recording_controller(step)
        async with loop.run(controller, ready=False, grace=0.0) as started:
            await asyncio.sleep(50)
            await loop.other.create(web("b"))
            await asyncio.sleep(25)
            assert [round(age) for age in sorted(started.ages())] == [25, 75]
            assert started.stats().enqueued == 2
            await asyncio.sleep(200)
            assert started.ages() == []
