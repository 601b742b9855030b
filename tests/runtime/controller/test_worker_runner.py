"""Workers: so many at once, never two at one object, and whatever happens in a look ends that look only."""

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
from levelset.runtime.controller import Action, History, Outcome, Reason, Request, requeue
from levelset.runtime.controller.error_policy import Answering, Conflicts
from levelset.runtime.controller.observers import NullObserver, Observer, Observers
from levelset.runtime.controller.request import CHANGED
from levelset.runtime.controller.worker import GONE, Runner
from levelset.runtime.queue import LOW, Scheduler
from tests.apiserver.clock import virtual
from tests.runtime.controller.loops import Web, web_ref

__all__: list[str] = []

WEBS = view_of(Web).ref_at

Look = Callable[[Request[Any]], Awaitable[Action | None]]


@dataclass
class Bench:
    """Workers around a look that the test makes up."""

    scheduler: Scheduler[str, Reason]
    runner: Runner[Any]
    began: float
    looks: list[tuple[float, str]] = field(default_factory=list[tuple[float, str]])
    now_running: set[str] = field(default_factory=set[str])
    most: int = 0
    twice: bool = False

    def ask(self, *names: str, **options: Any) -> None:
        for name in names:
            self.scheduler.add(web_ref(name).key, reason=CHANGED, **options)

    async def note(self, look: Look, request: Request[Any]) -> Action | None:
        name = request.ref.name
        self.looks.append((timing.now(), name))
        self.twice |= name in self.now_running
        self.now_running.add(name)
        self.most = max(self.most, len(self.now_running))
        try:
            return await look(request)
        finally:
            self.now_running.discard(name)

    @property
    def names(self) -> str:
        return "".join(name for _, name in self.looks)

    @property
    def times(self) -> list[float]:
        return [round(when - self.began, 3) for when, _ in self.looks]

    @property
    def results(self) -> list[str]:
        return [one.result for one in self.runner.history]


@asynccontextmanager
async def open_bench(
    look: Look,
    *,
    workers: int = 4,
    limit: float | None = None,
    observer: Observer | None = None,
    held: bool = False,
    deliver: Callable[[Outcome[Any]], Awaitable[None]] | None = None,
    history: int = 1000,
) -> AsyncGenerator[Bench, None]:
    scheduler: Scheduler[str, Reason] = Scheduler(held=held)
    backoff = Backoff(first=5.0, factor=2.0, cap=300.0, jitter=0.0, quiet=None)

    async def noted(request: Request[Any]) -> Action | None:
        return await bench.note(look, request)

    runner: Runner[Any] = Runner(
        scheduler,
        noted,
        name="bench",
        answering=Answering(conflicts=Conflicts(), store=store(Web)[0], backoff=backoff),
        observer=NullObserver() if observer is None else observer,
        history=History(history, ref_of=WEBS),
        ref_of=WEBS,
        timeout=limit,
        deliver=deliver,
    )
    bench = Bench(scheduler, runner, timing.now())
    tasks = [asyncio.ensure_future(runner.work()) for _ in range(workers)]
    try:
        yield bench
    finally:
        scheduler.close(drain=False)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        runner.close()


def sleeping(seconds: float) -> Look:
    async def look(_: Request[Any]) -> None:
        await asyncio.sleep(seconds)

    return look


def raising(*errors: Exception | None, then: Action | None = None) -> Look:
    """Raises these, one at each look, and returns `then` where there is none."""
    left = list(errors)

    async def look(_: Request[Any]) -> Action | None:
        error = left.pop(0) if left else None
        if error is not None:
            raise error
        return then

    return look


@virtual
async def test_one_object_is_never_looked_at_twice_at_once_and_still_as_often_as_needed() -> None:
    async with open_bench(sleeping(1.0)) as bench:
        bench.ask("a")
        await asyncio.sleep(0.1)
        bench.ask("b", "a", "a", "a", "a")
        await asyncio.sleep(5)
        assert (bench.names, bench.twice) == ("aba", False)
        assert bench.times == [0.0, 0.1, 1.0]


