"""Producers, cancelled workers, holds and delays in random interleavings: nothing lost, nothing twice."""

import asyncio
import contextlib

from hypothesis import given, settings
from hypothesis import strategies as st

from levelset.aio import Closed, timing
from levelset.runtime.queue import Scheduler, TokenBucket
from tests.aio.virtual_time import run

Step = tuple[str, int]

KINDS = ["add", "add", "batch", "pair", "pair", "enqueue", "later", "start", "cancel", "hold", "release"]
KINDS += ["tick", "tick", "sleep", "revoke", "idle"]
STEPS = st.lists(st.tuples(st.sampled_from(KINDS), st.integers(0, 4)), max_size=60)


class Story:
    """One scheduler with its workers; a key that was enqueued and has not run since is owed."""

    def __init__(self, *, is_limited: bool) -> None:
        self.work: Scheduler[int, str] = Scheduler(rate=TokenBucket(5.0, 2) if is_limited else None)
        self.workers: list[asyncio.Task[None]] = []
        self.idlers: list[asyncio.Task[None]] = []
        self.owed: set[int] = set()
        self.holding: set[int] = set()

    async def worker(self) -> None:
        due = None
        while True:
            try:
                due = due or await self.work.take()
            except Closed:
                return
            key = due.key
            assert key not in self.holding
            assert key in self.owed
            self.holding.add(key)
            self.owed.discard(key)
            try:
                await timing.sleep(0.5 * (key % 3))
            except BaseException:
                self.holding.remove(key)
                self.work.done(key)
                raise
            self.holding.remove(key)
            self.work.done(key)
            due = self.work.take_nowait()

    def start(self) -> None:
        self.workers.append(asyncio.create_task(self.worker()))

    async def step(self, kind: str, number: int) -> None:
        match kind:
            case "add" | "later":
                self.owed.add(number)
                self.work.add(number, after=float(number) if kind == "later" else 0.0)
            case "enqueue":
                self.owed.add(number)
                self.work.enqueue_all([number], "test", 0)
            case "batch" | "pair":
                self.owed |= {number, number + 1}
                self.work.enqueue_all([number, number + 1, *([number] if kind == "batch" else [])], "test", 0)
            case "idle":
                self.idlers.append(asyncio.create_task(self.work.wait_idle()))
            case "start":
                self.start()
            case "cancel" if self.workers:
                self.workers[number % len(self.workers)].cancel()
            case "hold":
                self.work.hold()
            case "release":
                self.work.release()
            case "sleep":
                await timing.sleep(number / 2)
            case "revoke":
                if self.work.cancel(number):
                    self.owed.discard(number)
            case _:
                await asyncio.sleep(0)

    async def finish(self) -> None:
        self.work.release()
        self.start()
        await self.work.wait_idle(with_delayed=True)
        assert (self.owed, len(self.work)) == (set(), 0)
        self.work.close(drain=True)
        await asyncio.wait(self.workers)
        assert (self.work._woken, len(self.work._waiters), self.work.running) == (0, 0, 0)
        await asyncio.gather(*self.idlers)
        for task in self.workers:
            with contextlib.suppress(asyncio.CancelledError):
                task.result()


@settings(max_examples=200)
@given(STEPS, st.booleans())
def test_every_request_is_followed_by_a_run(steps: list[Step], is_limited: bool) -> None:
    async def main() -> None:
        story = Story(is_limited=is_limited)
        for step in steps:
            await story.step(*step)
        await story.finish()

    run(main())
