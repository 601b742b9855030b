"""Workers: bounded concurrency, one reconcile per object, and whatever a reconcile raises ends that reconcile only."""

import asyncio
import gc
import logging
import weakref
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest

from levelset.aio import Backoff, timing
from levelset.client.object_types import view_of
from levelset.errors import Conflict, Deadline, GiveUp, Retry
from levelset.objects import Ref
from levelset.runtime.cache import store
from levelset.runtime.controller import Action, Outcome, Reason, ReconcileHistory, Request, await_change, requeue
from levelset.runtime.controller.error_policy import ConflictTracker, ErrorHandler
from levelset.runtime.controller.observers import NullObserver, Observer, Observers
from levelset.runtime.controller.request import CHANGED
from levelset.runtime.controller.worker import GONE, Slot, WorkerPool
from levelset.runtime.queue import LOW, Due, Scheduler
from levelset.testing.virtual_time import virtual
from tests.runtime.controller.controller_loop import Web, web_ref

__all__: list[str] = []

WEBS = view_of(Web).ref_at

ReconcileFunction = Callable[[Request[Any]], Awaitable[Action | None]]


@dataclass
class WorkerEnvironment:
    """Workers around a reconcile function of the test."""

    scheduler: Scheduler[str, Reason]
    workers: WorkerPool[Any]
    began: float
    reconciles: list[tuple[float, str]] = field(default_factory=list[tuple[float, str]])
    now_running: set[str] = field(default_factory=set[str])
    most: int = 0
    twice: bool = False

    def enqueue(self, *names: str, **options: Any) -> None:
        for name in names:
            self.scheduler.add(web_ref(name).key, reason=CHANGED, **options)

    async def record(self, reconcile: ReconcileFunction, request: Request[Any]) -> Action | None:
        name = request.ref.name
        self.reconciles.append((timing.now(), name))
        self.twice |= name in self.now_running
        self.now_running.add(name)
        self.most = max(self.most, len(self.now_running))
        try:
            return await reconcile(request)
        finally:
            self.now_running.discard(name)

    @property
    def names(self) -> str:
        return "".join(name for _, name in self.reconciles)

    @property
    def times(self) -> list[float]:
        return [round(when - self.began, 3) for when, _ in self.reconciles]

    @property
    def results(self) -> list[str]:
        return [one.result for one in self.workers.history]


@asynccontextmanager
async def open_workers(
    reconcile: ReconcileFunction,
    *,
    concurrency: int = 4,
    limit: float | None = None,
    observer: Observer | None = None,
    held: bool = False,
    deliver: Callable[[Outcome[Any]], Awaitable[None]] | None = None,
    history: int = 1000,
    backoff: Backoff = Backoff(first=5.0, factor=2.0, cap=300.0, jitter=0.0, quiet=None),  # noqa: B008 -- it is frozen
) -> AsyncGenerator[WorkerEnvironment, None]:
    scheduler: Scheduler[str, Reason] = Scheduler(held=held)

    def recorded_reconcile(key: str, given: Request[Any] | Due[str, Reason], _: Slot) -> Awaitable[Action | None]:
        request = given if isinstance(given, Request) else Request(WEBS(key), given.reasons, given.priority)
        return env.record(reconcile, request)

    workers: WorkerPool[Any] = WorkerPool(
        scheduler,
        recorded_reconcile,
        name="env",
        error_handler=ErrorHandler(conflicts=ConflictTracker(), store=store(Web)[0], backoff=backoff),
        observer=NullObserver() if observer is None else observer,
        history=ReconcileHistory(history, ref_of=WEBS),
        ref_of=WEBS,
        timeout=limit,
        deliver=deliver,
    )
    env = WorkerEnvironment(scheduler, workers, timing.now())
    tasks = [asyncio.ensure_future(workers.work()) for _ in range(concurrency)]
    try:
        yield env
    finally:
        scheduler.close(drain=False)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        workers.close()


