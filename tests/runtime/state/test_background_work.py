"""Slow work on a virtual clock: bounded, one of a name for each object, cancelled with it."""

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from levelset.aio import Closed, Crashed, Supervisor, WouldBlock, timing
from levelset.runtime.state import BackgroundWork, StateMap, WorkFailed, WorkProgress
from tests.runtime.state.runs import Run, ref

WEB, DB = ref("web"), ref("db")


class Diary:
    """Work that takes a second, and writes down when it begins and how it ends."""

    def __init__(self) -> None:
        self.lines: list[tuple[float, str]] = []
        self.peak = self._running = 0

    def __call__(
        self, text: str, *, takes: float = 1.0, cleaning: float = 0.0
    ) -> Callable[[], Coroutine[Any, Any, None]]:
        return partial(self._work, text, takes, cleaning)

    async def _work(self, text: str, takes: float, cleaning: float) -> None:
        self.lines.append((timing.now(), text))
        self._running += 1
        self.peak = max(self.peak, self._running)
        try:
            await timing.sleep(takes)
        except asyncio.CancelledError:
            await timing.sleep(cleaning)
            self.lines.append((timing.now(), f"{text} cancelled"))
            raise
        finally:
            self._running -= 1


async def test_work_runs_concurrently_with_the_caller() -> None:
    diary = Diary()
    async with BackgroundWork() as work:
        handle = work.start(WEB, diary("pull"), name="pull")
        assert (diary.lines, handle.progress, len(work), work.running) == ([], WorkProgress.RUNNING, 1, 1)
        assert await handle.wait() is WorkProgress.DONE
        assert (handle.has_ended, len(work), work.handles(WEB)) == (True, 0, [])
    assert diary.lines == [(0.0, "pull")]


async def test_work_starts_in_order_and_never_exceeds_the_limit() -> None:
    diary = Diary()
    async with BackgroundWork(limit=2) as work:
        for number in range(5):
            work.start(ref(str(number)), diary(str(number)))
        assert (work.running, work.queued) == (2, 3)
        await work.wait_idle()
    assert diary.peak == 2
    assert diary.lines == [(0.0, "0"), (0.0, "1"), (1.0, "2"), (1.0, "3"), (2.0, "4")]


async def test_the_same_work_for_the_same_object_is_started_once() -> None:
    diary = Diary()
    async with BackgroundWork(limit=1) as work:
        first = work.start(WEB, diary("first"), name="pull")
        assert work.start(WEB, diary("again"), name="pull") is first
        waiting = work.start(DB, diary("other object"), name="pull")
        assert work.start(DB, diary("again"), name="pull") is waiting
        work.start(WEB, diary("other work"), name="probe")
        await work.wait_idle()
        assert work.start(WEB, diary("later"), name="pull") is not first
        await work.wait_idle()
    assert [text for _, text in diary.lines] == ["first", "other object", "other work", "later"]


async def test_the_same_work_can_run_twice_with_beside() -> None:
    diary = Diary()
    async with BackgroundWork() as work:
        work.start(WEB, diary("one"), name="pull")
        work.start(WEB, diary("two"), name="pull", beside=True)
        assert len(work.handles(WEB)) == 2
        await work.wait_idle()
    assert diary.lines == [(0.0, "one"), (0.0, "two")]


async def test_work_is_named_after_its_function() -> None:
    async def pull() -> None:
        names.append(getattr(asyncio.current_task(), "get_name", str)())

    names: list[str] = []
    async with BackgroundWork(name="images") as work:
        assert work.start(WEB, pull).name == "pull"
        assert work.start(DB, pull()).name == "pull"
        assert work.start(WEB, pull()) is work.handles(WEB)[0]
        assert work.start(ref("x"), partial(pull)).name == "pull"
        await work.wait_idle()
    assert names[0] == "images/pull of Executable/default/web #1"


