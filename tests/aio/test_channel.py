"""Either end of a channel may close it; no item is lost or duplicated, and no task waits for ever."""

import asyncio

import pytest

from levelset.aio import Channel, Closed, WouldBlock, timing


def channel(capacity: int | None = 1) -> Channel[int]:
    return Channel(capacity=capacity, name="numbers")


def full(capacity: int = 1) -> Channel[int]:
    made = channel(capacity)
    for number in range(capacity):
        made.send_nowait(number)
    return made


async def ticks(count: int = 5) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


async def test_items_are_received_in_the_order_they_were_sent() -> None:
    numbers = channel(None)
    for number in range(100):
        await numbers.send(number)
    numbers.close()
    assert [number async for number in numbers] == list(range(100))


async def test_an_unbounded_channel_never_blocks_a_sender() -> None:
    numbers = channel(None)
    for number in range(10_000):
        numbers.send_nowait(number)
    assert (len(numbers), numbers.capacity) == (10_000, None)


@pytest.mark.parametrize("capacity", [0, -1])
def test_a_capacity_below_one_is_refused(capacity: int) -> None:
    with pytest.raises(ValueError, match="numbers: capacity must be at least 1"):
        channel(capacity)


async def test_a_sender_waits_until_there_is_space() -> None:
    numbers = full()
    sender = asyncio.create_task(numbers.send(1))
    await ticks()
    assert not sender.done()
    assert numbers.receive_nowait() == 0
    await sender
    assert numbers.receive_nowait() == 1


async def test_a_send_that_takes_too_long_times_out_and_has_not_sent() -> None:
    numbers = full()
    with pytest.raises(TimeoutError):
        await numbers.send(1, within=3.0)
    assert timing.now() == 3.0
    assert numbers.drain() == [0]


async def test_a_receive_that_takes_too_long_times_out_and_has_taken_nothing() -> None:
    numbers = channel()
    with pytest.raises(TimeoutError):
        await numbers.receive(within=3.0)
    await numbers.send(7)
    assert await numbers.receive() == 7


async def test_nowait_refuses_to_wait() -> None:
    with pytest.raises(WouldBlock, match=r"numbers is full \(1 items\)"):
        full().send_nowait(1)
    with pytest.raises(WouldBlock, match="numbers is empty"):
        channel().receive_nowait()


async def test_after_close_receivers_get_the_buffered_items_and_then_closed() -> None:
    numbers = full(3)
    numbers.close()
    assert numbers.is_closed
    assert [number async for number in numbers] == [0, 1, 2]
    with pytest.raises(Closed, match="numbers is closed"):
        await numbers.receive()
    with pytest.raises(Closed):
        numbers.receive_nowait()


async def test_close_raises_closed_in_senders_also_in_waiting_ones() -> None:
    numbers = full()
    waiting = [asyncio.create_task(numbers.send(number)) for number in (1, 2)]
    await ticks()
    numbers.close()
    results = await asyncio.gather(*waiting, return_exceptions=True)
    assert [type(result) for result in results] == [Closed, Closed]
    with pytest.raises(Closed):
        await numbers.send(3)
    with pytest.raises(Closed):
        numbers.send_nowait(3)
    assert numbers.drain() == [0]


async def test_a_sender_with_a_permit_has_not_sent_if_the_channel_closes() -> None:
    numbers = full()
    sender = asyncio.create_task(numbers.send(1))
    await ticks()
    assert numbers.receive_nowait() == 0
    numbers.close()
    with pytest.raises(Closed):
        await sender
    assert numbers.drain() == []


async def test_close_ends_waiting_receivers() -> None:
    numbers = channel()
    waiting = [asyncio.create_task(numbers.receive()) for _ in range(2)]
    await ticks()
    numbers.close()
    results = await asyncio.gather(*waiting, return_exceptions=True)
    assert [type(result) for result in results] == [Closed, Closed]


async def test_a_blocked_send_wakes_at_once_when_the_reader_abandons_the_channel() -> None:
    numbers = full()
    sender = asyncio.create_task(numbers.send(1))
    await ticks()
    assert numbers.abandon() == [0]
    with pytest.raises(Closed, match="abandoned by its receiver"):
        await sender
    assert timing.now() == 0.0


async def test_leaving_the_reading_block_abandons_the_channel() -> None:
    numbers = full()

    async def read_one() -> int:
        with numbers.reading() as items:
            return await items.receive()

    assert await read_one() == 0
    with pytest.raises(Closed):
        await numbers.send(1)


