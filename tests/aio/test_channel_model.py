"""Any interleaving of senders, receivers, cancellations and closing, against a plain list.

What `send` said it sent is received exactly once, in the order in which it was sent; what it said it did not send never
turns up; no reader waits for a buffered item; waiters are served first come, first served.
"""

import asyncio
import contextlib
from collections.abc import Callable

from hypothesis import given, settings
from hypothesis import strategies as st

from levelset.aio import Channel, Closed, WouldBlock
from tests.aio.virtual_time import run

Plan = list[tuple[str, int]]

capacities = st.none() | st.integers(1, 3)
ACTIONS = ["send", "send", "receive", "receive", "put", "take", "cancel", "tick", "drain"]


@st.composite
def plans(draw: st.DrawFn, *ends: str) -> Plan:
    """Random steps, perhaps followed by a close and a few more steps."""
    steps = st.tuples(st.sampled_from(ACTIONS), st.integers(0, 7))
    end: Plan = [(kind, 0) for kind in draw(st.lists(st.sampled_from(ends), max_size=1))]
    return [*draw(st.lists(steps, min_size=20, max_size=60)), *end, *draw(st.lists(steps, max_size=10))]


class History:
    """Drives one channel and records its results."""

    def __init__(self, capacity: int | None) -> None:
        self.channel: Channel[int] = Channel(capacity=capacity)
        self.sent: list[int] = []
        self.sent_by_waiting: list[int] = []
        self.refused: list[int] = []
        self.received: list[int] = []
        self.served: list[int] = []
        self.dropped: list[int] = []
        self.senders: list[asyncio.Task[None]] = []
        self.receivers: list[asyncio.Task[None]] = []
        self.next = 0

    async def send(self, item: int) -> None:
        try:
            await self.channel.send(item)
        except BaseException as error:
            assert self.channel.is_closed or not isinstance(error, Closed)
            self.refused.append(item)
            raise
        self.sent.append(item)
        self.sent_by_waiting.append(item)

    async def receive(self, number: int) -> None:
        try:
            self.received.append(await self.channel.receive())
        except Closed:
            assert self.channel.is_closed
            assert not len(self.channel)
            raise
        self.served.append(number)

    def put(self, item: int) -> None:
        try:
            self.channel.send_nowait(item)
        except (Closed, WouldBlock):
            self.refused.append(item)
        else:
            self.sent.append(item)

    def take(self) -> None:
        with contextlib.suppress(Closed, WouldBlock):
            self.received.append(self.channel.receive_nowait())

    def cancel(self, which: int) -> None:
        tasks = [task for task in (*self.senders, *self.receivers) if not task.done()]
        if tasks:
            tasks[-1 - which % len(tasks)].cancel()

    def number(self) -> int:
        self.next += 1
        return self.next

    async def step(self, kind: str, which: int) -> None:
        actions: dict[str, Callable[[], object]] = {
            "send": lambda: self.senders.append(asyncio.create_task(self.send(self.number()))),
            "receive": lambda: self.receivers.append(asyncio.create_task(self.receive(self.number()))),
            "put": lambda: self.put(self.number()),
            "take": self.take,
            "drain": lambda: self.received.extend(self.channel.drain()),
            "cancel": lambda: self.cancel(which),
            "close": self.channel.close,
            "abandon": lambda: self.dropped.extend(self.channel.abandon()),
            "tick": lambda: None,
        }
        actions[kind]()
        if kind == "tick":
            await asyncio.sleep(0)
        assert self.channel.capacity is None or len(self.channel) <= self.channel.capacity

    async def play(self, plan: Plan) -> None:
        for kind, which in plan:
            await self.step(kind, which)
        for _ in range(len(plan) + 5):
            await asyncio.sleep(0)
        self.assert_no_reader_waits_for_a_buffered_item()
        self.channel.close()
        results = await asyncio.gather(*self.senders, *self.receivers, return_exceptions=True)
        assert all(result is None or isinstance(result, Closed | asyncio.CancelledError) for result in results)
        self.received += self.channel.drain()

    def assert_no_reader_waits_for_a_buffered_item(self) -> None:
        reading = [task for task in self.receivers if not task.done()]
        sending = [task for task in self.senders if not task.done()]
        assert not reading or not len(self.channel)
        assert not sending or len(self.channel) == self.channel.capacity
        assert not (reading or sending) or not self.channel.is_closed
        for line, waiting in ((self.channel._senders, sending), (self.channel._receivers, reading)):
            assert (len(line.waiting), line.permits) == (len(waiting), 0)


@settings(max_examples=150, deadline=None)
@given(capacities, plans("close", "abandon"))
def test_no_item_is_lost_duplicated_or_reordered(capacity: int | None, plan: Plan) -> None:
    async def example() -> None:
        history = History(capacity)
        await history.play(plan)
        assert sorted(history.received + history.dropped) == sorted(history.sent)
        assert history.received == [item for item in history.sent if item not in set(history.dropped)]
        assert not set(history.refused) & set(history.sent)

    run(example())


@settings(max_examples=150, deadline=None)
@given(capacities, plans("close"))
def test_waiters_are_served_first_come_first_served(capacity: int | None, plan: Plan) -> None:
    async def example() -> None:
        history = History(capacity)
        await history.play(plan)
        assert history.sent_by_waiting == sorted(history.sent_by_waiting)
        assert history.served == sorted(history.served)

    run(example())
