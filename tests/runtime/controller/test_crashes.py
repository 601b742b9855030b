"""Errors in the controller's own tasks, timers and callbacks: each is logged with its object, counted, and survived."""

import asyncio
import logging
from typing import Any

import pytest

from levelset.aio import Crashed
from levelset.errors import NotReady, Retry
from levelset.objects import Ref
from levelset.runtime.cache.subscribers import Replay
from levelset.runtime.controller import Action, Context, every, requeue, running, watches
from levelset.runtime.controller import request_queue as queue_module
from levelset.runtime.controller.worker import Slot
from levelset.runtime.queue import Scheduler
from levelset.testing.virtual_time import virtual
from tests.runtime.controller.controller_loop import ConfigMap, Web, child, open_loop, web


class CrashLog(list[Exception]):
    """The errors that were counted as crashes."""

    def __call__(self, error: Exception) -> None:
        self.append(error)


def fail_once(monkeypatch: pytest.MonkeyPatch, owner: Any, name: str, when: Any = lambda *_: True) -> list[int]:
    """Makes a function raise once; returns a list that says how often it may still do so."""
    left, original = [0], getattr(owner, name)

    def flaky(*args: Any, **kwargs: Any) -> Any:
        if left[0] and when(*args):
            left[0] -= 1
            raise OSError("injected")
        return original(*args, **kwargs)

    monkeypatch.setattr(owner, name, flaky)
    return left