def every(seconds: float) -> Backoff:
    return Backoff(first=seconds, factor=1.0, cap=seconds, jitter=0.0, quiet=None)


def sleeping(seconds: float) -> ReconcileFunction:
    async def reconcile(_: Request[Any]) -> None:
        await asyncio.sleep(seconds)

    return reconcile


def raising(*errors: Exception | None, then: Action | None = None) -> ReconcileFunction:
    """Raises these, one per reconcile, and returns `then` where there is none."""
    left = list(errors)

    async def reconcile(_: Request[Any]) -> Action | None:
        error = left.pop(0) if left else None
        if error is not None:
            raise error
        return then

    return reconcile


@virtual
async def test_one_object_is_never_reconciled_concurrently_and_still_as_often_as_needed() -> None:
    async with open_workers(sleeping(1.0)) as env:
        env.enqueue("a")
        await asyncio.sleep(0.1)
        env.enqueue("b", "a", "a", "a", "a")
        await asyncio.sleep(5)
        assert (env.names, env.twice) == ("aba", False)
        assert env.times == [0.0, 0.1, 1.0]


@virtual
async def test_a_worker_that_waits_is_woken_by_a_request() -> None:
    async with open_workers(sleeping(0.0), concurrency=1) as env:
        for name in "abc":
            await asyncio.sleep(1)
            env.enqueue(name)
        await asyncio.sleep(1)
        assert env.times == [1.0, 2.0, 3.0]


@virtual
async def test_nothing_is_reconciled_before_the_scheduler_is_released_and_duplicates_are_merged() -> None:
    async with open_workers(sleeping(0.0), held=True) as env:
        env.enqueue("a", "b", "a")
        await asyncio.sleep(10)
        assert env.names == ""
        env.scheduler.release()
        await asyncio.sleep(0.1)
        assert sorted(env.names) == ["a", "b"]


@virtual
async def test_there_are_never_more_concurrent_reconciles_than_workers() -> None:
    async with open_workers(sleeping(1.0), concurrency=2) as env:
        env.enqueue("a", "b", "c")
        await asyncio.sleep(0.5)
        assert env.names == "ab"
        await asyncio.sleep(1)
        assert (env.names, env.times[2], env.most) == ("abc", 1.0, 2)
        env.enqueue("a")
        await asyncio.sleep(2)
        assert env.names == "abca"


@virtual
async def test_a_slow_object_does_not_block_the_others() -> None:
    async def reconcile(request: Request[Any]) -> None:
        await asyncio.sleep(100 if request.ref.name == "slow" else 0.1)

    async with open_workers(reconcile, concurrency=2) as env:
        env.enqueue("slow", "a", "b", "c")
        await asyncio.sleep(1)
        assert env.results == ["done"] * 3


@virtual
async def test_thousands_of_immediate_requeues_do_not_block_each_other() -> None:
    counts: dict[str, int] = {}

    async def reconcile(request: Request[Any]) -> Action | None:
        counts[request.ref.name] = counts.get(request.ref.name, 0) + 1
        return requeue(0) if counts[request.ref.name] < 3 else None

    async with open_workers(reconcile) as env:
        env.enqueue(*(f"w{number}" for number in range(5000)))
        await env.scheduler.wait_idle()
        assert (env.workers.history.total, set(counts.values())) == (15000, {3})
        env.scheduler.close(drain=True)
        await asyncio.sleep(1)


@virtual
async def test_reconciles_that_never_wait_let_other_tasks_run() -> None:
    turns = 0

    async def count() -> None:
        nonlocal turns
        while True:
            await asyncio.sleep(0)
            turns += 1

    async def at_once(_: Request[Any]) -> None:
        return

    async with open_workers(at_once, concurrency=1) as env:
        counting = asyncio.ensure_future(count())
        env.enqueue(*(f"w{number}" for number in range(1000)))
        await env.scheduler.wait_idle()
        counting.cancel()
        assert turns >= 10


