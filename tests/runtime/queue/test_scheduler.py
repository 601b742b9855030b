"""The scheduler on a virtual clock: workers, wake-ups, hold and close."""

import asyncio
from collections.abc import Callable

import pytest

from levelset.aio import Closed, timing
from levelset.runtime.queue import LOW, NORMAL, Due, Scheduler, TokenBucket

Work = Scheduler[str, str]


async def ticks(amount: int = 5) -> None:
    for _ in range(amount):
        await asyncio.sleep(0)


def filled(*keys: str) -> Work:
    work: Work = Scheduler()
    for key in keys:
        work.add(key)
    return work


def pending_timers() -> int:
    scheduled: list[asyncio.TimerHandle] = asyncio.get_running_loop()._scheduled  # type: ignore[attr-defined]
    return sum(not timer.cancelled() for timer in scheduled)


async def worker(work: Work, seen: list[tuple[float, str]], *, each: float = 0.0) -> None:
    """Takes keys until the end, works on each for a while, and writes down when it began."""
    try:
        while True:
            due = await work.take()
            seen.append((timing.now(), due.key))
            if each:
                await timing.sleep(each)
            work.done(due.key)
    except Closed:
        return


async def test_a_ready_key_is_taken_without_waiting() -> None:
    work = filled("a")
    turns: list[int] = []
    asyncio.get_running_loop().call_soon(turns.append, 1)
    assert (await work.take()).key == "a"
    assert turns == []
    await ticks()


async def test_a_waiting_worker_is_woken_by_a_request() -> None:
    work = filled()
    taking = asyncio.create_task(work.take())
    await ticks()
    assert work.add("a", reason="changed")
    due = await taking
    assert (due.key, due.reasons) == ("a", ("changed",))


async def test_a_delayed_key_is_taken_at_its_time() -> None:
    work = filled()
    work.add("later", after=20.0)
    work.add("sooner", at=timing.now() + 5.0)
    seen: list[tuple[float, str]] = []
    running = asyncio.create_task(worker(work, seen))
    await work.wait_idle(with_delayed=True)
    work.close(drain=True)
    await running
    assert seen == [(5.0, "sooner"), (20.0, "later")]


async def test_a_request_that_is_sooner_than_the_timer_moves_the_timer() -> None:
    work = filled()
    taking = asyncio.create_task(work.take())
    await ticks()
    work.add("a", after=100.0)
    await ticks()
    work.add("a", after=1.0)
    await taking
    assert timing.now() == 1.0


async def test_there_is_one_timer_however_many_delays() -> None:
    work = filled()
    taking = asyncio.create_task(work.take())
    await ticks()
    for number in range(1000):
        work.add(str(number), after=1000.0 - number)
    assert pending_timers() == 1
    assert (await taking).key == "999"


async def test_closing_cancels_the_timer() -> None:
    work = filled()
    taking = asyncio.create_task(work.take())
    await ticks()
    work.add("a", after=100.0)
    assert pending_timers() == 1
    work.close(drain=True)
    assert pending_timers() == 0
    with pytest.raises(Closed):
        await taking


async def test_workers_are_served_in_fifo_order() -> None:
    work = filled()
    order: list[int] = []

    async def take(number: int) -> None:
        await work.take()
        order.append(number)

    tasks = [asyncio.create_task(take(number)) for number in range(4)]
    await ticks()
    for key in "abcd":
        work.add(key)
        await ticks()
    await asyncio.gather(*tasks)
    assert order == [0, 1, 2, 3]


async def test_a_busy_worker_may_be_faster_than_the_one_that_was_woken_which_then_waits_again() -> None:
    work = filled()
    first, second = asyncio.create_task(work.take()), asyncio.create_task(work.take())
    await ticks()
    work.add("a")
    assert (due := work.take_nowait()) is not None
    await ticks()
    assert (due.key, first.done(), second.done()) == ("a", False, False)
    work.add("b")
    assert ((await first).key, second.done()) == ("b", False)
    work.add("c")
    assert (await second).key == "c"


async def test_two_workers_never_hold_one_key() -> None:
    work: Work = Scheduler()
    holding: set[str] = set()
    runs: dict[str, int] = dict.fromkeys("abc", 0)

    async def run() -> None:
        try:
            while True:
                key = (await work.take()).key
                assert key not in holding
                holding.add(key)
                await timing.sleep(1.0)
                runs[key] += 1
                holding.remove(key)
                work.done(key)
        except Closed:
            return

    workers = [asyncio.create_task(run()) for _ in range(6)]
    for second in range(10):
        for key in "abc":
            work.add(key)
        await timing.sleep(0.3 + second % 2)
    await work.wait_idle()
    work.close(drain=True)
    await asyncio.gather(*workers)
    assert all(3 <= count <= 10 for count in runs.values())