@virtual
async def test_a_worker_that_waits_is_woken_by_a_request() -> None:
    async with open_bench(sleeping(0.0), workers=1) as bench:
        for name in "abc":
            await asyncio.sleep(1)
            bench.ask(name)
        await asyncio.sleep(1)
        assert bench.times == [1.0, 2.0, 3.0]


@virtual
async def test_nothing_is_looked_at_before_the_gate_opens_and_what_came_twice_is_one() -> None:
    async with open_bench(sleeping(0.0), held=True) as bench:
        bench.ask("a", "b", "a")
        await asyncio.sleep(10)
        assert bench.names == ""
        bench.scheduler.release()
        await asyncio.sleep(0.1)
        assert sorted(bench.names) == ["a", "b"]


@virtual
async def test_there_are_never_more_looks_at_once_than_workers_and_the_next_begins_when_one_ends() -> None:
    async with open_bench(sleeping(1.0), workers=2) as bench:
        bench.ask("a", "b", "c")
        await asyncio.sleep(0.5)
        assert bench.names == "ab"
        await asyncio.sleep(1)
        assert (bench.names, bench.times[2], bench.most) == ("abc", 1.0, 2)
        bench.ask("a")
        await asyncio.sleep(2)
        assert bench.names == "abca"


@virtual
async def test_a_slow_object_does_not_hold_up_the_others() -> None:
    async def look(request: Request[Any]) -> None:
        await asyncio.sleep(100 if request.ref.name == "slow" else 0.1)

    async with open_bench(look, workers=2) as bench:
        bench.ask("slow", "a", "b", "c")
        await asyncio.sleep(1)
        assert bench.results == ["done"] * 3


@virtual
async def test_thousands_that_ask_to_be_looked_at_again_at_once_do_not_block_each_other() -> None:
    counts: dict[str, int] = {}

    async def look(request: Request[Any]) -> Action | None:
        counts[request.ref.name] = counts.get(request.ref.name, 0) + 1
        return requeue(0) if counts[request.ref.name] < 3 else None

    async with open_bench(look) as bench:
        bench.ask(*(f"w{number}" for number in range(5000)))
        await bench.scheduler.wait_idle()
        assert (bench.runner.history.total, set(counts.values())) == (15000, {3})
        bench.scheduler.close(drain=True)
        await asyncio.sleep(1)


@virtual
async def test_looks_that_never_wait_leave_turns_to_others() -> None:
    turns = 0

    async def count() -> None:
        nonlocal turns
        while True:
            await asyncio.sleep(0)
            turns += 1

    async def at_once(_: Request[Any]) -> None:
        return

    async with open_bench(at_once, workers=1) as bench:
        counting = asyncio.ensure_future(count())
        bench.ask(*(f"w{number}" for number in range(1000)))
        await bench.scheduler.wait_idle()
        counting.cancel()
        assert turns >= 10


@virtual
async def test_a_success_forgets_the_failures_before_it() -> None:
    async with open_bench(raising(ValueError("1"), ValueError("2"), None, ValueError("3"))) as bench:
        bench.ask("a")
        await asyncio.sleep(20)
        bench.ask("a")
        await asyncio.sleep(6)
        assert bench.times == [0.0, 5.0, 15.0, 20.0, 25.0]
        assert bench.results == ["failed", "failed", "done", "failed", "done"]


@virtual
async def test_a_failing_object_waits_and_the_others_go_on() -> None:
    async def look(request: Request[Any]) -> None:
        if request.ref.name == "bad":
            raise ValueError("no")

    async with open_bench(look, workers=1) as bench:
        bench.ask("bad", "a", "b")
        await asyncio.sleep(1)
        assert bench.results == ["failed", "done", "done"]
        bench.ask("a")
        await asyncio.sleep(5)
        assert bench.results == ["failed", "done", "done", "done", "failed"]