@virtual
async def test_a_success_resets_the_failure_count() -> None:
    async with open_workers(raising(ValueError("1"), ValueError("2"), None, ValueError("3"))) as env:
        env.enqueue("a")
        await asyncio.sleep(20)
        env.enqueue("a")
        await asyncio.sleep(6)
        assert env.times == [0.0, 5.0, 15.0, 20.0, 25.0]
        assert env.results == ["failed", "failed", "done", "failed", "done"]


@virtual
async def test_a_failing_object_backs_off_and_the_others_continue() -> None:
    async def reconcile(request: Request[Any]) -> None:
        if request.ref.name == "bad":
            raise ValueError("no")

    async with open_workers(reconcile, concurrency=1) as env:
        env.enqueue("bad", "a", "b")
        await asyncio.sleep(1)
        assert env.results == ["failed", "done", "done"]
        env.enqueue("a")
        await asyncio.sleep(5)
        assert env.results == ["failed", "done", "done", "done", "failed"]


@virtual
async def test_the_attempt_counts_failures_in_a_row_and_the_retry_has_a_reason() -> None:
    seen: list[tuple[int, list[str]]] = []

    async def reconcile(request: Request[Any]) -> None:
        seen.append((request.attempt, [one.kind for one in request.reasons]))
        if request.attempt < 2:
            raise ValueError("no")

    async with open_workers(reconcile) as env:
        env.enqueue("a")
        await asyncio.sleep(60)
        env.enqueue("a")
        await asyncio.sleep(1)
        assert seen == [(0, ["changed"]), (1, ["retried"]), (2, ["retried"]), (0, ["changed"])]


@virtual
async def test_giving_up_is_not_retried_but_a_new_request_is_reconciled() -> None:
    async with open_workers(raising(GiveUp("no such image"), None)) as env:
        env.enqueue("a")
        await asyncio.sleep(10_000)
        assert env.results == ["gave_up"]
        env.enqueue("a")
        await asyncio.sleep(1)
        assert env.results == ["gave_up", "done"]


@virtual
async def test_requeue_is_a_delay_after_the_end_and_resets_the_backoff() -> None:
    reconcile = raising(ValueError("1"), ValueError("2"), None, ValueError("3"), then=requeue(7))
    async with open_workers(reconcile) as env:
        env.enqueue("a")
        await asyncio.sleep(28)
        assert env.times == [0.0, 5.0, 15.0, 22.0, 27.0]
        assert env.results == ["failed", "failed", "requeued", "failed", "requeued"]


@virtual
async def test_an_outcome_has_the_action_and_awaits_a_change_if_the_reconcile_returned_none() -> None:
    async def reconcile(request: Request[Any]) -> Action | None:
        return requeue(600) if request.ref.name == "a" else None

    async with open_workers(reconcile, concurrency=1) as env:
        env.enqueue("a", "b")
        await asyncio.sleep(1)
        assert [one.action for one in env.workers.history] == [requeue(600), await_change()]


@virtual
async def test_a_new_request_replaces_a_later_requeue() -> None:
    async with open_workers(raising(then=requeue(600))) as env:
        env.enqueue("a")
        await asyncio.sleep(100)
        env.enqueue("a")
        await asyncio.sleep(601)
        assert env.times == [0.0, 100.0, 700.0]


@virtual
async def test_retry_and_conflict_are_not_errors_and_are_requeued() -> None:
    async with open_workers(raising(Retry("not yet", seconds=3), Conflict("another writer"), None)) as env:
        env.enqueue("a")
        await asyncio.sleep(10)
        assert env.results == ["retry", "conflict", "done"]
        assert env.times[1] == 3.0
        assert 3.0 < env.times[2] < 3.2
        assert not any(one.is_error for one in env.workers.history)