async def test_too_much_work_is_refused() -> None:
    diary = Diary()
    async with BackgroundWork(limit=1, max_queued=2) as work:
        for number in range(3):
            work.start(ref(str(number)), diary(str(number)))
        with pytest.raises(WouldBlock, match="cannot start pull of Executable/default/web: 2 are queued"):
            work.start(WEB, diary("too much")(), name="pull")
        await work.wait_idle()
    assert len(diary.lines) == 3


async def test_an_error_is_reported_and_affects_no_other_work() -> None:
    failures: list[WorkFailed] = []

    async def broken() -> None:
        await timing.sleep(1.0)
        raise OSError("no such image")

    diary = Diary()
    async with BackgroundWork(limit=1, on_error=failures.append) as work:
        handle = work.start(WEB, broken)
        work.start(DB, diary("next"))
        assert await handle.wait() is WorkProgress.FAILED
        await work.wait_idle()
    assert [(one.ref, one.name, str(one.error)) for one in failures] == [(WEB, "broken", "no such image")]
    assert (handle.error, diary.lines) == (failures[0].error, [(1.0, "next")])


async def test_an_error_can_be_reported_as_a_deferred_change() -> None:
    runs: StateMap[object, int, Run] = StateMap()
    runs.put(WEB, Run("Starting"))
    woken: list[object] = []
    runs.listen(woken.append)

    async def broken() -> None:
        raise OSError("no such image")

    def failed(failure: WorkFailed) -> None:
        runs.defer(WEB, lambda run: replace(run, phase="Failed", notes=(str(failure.error),)))

    async with BackgroundWork() as work:
        await work.start(WEB, broken, on_error=failed).wait()
    assert woken == [WEB]
    assert runs.apply_deferred(WEB) == Run("Failed", notes=("no such image",))


async def test_errors_are_logged_by_default(caplog: pytest.LogCaptureFixture) -> None:
    async def broken() -> None:
        raise OSError("no such image")

    def deaf(_: WorkFailed) -> None:
        raise RuntimeError("deaf")

    async with BackgroundWork() as work:
        await work.start(WEB, broken).wait()
        await work.start(WEB, broken, on_error=deaf).wait()
    logged = [record.message.split(":")[0] for record in caplog.records]
    expected = "broken of Executable/default/web failed"
    assert logged == [expected, "on_error of broken of Executable/default/web failed itself", expected]


async def test_cancelling_an_object_cancels_running_and_queued_work() -> None:
    diary = Diary()
    async with BackgroundWork(limit=1) as work:
        running = work.start(WEB, diary("running"), name="a")
        waiting = work.start(WEB, diary("waiting")(), name="b")
        other = work.start(DB, diary("other"))
        await timing.sleep(0.5)
        assert (work.cancel(WEB), work.cancel(WEB)) == (2, 0)
        assert waiting.progress is WorkProgress.CANCELLED
        assert await running.wait() is WorkProgress.CANCELLED
        assert not running.cancel()
        assert await other.wait() is WorkProgress.DONE
    assert diary.lines == [(0.0, "running"), (0.5, "running cancelled"), (0.5, "other")]


async def test_cancelling_by_name_leaves_the_others() -> None:
    diary = Diary()
    async with BackgroundWork() as work:
        work.start(WEB, diary("a"), name="a")
        work.start(WEB, diary("b"), name="b")
        await timing.sleep(0.5)
        assert work.cancel(WEB, "a") == 1
        await work.wait_idle()
    assert [text for _, text in diary.lines] == ["a", "b", "a cancelled"]


async def test_work_that_is_cancelled_before_its_first_step_never_begins() -> None:
    diary = Diary()
    async with BackgroundWork() as work:
        handle = work.start(WEB, diary("never")())
        assert handle.cancel()
        assert await handle.wait() is WorkProgress.CANCELLED
        assert len(work) == 0
    assert diary.lines == []


async def test_work_started_again_while_it_is_being_cancelled_waits_for_the_end_of_that() -> None:
    diary = Diary()
    async with BackgroundWork() as work:
        old = work.start(WEB, diary("old", cleaning=3.0), name="pull")
        await timing.sleep(0.5)
        old.cancel()
        new = work.start(WEB, diary("new"), name="pull")
        assert work.start(WEB, diary("new too"), name="pull") is new
        assert (new is old, new.progress, work.queued) == (False, WorkProgress.QUEUED, 1)
        await work.wait_idle()
    assert diary.lines == [(0.0, "old"), (3.5, "old cancelled"), (3.5, "new")]