@virtual
async def test_the_attempt_counts_failures_in_a_row_and_the_retry_says_why() -> None:
    seen: list[tuple[int, list[str]]] = []

    async def look(request: Request[Any]) -> None:
        seen.append((request.attempt, [one.kind for one in request.reasons]))
        if request.attempt < 2:
            raise ValueError("no")

    async with open_bench(look) as bench:
        bench.ask("a")
        await asyncio.sleep(60)
        bench.ask("a")
        await asyncio.sleep(1)
        assert seen == [(0, ["changed"]), (1, ["retried"]), (2, ["retried"]), (0, ["changed"])]


@virtual
async def test_giving_up_is_not_tried_again_but_a_new_request_is_looked_at() -> None:
    async with open_bench(raising(GiveUp("no such image"), None)) as bench:
        bench.ask("a")
        await asyncio.sleep(10_000)
        assert bench.results == ["gave_up"]
        bench.ask("a")
        await asyncio.sleep(1)
        assert bench.results == ["gave_up", "done"]


@virtual
async def test_requeue_is_a_plain_delay_after_the_end_and_starts_the_backoff_again() -> None:
    look = raising(ValueError("1"), ValueError("2"), None, ValueError("3"), then=requeue(7))
    async with open_bench(look) as bench:
        bench.ask("a")
        await asyncio.sleep(28)
        assert bench.times == [0.0, 5.0, 15.0, 22.0, 27.0]
        assert bench.results == ["failed", "failed", "requeued", "failed", "requeued"]


@virtual
async def test_a_new_request_comes_before_a_far_requeue_and_replaces_it() -> None:
    async with open_bench(raising(then=requeue(600))) as bench:
        bench.ask("a")
        await asyncio.sleep(100)
        bench.ask("a")
        await asyncio.sleep(601)
        assert bench.times == [0.0, 100.0, 700.0]


@virtual
async def test_retry_and_conflict_are_no_errors_and_come_back() -> None:
    async with open_bench(raising(Retry("not yet", seconds=3), Conflict("somebody else"), None)) as bench:
        bench.ask("a")
        await asyncio.sleep(10)
        assert bench.results == ["retry", "conflict", "done"]
        assert bench.times[1] == 3.0
        assert 3.0 < bench.times[2] < 3.2
        assert not any(one.is_error for one in bench.runner.history)


@virtual
async def test_the_priority_is_kept_for_the_next_look_unless_the_action_has_one() -> None:
    seen: list[int] = []

    async def look(request: Request[Any]) -> Action | None:
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

    async with open_bench(look) as bench:
        bench.ask("a", priority=LOW)
        await asyncio.sleep(10)
        assert seen == [LOW, LOW, LOW, 7]


@virtual
async def test_what_is_no_action_is_a_failure_that_says_so() -> None:
    async def look(_: Request[Any]) -> Any:
        return 5

    async with open_bench(look) as bench:
        bench.ask("a")
        await asyncio.sleep(1)
        assert bench.results == ["failed"]
        assert "the reconciler returned 5; return requeue(...)" in str(bench.runner.history[0].error)


@virtual
async def test_a_look_that_takes_too_long_is_cancelled_and_tried_again_by_the_same_worker() -> None:
    ended: list[str] = []

    async def look(request: Request[Any]) -> None:
        try:
            await asyncio.sleep(100 if request.attempt == 0 else 1)
        except asyncio.CancelledError:
            ended.append("cancelled")
            raise

    async with open_bench(look, workers=1, limit=30.0) as bench:
        bench.ask("a")
        await asyncio.sleep(60)
        assert bench.times == [0.0, 35.0]
        assert bench.results == ["timed_out", "done"]
        assert isinstance(bench.runner.history[0].error, Deadline)
        assert ended == ["cancelled"]