async def test_leaving_the_writing_block_closes_the_channel_also_by_an_error() -> None:
    numbers = channel(5)

    async def write() -> None:
        with numbers.writing() as out:
            await out.send(1)
            raise LookupError

    with pytest.raises(LookupError):
        await write()
    assert [number async for number in numbers] == [1]


async def test_waiting_senders_are_served_first_come_first_served() -> None:
    numbers = full()
    senders = [asyncio.create_task(numbers.send(number)) for number in range(1, 6)]
    await ticks()
    assert [await numbers.receive() for _ in range(6)] == [0, 1, 2, 3, 4, 5]
    await asyncio.gather(*senders)


async def test_a_new_sender_does_not_overtake_one_with_a_permit() -> None:
    numbers = full(2)
    first = asyncio.create_task(numbers.send(10))
    await ticks()
    assert numbers.drain() == [0, 1]
    second = asyncio.create_task(numbers.send(11))
    await asyncio.gather(first, second)
    assert numbers.drain() == [10, 11]


async def test_waiting_receivers_are_served_first_come_first_served() -> None:
    numbers = channel(None)
    receivers = [asyncio.create_task(numbers.receive()) for _ in range(5)]
    await ticks()
    for number in range(5):
        numbers.send_nowait(number)
    assert await asyncio.gather(*receivers) == [0, 1, 2, 3, 4]


async def test_receive_nowait_does_not_take_an_item_promised_to_a_waiting_receiver() -> None:
    numbers = channel()
    receiver = asyncio.create_task(numbers.receive())
    await ticks()
    numbers.send_nowait(1)
    with pytest.raises(WouldBlock):
        numbers.receive_nowait()
    assert numbers.drain() == []
    assert await receiver == 1


async def test_a_receiver_cancelled_as_its_item_arrives_leaves_it_to_the_next() -> None:
    numbers = channel()
    first, second = (asyncio.create_task(numbers.receive()) for _ in range(2))
    await ticks()
    numbers.send_nowait(1)
    first.cancel()
    assert await second == 1
    assert first.cancelled()


async def test_an_item_whose_receiver_was_cancelled_stays_in_the_channel() -> None:
    numbers = channel()
    receiver = asyncio.create_task(numbers.receive())
    await ticks()
    numbers.send_nowait(1)
    receiver.cancel()
    await asyncio.wait([receiver])
    assert numbers.receive_nowait() == 1


async def test_a_sender_cancelled_as_it_gets_space_leaves_it_to_the_next() -> None:
    numbers = full()
    first, second = (asyncio.create_task(numbers.send(number)) for number in (1, 2))
    await ticks()
    assert numbers.receive_nowait() == 0
    first.cancel()
    await second
    assert first.cancelled()
    assert numbers.drain() == [2]


async def test_a_receiver_gets_a_promised_last_item_if_the_first_receiver_is_cancelled() -> None:
    numbers = channel()
    first, second = (asyncio.create_task(numbers.receive()) for _ in range(2))
    await ticks()
    numbers.send_nowait(1)
    numbers.close()
    first.cancel()
    assert await second == 1


async def test_push_drops_the_oldest_of_a_full_channel() -> None:
    numbers = full(2)
    assert numbers.push(2) == 1
    assert numbers.receive_nowait() == 1
    assert numbers.push(3) == 0
    assert numbers.drain() == [2, 3]
    numbers.close()
    with pytest.raises(Closed):
        numbers.push(4)


async def test_a_push_does_not_let_a_waiting_sender_exceed_the_capacity() -> None:
    numbers = full()
    sender = asyncio.create_task(numbers.send(1))
    await ticks()
    assert numbers.receive_nowait() == 0
    numbers.push(5)
    await ticks()
    assert (len(numbers), sender.done()) == (1, False)
    assert [await numbers.receive(), await numbers.receive()] == [5, 1]
    await sender


async def test_a_thousand_timeouts_leave_no_waiters() -> None:
    numbers = channel()
    for _ in range(1000):
        with pytest.raises(TimeoutError):
            await numbers.receive(within=0.1)
    assert not numbers._receivers.waiting
    assert numbers._receivers.permits == 0


def test_the_repr_of_a_channel_describes_its_state() -> None:
    numbers = full()
    assert repr(numbers) == "<Channel 'numbers': 1 of 1>"
    numbers.close()
    assert repr(numbers) == "<Channel 'numbers': 1 of 1, closed>"
    assert repr(channel(None)) == "<Channel 'numbers': 0 unbounded>"