@virtual
async def test_a_requeue_keeps_the_priority_unless_the_action_has_one() -> None:
    seen: list[int] = []

    async def reconcile(request: Request[Any]) -> Action | None:
        seen.append(request.priority)
        match len(seen):
            case 1:
                raise ValueError("no")
            case 2:
                return requeue(1)
            case 3:
                return requeue(1, priority=7)
            case _:
                return None

    async with open_workers(reconcile) as env:
        env.enqueue("a", priority=LOW)
        await asyncio.sleep(10)
        assert seen == [LOW, LOW, LOW, 7]


@virtual
async def test_returning_anything_but_an_action_is_a_failure() -> None:
    async def reconcile(_: Request[Any]) -> Any:
        return 5

    async with open_workers(reconcile) as env:
        env.enqueue("a")
        await asyncio.sleep(1)
        assert env.results == ["failed"]
        assert "the reconciler returned 5; return requeue(...)" in str(env.workers.history[0].error)


@virtual
async def test_a_reconcile_that_exceeds_its_timeout_is_cancelled_and_retried_by_the_same_worker() -> None:
    ended: list[str] = []

    async def reconcile(request: Request[Any]) -> None:
        try:
            await asyncio.sleep(100 if request.attempt == 0 else 1)
        except asyncio.CancelledError:
            ended.append("cancelled")
            raise

    async with open_workers(reconcile, concurrency=1, limit=30.0) as env:
        env.enqueue("a")
        await asyncio.sleep(60)
        assert env.times == [0.0, 35.0]
        assert env.results == ["timed_out", "done"]
        assert isinstance(env.workers.history[0].error, Deadline)
        assert ended == ["cancelled"]


@virtual
async def test_only_the_controllers_own_timeout_counts_as_timed_out() -> None:
    async def reconcile(request: Request[Any]) -> None:
        async with asyncio.timeout(1):
            await asyncio.sleep(10)

    async with open_workers(reconcile, limit=30.0) as env:
        env.enqueue("a")
        await asyncio.sleep(2)
        assert env.results == ["failed"]


@virtual
async def test_closing_the_workers_cancels_the_timer_of_the_timeout() -> None:
    async with open_workers(sleeping(1.0), limit=30.0) as env:
        env.enqueue("a")
        await asyncio.sleep(0.5)
    scheduled: list[asyncio.TimerHandle] = asyncio.get_running_loop()._scheduled  # type: ignore[attr-defined]
    assert [timer for timer in scheduled if not timer.cancelled()] == []


@virtual
async def test_each_reconcile_has_its_own_timeout() -> None:
    async with open_workers(sleeping(20.0), concurrency=2, limit=30.0) as env:
        for name in "abcdef":
            env.enqueue(name)
            await asyncio.sleep(10)
        await asyncio.sleep(60)
        assert env.results == ["done"] * 6


@virtual
async def test_a_reconcile_that_swallows_its_cancellation_counts_as_what_it_returns() -> None:
    async def reconcile(_: Request[Any]) -> None:
        try:
            await asyncio.sleep(100)
        except asyncio.CancelledError:
            return

    async with open_workers(reconcile, concurrency=1, limit=1.0) as env:
        env.enqueue("a", "b")
        await asyncio.sleep(10)
        assert env.results == ["done", "done"]


@virtual
async def test_a_reconcile_that_swallows_its_cancellation_does_not_affect_the_timeout_of_the_next() -> None:
    async def reconcile(request: Request[Any]) -> None:
        try:
            await asyncio.sleep(100)
        except asyncio.CancelledError:
            if request.ref.name != "a":
                raise

    async with open_workers(reconcile, concurrency=1, limit=1.0) as env:
        env.enqueue("a", "b", "c")
        await asyncio.sleep(4)
        assert env.results == ["done", "timed_out", "timed_out"]


@virtual
async def test_a_failure_after_a_timeout_of_the_same_worker_is_not_a_timeout() -> None:
    async def reconcile(request: Request[Any]) -> None:
        if request.ref.name == "slow":
            await asyncio.sleep(100)
        raise ValueError("no")

    async with open_workers(reconcile, concurrency=1, limit=1.0) as env:
        env.enqueue("slow", "bad")
        await asyncio.sleep(2)
        slow, bad = env.workers.history
        assert (slow.result, bad.result, type(bad.error)) == ("timed_out", "failed", ValueError)


