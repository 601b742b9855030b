"""Reconciles with and without a state map, which needs a step before the user's function, behave alike."""

import asyncio
from typing import Any

import pytest

from levelset.aio import Backoff
from levelset.errors import GiveUp, Retry
from levelset.runtime.controller import Context, remembers
from levelset.runtime.state import StateMap
from levelset.testing.virtual_time import virtual
from tests.runtime.controller.controller_loop import ControllerLoop, Web, WebStatus, open_loop, web

WAYS = pytest.mark.parametrize("has_states", [False, True], ids=["without a state map", "with a state map"])


def relations(has_states: bool) -> tuple[Any, ...]:
    states: StateMap[Web, int, int] = StateMap()
    return (remembers(states),) if has_states else ()


def webs(loop: ControllerLoop, step: Any, has_states: bool, **options: Any) -> Any:
    return loop.recording_controller(step, *relations(has_states), **options)[1]


@WAYS
@virtual
async def test_gave_up_may_write_with_the_same_context_after_a_write(has_states: bool) -> None:
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
        async with loop.run(webs(loop, step, has_states, gave_up=gave_up)) as started:
            assert [one.result for one in started.history] == ["gave_up"]
            assert contexts[0] is contexts[1]
            assert (await loop.other.get(site.ref)).status == WebStatus(seen=2)


@WAYS
@virtual
async def test_an_error_raised_by_gave_up_counts_instead(has_states: bool) -> None:
    async def step(_: Web, __: Context) -> None:
        raise GiveUp("enough")

    async def gave_up(_: Web, __: GiveUp, ___: Context) -> None:
        raise Retry("not so fast", seconds=1000)

    async with open_loop() as loop:
        await loop.other.create(web())
        async with loop.run(webs(loop, step, has_states, gave_up=gave_up)) as started:
            assert [(one.result, str(one.error)) for one in started.history] == [("retry", "not so fast")]


@WAYS
@virtual
async def test_gave_up_that_exceeds_the_timeout_is_cancelled_and_the_worker_continues(has_states: bool) -> None:
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
        async with loop.run(webs(loop, step, has_states, **options)) as started:
            await asyncio.sleep(70)
            assert [one.result for one in started.history] == ["timed_out", "timed_out"]


@WAYS
@virtual
async def test_each_reconcile_runs_in_the_task_of_a_worker_and_may_use_timeouts(has_states: bool) -> None:
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
        async with loop.run(webs(loop, step, has_states, concurrency=1)) as started:
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
