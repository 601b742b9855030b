"""A supervisor sees every task end, and decides about crashes."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

import pytest

from levelset.aio import Crash, Crashed, Restart, Supervisor, Unstopped, Verdict, timing

Work = Coroutine[Any, Any, object] | Callable[[], Coroutine[Any, Any, object]]


async def forever() -> None:
    await asyncio.Event().wait()


async def crash(after: float = 1.0, error: Exception | None = None) -> None:
    await timing.sleep(after)
    raise error or LookupError("crashed")


async def supervise(tasks: Supervisor, body: Callable[[], Awaitable[object]] | None = None, **works: Work) -> None:
    """Runs these works, under their names, until the body has ended."""
    async with tasks:
        for name, work in works.items():
            tasks.start(name, work)
        await (body or forever)()


async def deaf(until: float, then: Exception | None = None) -> None:
    """Ignores every cancellation until some time."""
    while timing.now() < until:
        try:
            await timing.sleep_until(until)
        except asyncio.CancelledError:
            continue
    if then is not None:
        raise then


async def test_leaving_the_block_stops_the_tasks() -> None:
    async with Supervisor() as tasks:
        tasks.start("one", forever())
        tasks.start("two", forever)
        running = tasks.running
    assert (running, tasks.running) == (("one", "two"), ())


async def test_wait_waits_for_the_end_of_some_or_of_all() -> None:
    async with Supervisor() as tasks:
        tasks.start("short", timing.sleep(1))
        tasks.start("long", timing.sleep(5))
        await tasks.wait("short")
        assert (timing.now(), tasks.running) == (1.0, ("long",))
        await tasks.wait()
        assert timing.now() == 5.0


async def test_a_task_carries_its_name() -> None:
    names: list[str] = []

    async def check() -> None:
        task = asyncio.current_task()
        names.append(task.get_name() if task else "")

    async with Supervisor(name="manager") as tasks:
        tasks.start("watcher", check())
        await tasks.wait()
    assert names == ["manager/watcher"]


async def test_a_crash_stops_the_others_and_the_block_and_is_raised() -> None:
    tasks = Supervisor(name="manager")
    with pytest.raises(Crashed) as crashed:
        await supervise(tasks, good=forever(), bad=crash())
    (error,) = crashed.value.exceptions
    assert isinstance(error, LookupError)
    assert error.__notes__ == ["in task 'bad' of 'manager'"]
    assert (tasks.running, timing.now()) == ((), 1.0)


async def test_after_a_crash_the_task_of_the_block_is_not_cancelled() -> None:
    task = asyncio.current_task()
    assert task is not None
    with pytest.raises(Crashed):
        await supervise(Supervisor(), bad=crash())
    assert task.cancelling() == 0
    await timing.sleep(1)


async def test_every_crash_is_raised_also_those_while_stopping_and_the_error_of_the_block() -> None:
    async def crash_when_stopped(error: Exception) -> None:
        try:
            await forever()
        finally:
            raise error

    with pytest.raises(Crashed) as crashed:
        await supervise(
            Supervisor(),
            lambda: crash_when_stopped(ZeroDivisionError()),
            bad=crash(),
            worse=crash_when_stopped(ValueError()),
        )
    assert [type(error) for error in crashed.value.exceptions] == [ZeroDivisionError, LookupError, ValueError]


async def test_crashes_can_be_caught_by_kind() -> None:
    caught: list[Exception] = []
    try:
        async with Supervisor() as tasks:
            tasks.start("bad", crash())
            await forever()
    except* LookupError as group:
        caught.extend(error for error in group.exceptions if isinstance(error, LookupError))
    assert len(caught) == 1


async def test_an_error_of_the_block_alone_is_raised_as_it_is() -> None:
    with pytest.raises(ZeroDivisionError):
        await supervise(Supervisor(), lambda: crash(1.0, ZeroDivisionError()), one=forever())


async def test_a_task_that_awaits_something_cancelled_has_crashed() -> None:
    async def stumble() -> None:
        raise asyncio.CancelledError

    with pytest.raises(Crashed) as crashed:
        await supervise(Supervisor(), watcher=stumble())
    assert "not by its supervisor" in str(crashed.value.exceptions[0])


async def test_on_crash_may_let_the_other_tasks_continue() -> None:
    seen: list[Crash] = []

    def observe(crash: Crash) -> Verdict:
        seen.append(crash)
        return Verdict.CONTINUE

    async with Supervisor(on_crash=observe) as tasks:
        tasks.start("good", timing.sleep(5))
        tasks.start("bad", crash())
        await tasks.wait()
    assert [(crash.name, type(crash.error), crash.count) for crash in seen] == [("bad", LookupError, 1)]
    assert timing.now() == 5.0


async def test_on_crash_may_restart_a_function_after_a_while() -> None:
    starts: list[float] = []

    async def twice() -> None:
        starts.append(timing.now())
        if len(starts) < 3:
            raise LookupError

    async with Supervisor(on_crash=lambda crash: Restart(after=crash.count * 10.0)) as tasks:
        tasks.start("flaky", twice)
        await tasks.wait()
    assert starts == [0.0, 10.0, 30.0]


async def test_a_coroutine_cannot_be_restarted() -> None:
    with pytest.raises(Crashed) as crashed:
        await supervise(Supervisor(on_crash=lambda _: Restart()), bad=crash())
    assert "start it with a function" in crashed.value.exceptions[0].__notes__[-1]


async def test_a_failing_on_crash_is_raised_with_the_crash() -> None:
    def worse(_: Crash) -> Verdict:
        raise OSError

    with pytest.raises(Crashed) as crashed:
        await supervise(Supervisor(on_crash=worse), bad=crash())
    assert [type(error) for error in crashed.value.exceptions] == [OSError, LookupError]


async def test_nothing_is_restarted_while_stopping() -> None:
    async with Supervisor(on_crash=lambda _: Restart(after=100.0)) as tasks:
        tasks.start("bad", crash)
        await timing.sleep(2)
        assert tasks.running == ("bad",)
    assert timing.now() == 2.0


async def test_a_fatal_error_of_a_task_is_raised_as_it_is() -> None:
    class Fatal(BaseException):
        pass

    async def fail() -> None:
        raise Fatal

    with pytest.raises(Fatal):
        await supervise(Supervisor(), bad=fail())


@pytest.mark.parametrize("seconds", [-1.0, float("nan")])
def test_invalid_stop_times_are_refused(seconds: float) -> None:
    with pytest.raises(ValueError, match="manager: grace must be at least 0"):
        Supervisor(name="manager", grace=seconds)
    with pytest.raises(ValueError, match="cancel_within more than 0"):
        Supervisor(cancel_within=seconds)


async def test_a_task_that_cannot_be_started_is_refused_and_leaves_nothing_behind() -> None:
    tasks = Supervisor(name="manager")
    with pytest.raises(RuntimeError, match="outside of its `async with` block"):
        tasks.start("early", forever())
    async with tasks:
        tasks.start("one", forever())
        with pytest.raises(RuntimeError, match="a task named 'one' is running already"):
            tasks.start("one", forever())
        await tasks.stop()
        with pytest.raises(RuntimeError, match="it is stopping"):
            tasks.start("late", forever())
    with pytest.raises(RuntimeError, match="can be entered once"):
        await tasks.__aenter__()


async def test_names_may_be_used_again_when_their_task_has_ended() -> None:
    async with Supervisor() as tasks:
        for _ in range(2):
            tasks.start("one", timing.sleep(1))
            await tasks.wait()


async def test_a_task_that_outlives_its_supervisor_still_has_its_error_reported() -> None:
    reports: list[BaseException] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: reports.append(context["exception"]))
    tasks = Supervisor(cancel_within=5)
    with pytest.raises(Crashed):
        await supervise(tasks, lambda: timing.sleep(1), deaf=deaf(20, then=OSError("late")))
    assert tasks.running == ("deaf",)
    await timing.sleep(30)
    assert [str(error) for error in reports] == ["late"]


async def test_stopping_a_single_task_that_ignores_its_cancellation_raises_unstopped() -> None:
    async with Supervisor(cancel_within=5) as tasks:
        tasks.start("deaf", deaf(20))
        await timing.sleep(1)
        with pytest.raises(Unstopped):
            await tasks.stop("deaf")
        assert timing.now() == 6.0
        await tasks.wait()