@virtual
async def test_a_worker_that_is_cancelled_ends_even_if_the_reconcile_has_timed_out_and_swallows_both() -> None:
    async def reconcile(_: Request[Any]) -> None:
        for _again in range(2):
            try:
                await asyncio.sleep(100)
            except asyncio.CancelledError:
                continue

    async with open_workers(reconcile, concurrency=0, limit=1.0) as env:
        env.enqueue("a")
        worker = asyncio.ensure_future(env.workers.work())
        await asyncio.sleep(2)
        worker.cancel()
        await asyncio.wait([worker], timeout=5)
        assert (worker.done(), env.results, env.workers.ages()) == (True, [], [])


@virtual
async def test_the_cancellation_of_a_worker_that_a_reconcile_swallows_ends_it_with_the_next_timeout() -> None:
    async def reconcile(request: Request[Any]) -> None:
        try:
            await asyncio.sleep(100)
        except asyncio.CancelledError:
            if request.ref.name != "a":
                raise

    async with open_workers(reconcile, concurrency=0, limit=5.0) as env:
        env.enqueue("a", "b")
        worker = asyncio.ensure_future(env.workers.work())
        await asyncio.sleep(1)
        worker.cancel()
        await asyncio.wait([worker], timeout=10)
        assert (worker.done() and worker.cancelled(), env.results) == (True, ["done"])


@virtual
async def test_an_error_during_a_timeout_cancellation_is_the_cause_of_the_timeout() -> None:
    async def reconcile(_: Request[Any]) -> None:
        try:
            await asyncio.sleep(100)
        finally:
            raise KeyError("cleaning up")

    async with open_workers(reconcile, concurrency=1, limit=1.0) as env:
        env.enqueue("a")
        await asyncio.sleep(2)
        assert env.results == ["timed_out"]
        error = env.workers.history[0].error
        assert error is not None
        assert isinstance(error.__cause__, KeyError)


@virtual
async def test_a_cancelled_awaitable_fails_the_reconcile_and_not_the_worker() -> None:
    async def reconcile(request: Request[Any]) -> None:
        if request.attempt == 0:
            task = asyncio.ensure_future(asyncio.sleep(100))
            asyncio.get_running_loop().call_later(1, task.cancel)
            await task

    async with open_workers(reconcile, concurrency=1) as env:
        env.enqueue("a")
        await asyncio.sleep(10)
        assert env.results == ["failed", "done"]
        error = env.workers.history[0].error
        assert error is not None
        assert "was cancelled, and not by the controller" in str(error)
        assert isinstance(error.__cause__, asyncio.CancelledError)


@virtual
async def test_cancelling_a_worker_cancels_its_reconcile_and_propagates() -> None:
    async with open_workers(sleeping(100.0), concurrency=0, limit=30.0) as env:
        env.scheduler.add(web_ref("a").key)
        worker = asyncio.ensure_future(env.workers.work())
        await asyncio.sleep(1)
        worker.cancel()
        await asyncio.wait([worker])
        assert worker.cancelled()
        assert (env.results, env.scheduler.running) == ([], 0)


@virtual
async def test_a_gone_object_has_an_outcome_and_is_not_retried() -> None:
    async def reconcile(_: Request[Any]) -> Action:
        return GONE

    async with open_workers(reconcile) as env:
        env.enqueue("a")
        await asyncio.sleep(100)
        assert env.results == ["gone"]


@virtual
async def test_an_outcome_has_wait_time_duration_and_reasons() -> None:
    async with open_workers(sleeping(2.0), concurrency=1) as env:
        await asyncio.sleep(100)
        env.enqueue("a", "b")
        await asyncio.sleep(10)
        first, second = env.workers.history
        assert [round(one, 3) for one in (first.waited, first.seconds)] == [0.0, 2.0]
        assert [round(one, 3) for one in (second.waited, second.seconds)] == [2.0, 2.0]
        assert second.reasons == (CHANGED,)