async def test_work_that_waits_for_a_cancellation_can_be_cancelled() -> None:
    diary = Diary()
    async with BackgroundWork() as work:
        work.start(WEB, diary("old", cleaning=3.0), name="pull")
        await timing.sleep(0.5)
        work.cancel(WEB)
        new = work.start(WEB, diary("new"), name="pull")
        assert work.cancel(WEB) == 1
        assert await new.wait() is WorkProgress.CANCELLED
        await work.wait_idle()
    assert [text for _, text in diary.lines] == ["old", "old cancelled"]


async def test_the_end_drops_queued_work_and_cancels_running_work() -> None:
    diary = Diary()
    async with BackgroundWork(limit=1, grace=5.0) as work:
        running = work.start(WEB, diary("running", takes=3600.0, cleaning=4.0))
        waiting = work.start(DB, diary("waiting")())
        await timing.sleep(1.0)
    assert (running.progress, waiting.progress, timing.now()) == (WorkProgress.CANCELLED, WorkProgress.CANCELLED, 5.0)
    assert (len(work), [text for _, text in diary.lines]) == (0, ["running", "running cancelled"])


async def test_closing_is_the_end_and_may_be_repeated() -> None:
    diary = Diary()
    async with BackgroundWork() as work:
        handles = [work.start(WEB, diary("at once")()), work.start(DB, diary("too"))]
        await work.close()
        await work.close()
        await work.wait_idle()
        assert [handle.progress for handle in handles] == [WorkProgress.CANCELLED] * 2
        with pytest.raises(Closed, match="cannot start pull of Executable/default/web: it is closed"):
            work.start(WEB, diary("late")(), name="pull")
    assert (len(work), diary.lines) == (0, [])


async def test_work_that_ignores_its_cancellation_is_reported_after_the_grace_period() -> None:
    async def stubborn() -> None:
        while timing.now() < 60.0:
            try:
                await timing.sleep(60.0)
            except asyncio.CancelledError:
                continue

    work = BackgroundWork(grace=5.0)
    with pytest.raises(Crashed) as error:  # noqa: PT012 -- it is the end of the block that raises
        async with work:
            work.start(WEB, stubborn)
            await timing.sleep(1.0)
    assert "stubborn of Executable/default/web #1" in str(error.value.exceptions[0])
    assert timing.now() == 6.0
    await work.wait_idle()


async def test_work_that_completes_despite_its_cancellation_is_done() -> None:
    async def careful() -> None:
        try:
            await timing.sleep(60.0)
        except asyncio.CancelledError:
            return

    async with BackgroundWork() as work:
        handle = work.start(WEB, careful)
        await timing.sleep(1.0)
        handle.cancel()
        assert await handle.wait() is WorkProgress.DONE


@pytest.mark.parametrize(("limit", "max_queued"), [(0, 1), (1, 0), (-1, 5)])
def test_limits_are_above_zero(limit: int, max_queued: int) -> None:
    with pytest.raises(ValueError, match="must be above 0"):
        BackgroundWork(limit=limit, max_queued=max_queued)


async def test_a_handle_has_a_readable_repr() -> None:
    async with BackgroundWork() as work:
        handle = work.start(WEB, Diary()("a"), name="pull")
        assert repr(handle) == "<Handle pull of Executable/default/web: running>"


async def test_background_work_can_run_inside_a_supervised_task() -> None:
    diary = Diary()

    async def serve() -> None:
        async with BackgroundWork() as work:
            work.start(WEB, diary("follow", takes=3600.0))
            await asyncio.Event().wait()

    async with Supervisor() as tasks:
        tasks.start("controller", serve())
        await timing.sleep(2.0)
    assert diary.lines == [(0.0, "follow"), (2.0, "follow cancelled")]