async def test_a_request_during_a_run_is_taken_once_more_after_it() -> None:
    work = filled("a")
    seen: list[tuple[float, str]] = []
    running = asyncio.create_task(worker(work, seen, each=10.0))
    await timing.sleep(1.0)
    assert not work.is_superseded("a")
    for _ in range(3):
        work.add("a")
    assert work.is_superseded("a")
    await work.wait_idle()
    work.close(drain=True)
    await running
    assert seen == [(0.0, "a"), (10.0, "a")]


@pytest.mark.parametrize("stage", ["waiting", "woken"])
async def test_a_cancelled_worker_takes_nothing(stage: str) -> None:
    work = filled()
    first, second = asyncio.create_task(work.take()), asyncio.create_task(work.take())
    await ticks()
    if stage == "woken":
        work.add("a")
    first.cancel()
    await asyncio.wait([first])
    if stage == "waiting":
        work.add("a")
    assert (await second).key == "a"
    assert (first.cancelled(), work.running, len(work)) == (True, 1, 0)


async def test_a_worker_that_is_cancelled_while_it_waits_is_removed_even_if_a_request_comes_before_it_runs() -> None:
    work = filled()
    for comes in (False, True):
        taking = asyncio.create_task(work.take())
        await ticks()
        taking.cancel()
        if comes:
            work.add("a")
        await asyncio.wait([taking])
        assert (taking.cancelled(), len(work._waiters), work.running) == (True, 0, 0)
    assert (await work.take()).key == "a"


async def test_a_request_made_while_its_key_ran_is_due_since_the_key_was_done() -> None:
    work = filled("a")
    due = await work.take()
    await timing.sleep(5.0)
    work.add("a")
    await timing.sleep(5.0)
    work.done(due.key)
    assert (await work.take()).since == 10.0


async def test_a_key_that_is_cancelled_before_the_worker_runs_is_not_taken() -> None:
    work = filled()
    first, second = asyncio.create_task(work.take()), asyncio.create_task(work.take())
    await ticks()
    work.add("a")
    assert work.cancel("a")
    await ticks()
    assert not first.done()
    work.add("b")
    work.add("c")
    assert ((await first).key, (await second).key) == ("b", "c")


async def test_no_key_is_handed_out_on_hold() -> None:
    work: Work = Scheduler(held=True)
    taking = [asyncio.create_task(work.take()) for _ in range(2)]
    for key in "aba":
        work.add(key)
    await ticks()
    assert (work.take_nowait(), work.ready) == (None, 2)
    assert not any(task.done() for task in taking)
    work.release()
    assert [(await task).key for task in taking] == ["a", "b"]


async def test_hold_keeps_a_key_from_a_worker_that_was_woken_for_it() -> None:
    work = filled()
    taking = asyncio.create_task(work.take())
    await ticks()
    work.add("a")
    work.hold()
    await timing.sleep(5.0)
    assert not taking.done()
    work.release()
    assert (await taking).key == "a"


async def test_delays_elapse_on_hold() -> None:
    work: Work = Scheduler(held=True)
    work.add("a", after=5.0)
    taking = asyncio.create_task(work.take())
    await timing.sleep(9.0)
    assert work.ready == 1
    work.release()
    assert (await taking).since == 5.0


async def test_closing_without_draining_ends_all_workers() -> None:
    work = filled("a")
    due = await work.take()
    waiting = asyncio.create_task(work.take())
    await ticks()
    work.add("a")
    work.add("b", after=1.0)
    work.close(drain=False)
    with pytest.raises(Closed, match="scheduler is closed"):
        await waiting
    with pytest.raises(Closed):
        await work.take()
    work.done(due.key)
    assert (len(work), work.running, work.is_closed) == (0, 0, True)


async def test_requests_after_closing_are_ignored_and_closing_again_is_harmless() -> None:
    work = filled()
    work.close(drain=True)
    work.close(drain=True)
    work.close(drain=False)
    work.close(drain=True)
    assert not work.add("a")
    with pytest.raises(Closed):
        await work.take()