@virtual
async def test_a_slow_consumer_of_outcomes_counts_as_wait_time_of_the_next_and_not_towards_its_timeout() -> None:
    async def deliver(_: Outcome[Any]) -> None:
        await asyncio.sleep(60)

    async with open_workers(sleeping(1.0), concurrency=1, limit=30.0, deliver=deliver) as env:
        env.enqueue("a", "b")
        await asyncio.sleep(61.5)
        assert [round(age, 3) for age in env.workers.ages()] == [0.5]
        await asyncio.sleep(10)
        found = [(one.result, round(one.waited, 3), round(one.seconds, 3)) for one in env.workers.history]
        assert found == [("done", 0.0, 1.0), ("done", 61.0, 1.0)]


@virtual
async def test_an_idle_worker_has_no_age_and_is_not_cancelled_by_the_timeout_of_its_last_reconcile() -> None:
    async with open_workers(sleeping(2.0), concurrency=1, limit=5.0) as env:
        env.enqueue("a")
        await asyncio.sleep(1)
        assert [round(age, 3) for age in env.workers.ages()] == [1.0]
        await asyncio.sleep(10)
        assert env.workers.ages() == []
        env.enqueue("b")
        await asyncio.sleep(3)
        assert env.results == ["done", "done"]


class RecordingObserver:
    """Records its notifications."""

    def __init__(self, fails: bool = False) -> None:
        self.notifications: list[str] = []
        self._fails = fails

    def queued(self, name: str, depth: int, /) -> None:
        self._record(f"{name} queued {depth}")

    def started(self, name: str, ref: Ref[Any], reasons: tuple[Reason, ...], /) -> None:
        self._record(f"{name} started {ref.name} {reasons[0].kind}")

    def finished(self, name: str, ref: Ref[Any], outcome: Outcome[Any], seconds: float, /) -> None:
        self._record(f"{name} finished {ref.name} {outcome.result} {seconds:.0f}")

    def _record(self, what: str) -> None:
        self.notifications.append(what)
        if self._fails:
            raise ValueError("an observer's bug")


@virtual
async def test_observers_are_notified_and_what_they_raise_is_only_logged(caplog: pytest.LogCaptureFixture) -> None:
    bad, good = RecordingObserver(fails=True), RecordingObserver()
    observers = Observers([bad, good])
    with caplog.at_level(logging.ERROR):
        async with open_workers(sleeping(1.0), observer=observers) as env:
            observers.queued("env", 1)
            env.enqueue("a")
            await asyncio.sleep(2)
    assert bad.notifications == good.notifications == ["env queued 1", "env started a changed", "env finished a done 1"]
    assert "failed: an observer's bug" in caplog.text