@virtual
async def test_a_timeout_is_only_called_so_when_it_was_the_controllers_own() -> None:
    async def look(request: Request[Any]) -> None:
        async with asyncio.timeout(1):
            await asyncio.sleep(10)

    async with open_bench(look, limit=30.0) as bench:
        bench.ask("a")
        await asyncio.sleep(2)
        assert bench.results == ["failed"]


@virtual
async def test_each_look_has_its_own_time() -> None:
    async with open_bench(sleeping(20.0), workers=2, limit=30.0) as bench:
        for name in "abcdef":
            bench.ask(name)
            await asyncio.sleep(10)
        await asyncio.sleep(60)
        assert bench.results == ["done"] * 6


@virtual
async def test_a_look_that_swallows_its_cancellation_counts_as_what_it_returns() -> None:
    async def look(_: Request[Any]) -> None:
        try:
            await asyncio.sleep(100)
        except asyncio.CancelledError:
            return

    async with open_bench(look, workers=1, limit=1.0) as bench:
        bench.ask("a", "b")
        await asyncio.sleep(10)
        assert bench.results == ["done", "done"]


@virtual
async def test_an_error_while_being_cancelled_for_time_is_the_cause_of_the_timeout() -> None:
    async def look(_: Request[Any]) -> None:
        try:
            await asyncio.sleep(100)
        finally:
            raise KeyError("cleaning up")

    async with open_bench(look, workers=1, limit=1.0) as bench:
        bench.ask("a")
        await asyncio.sleep(2)
        assert bench.results == ["timed_out"]
        error = bench.runner.history[0].error
        assert error is not None
        assert isinstance(error.__cause__, KeyError)


@virtual
async def test_something_cancelled_that_a_look_waits_for_fails_the_look_and_not_the_worker() -> None:
    async def look(request: Request[Any]) -> None:
        if request.attempt == 0:
            task = asyncio.ensure_future(asyncio.sleep(100))
            asyncio.get_running_loop().call_later(1, task.cancel)
            await task

    async with open_bench(look, workers=1) as bench:
        bench.ask("a")
        await asyncio.sleep(10)
        assert bench.results == ["failed", "done"]
        assert "was cancelled, and not by the controller" in str(bench.runner.history[0].error)


@virtual
async def test_cancelling_a_worker_cancels_its_look_and_passes_through() -> None:
    async with open_bench(sleeping(100.0), workers=0, limit=30.0) as bench:
        bench.scheduler.add(web_ref("a").key)
        worker = asyncio.ensure_future(bench.runner.work())
        await asyncio.sleep(1)
        worker.cancel()
        await asyncio.wait([worker])
        assert worker.cancelled()
        assert (bench.results, bench.scheduler.running) == ([], 0)


@virtual
async def test_what_is_gone_is_told_and_not_tried_again() -> None:
    async def look(_: Request[Any]) -> Action:
        return GONE

    async with open_bench(look) as bench:
        bench.ask("a")
        await asyncio.sleep(100)
        assert bench.results == ["gone"]


@virtual
async def test_an_outcome_says_how_long_it_waited_and_took_and_why() -> None:
    async with open_bench(sleeping(2.0), workers=1) as bench:
        bench.ask("a", "b")
        await asyncio.sleep(10)
        first, second = bench.runner.history
        assert [round(one, 3) for one in (first.waited, first.seconds)] == [0.0, 2.0]
        assert [round(one, 3) for one in (second.waited, second.seconds)] == [2.0, 2.0]
        assert second.reasons == (CHANGED,)