async def test_draining_lets_ready_and_held_keys_be_taken_and_drops_the_delayed() -> None:
    work = filled("a", "b")
    first = await work.take()
    work.add("a")
    work.add("c", after=1.0)
    work.close(drain=True)
    seen: list[tuple[float, str]] = []
    others = [asyncio.create_task(worker(work, seen)) for _ in range(3)]
    await timing.sleep(5.0)
    assert (seen, work.delayed) == ([(0.0, "b")], 0)
    assert not any(task.done() for task in others)
    work.done(first.key)
    await asyncio.gather(*others)
    assert seen == [(0.0, "b"), (5.0, "a")]


async def test_draining_waits_for_running_keys() -> None:
    work = filled("a")
    seen: list[tuple[float, str]] = []
    running = asyncio.create_task(worker(work, seen, each=7.0))
    await ticks()
    work.close(drain=True)
    await work.wait_idle()
    assert timing.now() == 7.0
    await running


async def test_a_forced_close_ends_a_drain() -> None:
    work = filled("a", "b", "c")
    seen: list[tuple[float, str]] = []
    running = asyncio.create_task(worker(work, seen, each=10.0))
    await ticks()
    work.close(drain=True)
    await timing.sleep(1.0)
    work.close(drain=False)
    await running
    assert (seen, timing.now()) == ([(0.0, "a")], 10.0)


async def test_closing_on_hold_hands_out_no_key() -> None:
    work: Work = Scheduler(held=True)
    work.add("a")
    taking = asyncio.create_task(work.take())
    await ticks()
    work.close(drain=True)
    with pytest.raises(Closed):
        await taking


async def test_hold_pauses_a_drain_until_release() -> None:
    work = filled()
    taking = asyncio.create_task(work.take())
    await ticks()
    work.add("a")
    work.close(drain=True)
    work.hold()
    await timing.sleep(5.0)
    assert not taking.done()
    work.release()
    assert (await taking).key == "a"


async def test_closing_races_with_a_wake_up_without_deadlock() -> None:
    work = filled()
    tasks = [asyncio.create_task(work.take()) for _ in range(3)]
    await ticks()
    work.add("a")
    work.close(drain=True)
    results = await asyncio.gather(*tasks, return_exceptions=True)
    assert [type(one) for one in results[1:]] == [Closed, Closed]
    assert isinstance(results[0], Due)


async def test_idle_means_nothing_ready_and_nothing_running() -> None:
    work = filled()
    await work.wait_idle()
    work.add("later", after=100.0)
    await work.wait_idle()
    work.add("a")
    waiting = asyncio.create_task(work.wait_idle())
    seen: list[tuple[float, str]] = []
    running = asyncio.create_task(worker(work, seen, each=3.0))
    await waiting
    assert (timing.now(), work.delayed) == (3.0, 1)
    work.close(drain=False)
    await running


async def test_cancelling_the_last_request_makes_it_idle() -> None:
    work = filled("a")
    waiting = asyncio.create_task(work.wait_idle())
    await ticks()
    work.cancel("a")
    await waiting


async def test_a_cancelled_wait_idle_is_removed() -> None:
    work = filled("a")
    waiting = asyncio.create_task(work.wait_idle())
    await ticks()
    waiting.cancel()
    await asyncio.wait([waiting])
    assert work._idle_waiters == []


async def test_a_rate_limits_how_often_a_key_is_handed_out() -> None:
    work: Work = Scheduler(rate=TokenBucket(2.0, 2))
    seen: list[tuple[float, str]] = []
    workers = [asyncio.create_task(worker(work, seen)) for _ in range(4)]
    await ticks()
    for key in "abcdef":
        work.add(key)
    await work.wait_idle()
    work.close(drain=True)
    await asyncio.gather(*workers)
    assert seen == [(0.0, "a"), (0.0, "b"), (0.5, "c"), (1.0, "d"), (1.5, "e"), (2.0, "f")]


async def test_priorities_debounce_and_ageing_are_those_of_the_work_queue() -> None:
    work: Work = Scheduler(debounce=1.0, age=50.0)
    work.add("low", priority=LOW)
    work.add("normal")
    assert (work.next_at(), work.depths()) == (1.0, {})
    await timing.sleep(1.0)
    assert (work.depths(), sorted(work.keys())) == ({LOW: 1, 0: 1}, ["low", "normal"])
    assert (await work.take()).key == "normal"
    assert work.running_keys() == ["normal"]


async def test_a_busy_worker_never_creates_a_future(monkeypatch: pytest.MonkeyPatch) -> None:
    work = filled(*map(str, range(100)))
    loop = asyncio.get_running_loop()
    made: list[object] = []
    make: Callable[[], object] = loop.create_future

    def create_future() -> object:
        made.append(make())
        return made[-1]

    monkeypatch.setattr(loop, "create_future", create_future)
    for _ in range(100):
        due = await work.take()
        work.done(due.key)
    assert made == []