@virtual
async def test_what_a_single_observer_raises_is_logged_at_start_and_end_and_the_reconcile_counts(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with caplog.at_level(logging.ERROR):
        async with open_workers(sleeping(1.0), concurrency=1, observer=RecordingObserver(fails=True)) as env:
            env.enqueue("a", "b")
            await asyncio.sleep(3)
            assert env.results == ["done", "done"]
    assert caplog.text.count("failed: an observer's bug") == 4


class Knower(NullObserver):
    """Identifies a reconcile by the ref object of its start."""

    def __init__(self) -> None:
        self.begun: list[Ref[Any]] = []
        self.ended: list[bool] = []

    def started(self, name: str, ref: Ref[Any], reasons: tuple[Reason, ...], /) -> None:
        self.begun.append(ref)

    def finished(self, name: str, ref: Ref[Any], outcome: Outcome[Any], seconds: float, /) -> None:
        self.ended.append(ref is self.begun[-1] is outcome.ref)


@pytest.mark.parametrize("reconcile", [sleeping(1.0), raising(ValueError(), None), raising(then=requeue(9))])
@virtual
async def test_an_observer_gets_the_same_ref_object_at_start_and_end(reconcile: ReconcileFunction) -> None:
    knower = Knower()
    async with open_workers(reconcile, observer=knower) as env:
        env.enqueue("a")
        await asyncio.sleep(6)
        assert (bool(knower.ended), all(knower.ended)) == (True, True)


@pytest.mark.parametrize("most", [10, 1000])
@virtual
async def test_pending_history_entries_are_flushed_in_batches(most: int) -> None:
    async with open_workers(raising(), concurrency=1, history=most) as env:
        env.enqueue(*map(str, range(2500)))
        await asyncio.sleep(1)
        history = env.workers.history
        assert (history.total, len(history.pending) < history.max_pending + 64) == (2500, True)
        assert (len(history), history[-1].ref.name) == (most, "2499")


@virtual
async def test_no_more_errors_are_retained_than_the_history_holds() -> None:
    errors: weakref.WeakSet[Exception] = weakref.WeakSet()

    async def reconcile(_: Request[Any]) -> Action | None:
        await asyncio.sleep(60)
        error = Retry("not yet", seconds=86400.0)  # not logged, so that the log record does not keep it alive
        errors.add(error)
        raise error

    async with open_workers(reconcile, concurrency=1, history=1) as env:
        env.enqueue(*map(str, range(30)))
        await asyncio.sleep(20 * 60 + 1)
        gc.collect()
        assert (env.workers.history.total, 1 <= len(errors) <= 2) == (20, True)


@virtual
async def test_an_error_is_logged_in_full_once_and_then_counted_while_it_repeats(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def reconcile(request: Request[Any]) -> Action | None:
        if request.ref.name == "b":
            raise KeyError("another")
        raise ValueError(f"attempt {request.attempt}")

    with caplog.at_level(logging.WARNING, "levelset.runtime.controller"):
        async with open_workers(reconcile, backoff=every(60)) as env:
            env.enqueue("a")
            await asyncio.sleep(130)
            env.enqueue("b", "c")
            await asyncio.sleep(1)
    logged: list[Any] = list(caplog.records)
    shown = [(one.getMessage().split(":")[0], one.exc_info is not None, getattr(one, "count", 1)) for one in logged]
    a, b, c = (f"Website/default/{name}" for name in "abc")
    assert shown == [(a, True, 1), (a, False, 2), (a, False, 3), (b, True, 1), (c, False, 4)]


@virtual
async def test_an_error_that_comes_back_after_a_while_is_logged_in_full_again(caplog: pytest.LogCaptureFixture) -> None:
    async def reconcile(_: Request[Any]) -> Action | None:
        raise ValueError("again")

    with caplog.at_level(logging.WARNING, "levelset.runtime.controller"):
        async with open_workers(reconcile, backoff=every(599)) as env:
            env.enqueue("a")
            await asyncio.sleep(600)
        async with open_workers(reconcile, backoff=every(601)) as env:
            env.enqueue("a")
            await asyncio.sleep(602)
    assert [one.exc_info is not None for one in caplog.records] == [True, False, True, True]


@virtual
async def test_failures_are_logged_with_the_object_and_retries_are_not(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with caplog.at_level(logging.DEBUG, "levelset.runtime.controller"):
        async with open_workers(raising(Conflict("c"), ValueError("v"), GiveUp("g"))) as env:
            env.enqueue("a")
            await asyncio.sleep(20)
    by_level = [(record.levelname, record.getMessage()) for record in caplog.records if record.exc_info]
    assert by_level == [
        ("WARNING", "Website/default/a: failed, requeue after 5 s: ValueError: v"),
        ("ERROR", "Website/default/a: gave up until something changes: GiveUp: g"),
    ]
    debugged = [record.getMessage() for record in caplog.records if record.levelname == "DEBUG"]
    for beginning in ("env: Website/default/a: conflict", "Website/default/a: conflict, requeue after "):
        assert any(message.startswith(beginning) for message in debugged)