class Teller:
    """Notes what it is told."""

    def __init__(self, fails: bool = False) -> None:
        self.told: list[str] = []
        self._fails = fails

    def queued(self, name: str, depth: int, /) -> None:
        self._tell(f"{name} queued {depth}")

    def started(self, name: str, ref: Ref[Any], reasons: tuple[Reason, ...], /) -> None:
        self._tell(f"{name} started {ref.name} {reasons[0].kind}")

    def finished(self, name: str, ref: Ref[Any], outcome: Outcome[Any], seconds: float, /) -> None:
        self._tell(f"{name} finished {ref.name} {outcome.result} {seconds:.0f}")

    def _tell(self, what: str) -> None:
        self.told.append(what)
        if self._fails:
            raise ValueError("an observer's bug")


@virtual
async def test_observers_are_told_and_what_they_raise_disturbs_nobody(caplog: pytest.LogCaptureFixture) -> None:
    bad, good = Teller(fails=True), Teller()
    observers = Observers([bad, good])
    with caplog.at_level(logging.ERROR):
        async with open_bench(sleeping(1.0), observer=observers) as bench:
            observers.queued("bench", 1)
            bench.ask("a")
            await asyncio.sleep(2)
    assert bad.told == good.told == ["bench queued 1", "bench started a changed", "bench finished a done 1"]
    assert "has failed: an observer's bug" in caplog.text


class Knower(NullObserver):
    """Knows a look by the very ref that it was told at its beginning."""

    def __init__(self) -> None:
        self.begun: list[Ref[Any]] = []
        self.ended: list[bool] = []

    def started(self, name: str, ref: Ref[Any], reasons: tuple[Reason, ...], /) -> None:
        self.begun.append(ref)

    def finished(self, name: str, ref: Ref[Any], outcome: Outcome[Any], seconds: float, /) -> None:
        self.ended.append(ref is self.begun[-1] is outcome.ref)


@pytest.mark.parametrize("look", [sleeping(1.0), raising(ValueError(), None), raising(then=requeue(9))])
@virtual
async def test_an_observer_is_told_of_the_end_with_the_ref_of_the_beginning(look: Look) -> None:
    knower = Knower()
    async with open_bench(look, observer=knower) as bench:
        bench.ask("a")
        await asyncio.sleep(6)
        assert (bool(knower.ended), all(knower.ended)) == (True, True)


@virtual
async def test_what_is_new_to_the_history_is_taken_in_every_so_many_looks() -> None:
    async with open_bench(raising(), workers=1) as bench:
        bench.ask(*map(str, range(2500)))
        await asyncio.sleep(1)
        history = bench.runner.history
        assert (history.total, len(history.fresh) < history.most_fresh + 4 * 64) == (2500, True)
        assert (len(history), history[-1].ref.name) == (1000, "2499")


@virtual
async def test_no_more_errors_than_asked_for_are_held_on_to_however_long_looks_take() -> None:
    errors: weakref.WeakSet[Exception] = weakref.WeakSet()

    async def look(_: Request[Any]) -> Action | None:
        await asyncio.sleep(60)
        error = Retry("not yet", seconds=86400.0)  # which is not logged, and so not held on to there
        errors.add(error)
        raise error

    async with open_bench(look, workers=1, history=1) as bench:
        bench.ask(*map(str, range(30)))
        await asyncio.sleep(20 * 60 + 1)
        gc.collect()
        assert (bench.runner.history.total, 1 <= len(errors) <= 2) == (20, True)


@virtual
async def test_failures_are_logged_with_the_object_and_what_is_only_late_is_not(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with caplog.at_level(logging.DEBUG, "levelset.runtime.controller"):
        async with open_bench(raising(Conflict("c"), ValueError("v"), GiveUp("g"))) as bench:
            bench.ask("a")
            await asyncio.sleep(20)
    by_level = [(record.levelname, record.getMessage()) for record in caplog.records if record.exc_info]
    assert by_level == [
        ("WARNING", "Website/default/a: failed, look again after 5 s: v"),
        ("ERROR", "Website/default/a: given up until something changes: g"),
    ]
    assert any("bench: Website/default/a: conflict" in record.getMessage() for record in caplog.records)