async def test_the_repr_shows_the_state() -> None:
    work = filled("a")
    assert repr(work) == "<Scheduler 'scheduler', open: 1 ready, 0 delayed, 0 running>"
    work.close(drain=False)
    assert "closed" in repr(work)


def test_it_must_be_created_inside_a_running_loop() -> None:
    with pytest.raises(RuntimeError, match="no running event loop"):
        Scheduler()


async def test_many_keys_enqueued_again_at_once_do_not_deadlock() -> None:
    work = filled(*map(str, range(5000)))
    runs = 0

    async def run() -> None:
        nonlocal runs
        try:
            while True:
                due = await work.take()
                await asyncio.sleep(0)
                runs += 1
                if runs <= 10_000:
                    work.add(due.key)
                work.done(due.key)
        except Closed:
            return

    workers = [asyncio.create_task(run()) for _ in range(10)]
    await work.wait_idle()
    work.close(drain=True)
    await asyncio.gather(*workers)
    assert runs == 15_000


async def test_enqueue_all_counts_only_new_requests() -> None:
    work: Work = Scheduler(held=True)
    assert work.enqueue_all(["a"], "first", NORMAL) == 1
    assert work.enqueue_all(["b", "a", "c"], "batch", NORMAL) == 2
    work.add("d")
    assert (work.adds, work.ready, work.keys()) == (3, 4, ["a", "b", "c", "d"])
    work.release()
    assert [(await work.take()).reasons for _ in range(3)] == [("first", "batch"), ("batch",), ("batch",)]
    work.close(drain=False)
    assert work.enqueue_all(["e"], "late", NORMAL) == 0


async def test_a_request_made_while_its_key_ran_is_taken_after_the_others() -> None:
    work: Work = Scheduler()
    work.enqueue_all(["a", "b"], "batch", NORMAL)
    first = await work.take()
    work.enqueue_all(["a"], "again", NORMAL)
    found: list[Due[str, str] | None] = []
    for key in (first.key, "b", "a"):
        work.done(key)
        found.append(work.take_nowait())
    assert [(due.key, due.reasons) for due in found if due] == [("b", ("batch",)), ("a", ("again",))]
    assert (found[-1], work.running, len(work)) == (None, 0, 0)


async def test_a_timer_without_a_due_time_of_its_own_is_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    """The handles of uvloop have no `when` for timers that are due at once."""
    monkeypatch.delattr(asyncio.TimerHandle, "when")
    work: Work = Scheduler()
    seen: list[tuple[float, str]] = []
    running = asyncio.create_task(worker(work, seen))
    await ticks()
    work.add("a", after=0.0004)
    work.add("b", after=2.0)
    work.add("c", after=1.0)
    await work.wait_idle(with_delayed=True)
    work.close(drain=True)
    await running
    assert seen == [(0.0004, "a"), (1.0, "c"), (2.0, "b")]


async def test_a_drain_drops_a_delayed_request_made_before_the_end_of_its_key() -> None:
    work = filled("a")
    due = await work.take()
    work.add("a", after=5.0)
    work.close(drain=True)
    work.done(due.key)
    assert (len(work), work.delayed) == (0, 0)
    with pytest.raises(Closed):
        await work.take()


async def test_a_drain_hands_out_a_delayed_request_whose_time_has_come_while_no_worker_waited() -> None:
    work = filled()
    work.add("due", after=1.0)
    work.add("later", after=9.0)
    await timing.sleep(2.0)
    work.close(drain=True)
    assert ((await work.take()).key, work.keys()) == ("due", [])


async def test_a_woken_worker_that_is_cancelled_leaves_the_wake_ups_of_the_others_as_they_were() -> None:
    work = filled()
    first, second = asyncio.create_task(work.take()), asyncio.create_task(work.take())
    await ticks()
    work.add("a")
    first.cancel()
    await asyncio.wait([first])
    assert (await second).key == "a"
    third = asyncio.create_task(work.take())
    await ticks()
    work.add("b", after=5.0)
    assert ((await third).key, timing.now()) == ("b", 5.0)


async def test_a_drain_drops_the_delayed_requests_at_once_and_not_when_the_running_keys_are_done() -> None:
    work = filled("running")
    due = await work.take()
    work.add("later", after=1.0)
    work.close(drain=True)
    assert (work.keys(), work.next_at()) == ([], None)
    await timing.sleep(2.0)
    assert work.take_nowait() is None
    work.done(due.key)