@virtual
async def test_a_crash_in_the_bookkeeping_of_a_reconcile_is_logged_with_the_object_counted_and_retried(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def broken(failures: int) -> float:
        raise ZeroDivisionError("a user's backoff")

    async def step(one: Web, ctx: Context) -> Action | None:
        if one.name == "bad" and len(recorded.names) < 5:
            raise RuntimeError("not yet")
        return None

    crashes = CrashLog()
    async with open_loop() as loop:
        recorded, controller = loop.recording_controller(step, backoff=broken, concurrency=1)
        async with loop.run(controller, on_crash=crashes) as started:
            await loop.other.create(web("bad"))
            await loop.other.create(web("good"))
            await asyncio.sleep(300)
            assert recorded.names.count("bad") >= 2
            assert recorded.names.count("good") == 1
            assert started.history.of(Ref(Web, "bad", "default"))[-1].result == "done"
    assert crashes
    assert isinstance(crashes[0], ZeroDivisionError)
    logged = [one for one in caplog.records if one.levelno >= logging.ERROR]
    assert "Website/default/bad" in logged[0].getMessage()
    assert logged[0].exc_info is not None


@virtual
async def test_a_timer_of_the_scheduler_that_crashes_loses_no_delayed_request(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def step(_: Web, ctx: Context) -> Action | None:
        return requeue(5) if len(recorded.names) == 1 else None

    left, crashes = fail_once(monkeypatch, Scheduler, "_wake"), CrashLog()
    async with open_loop() as loop:
        recorded, controller = loop.recording_controller(step)
        async with loop.run(controller, on_crash=crashes):
            await loop.other.create(web())
            await asyncio.sleep(2)
            left[0] = 1
            await asyncio.sleep(60)
            assert (recorded.names, left) == (["blog", "blog"], [0])
    assert [str(one) for one in crashes] == ["injected"]


@virtual
async def test_a_worker_whose_queue_keeps_failing_is_restarted_with_backoff_and_ends_with_its_controller(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    left, crashes = fail_once(monkeypatch, Scheduler, "take_nowait"), CrashLog()
    async with open_loop() as loop:
        recorded, controller = loop.recording_controller(concurrency=2)
        async with loop.run(controller, on_crash=crashes) as started:
            left[0] = 8
            await loop.other.create(web())
            await asyncio.sleep(120)
            assert (recorded.names, len(crashes)) == (["blog"], 8)
            assert len(started.ages()) == 0


@virtual
async def test_a_mapper_that_raises_is_logged_with_the_changed_object_and_counted(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def to(one: ConfigMap) -> list[Ref[Web]]:
        if one.name == "bad":
            raise KeyError("no such label")
        return [Ref(Web, "blog", "default")]

    crashes = CrashLog()
    async with open_loop() as loop:
        await loop.other.create(web())
        recorded, controller = loop.recording_controller(None, watches(ConfigMap, to=to))
        async with loop.run(controller, on_crash=crashes) as started:
            recorded.clear()
            await loop.other.create(child("bad"))
            await loop.other.create(child("good"))
            await loop.settle(started)
            assert recorded.names == ["blog"]
    assert [type(one) for one in crashes] == [KeyError]
    assert any("bad" in one.getMessage() for one in caplog.records if one.levelno >= logging.ERROR)


@virtual
async def test_a_periodic_timer_that_crashes_is_restarted(monkeypatch: pytest.MonkeyPatch) -> None:
    left, crashes, calls = [1], CrashLog(), [0]
    original = queue_module.enqueue_all

    async def flaky(*args: Any) -> None:
        calls[0] += 1
        if left[0]:
            left[0] -= 1
            raise OSError("injected")
        await original(*args)

    monkeypatch.setattr(queue_module, "enqueue_all", flaky)
    async with open_loop() as loop:
        await loop.other.create(web())
        recorded, controller = loop.recording_controller(None, every(60))
        async with loop.run(controller, on_crash=crashes):
            recorded.clear()
            await asyncio.sleep(150)
            assert (calls, recorded.names) == ([2], ["blog"])
    assert len(crashes) == 1


@virtual
async def test_a_timeout_ends_its_reconcile_although_that_of_another_could_not_be_ended(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    unhandled: list[str] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: unhandled.append(str(context["exception"])))

    async def step(one: Web, _: Context) -> None:
        if recorded.names.count(one.name) == 1:
            await asyncio.sleep(20)

    left = fail_once(monkeypatch, Slot, "expire")
    async with open_loop() as loop:
        await loop.other.create(web("a"))
        await loop.other.create(web("b"))
        recorded, controller = loop.recording_controller(step, timeout=5.0, concurrency=2)
        async with loop.run(controller, ready=False):
            left[0] = 1
            await asyncio.sleep(60)
            assert sorted(recorded.names) == ["a", "b", "b"] or sorted(recorded.names) == ["a", "a", "b"]
    assert unhandled == ["injected"]


@virtual
async def test_initial_objects_that_cannot_be_replayed_end_the_controller_with_the_cause(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with open_loop() as loop:
        await loop.other.create(web())
        async with loop.cluster.declare(Web) as handle:
            await handle.wait_ready(10)
            left = fail_once(monkeypatch, Replay, "take")
            left[0] = 1
            _, controller = loop.recording_controller()

            async def run() -> None:
                async with running(controller, loop.cluster) as started:
                    await started.wait_stopped()

            with pytest.raises(Crashed) as raised:
                async with asyncio.timeout(60):
                    await run()
    assert isinstance(raised.value.exceptions[0], NotReady)
    assert "injected" in str(raised.value.exceptions[0])


@virtual
async def test_background_work_that_awaits_something_cancelled_fails_alone(caplog: pytest.LogCaptureFixture) -> None:
    async def work() -> None:
        future = asyncio.get_running_loop().create_future()
        future.cancel()
        await future

    async def step(_: Web, ctx: Context) -> None:
        if len(recorded.names) == 1:
            ctx.background(work())

    async with open_loop() as loop:
        recorded, controller = loop.recording_controller(step)
        async with loop.run(controller):
            await loop.other.create(web("a"))
            await asyncio.sleep(1)
            await loop.other.create(web("b"))
            await asyncio.sleep(1)
            assert "b" in recorded.names
    assert any("Website/default/a" in one.getMessage() for one in caplog.records if one.levelno >= logging.WARNING)


@virtual
async def test_a_reconciler_that_raises_anything_ends_only_its_reconcile() -> None:
    raised: list[BaseException] = [Retry("later"), asyncio.CancelledError(), RecursionError(), MemoryError(), OSError()]
    count = len(raised)

    async def step(_: Web, __: Context) -> None:
        if raised:
            raise raised.pop(0)

    async with open_loop() as loop:
        recorded, controller = loop.recording_controller(step, backoff=lambda _: 1.0)
        async with loop.run(controller):
            await loop.other.create(web())
            await asyncio.sleep(300)
    assert len(recorded.names) == count + 1
