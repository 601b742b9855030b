"""The publisher of a broadcast never waits; a slow subscriber gets what its policy says."""

import asyncio

import pytest

from levelset.aio import Broadcast, Closed, Lagged, Slow, Stream, Subscription, WouldBlock


def published(count: int, **subscription: object) -> tuple[Broadcast[int], Subscription[int]]:
    news: Broadcast[int] = Broadcast(name="news")
    subscriber = news.subscribe(**subscription)  # type: ignore[arg-type]  # each test gives the right ones
    for number in range(count):
        news.publish(number)
    return news, subscriber


async def test_every_subscriber_gets_every_item_in_order() -> None:
    news: Broadcast[int] = Broadcast()
    subscribers = [news.subscribe(slow=Slow.GROW) for _ in range(3)]
    for number in range(5):
        news.publish(number)
    news.close()
    for subscriber in subscribers:
        assert [number async for number in subscriber] == [0, 1, 2, 3, 4]


async def test_a_subscriber_that_waits_is_woken() -> None:
    news, subscriber = published(0, slow=Slow.GROW)
    waiting = asyncio.create_task(subscriber.receive())
    await asyncio.sleep(0)
    news.publish(1)
    assert await waiting == 1


async def test_a_new_subscriber_sees_only_later_items() -> None:
    news, _ = published(3, slow=Slow.GROW)
    late = news.subscribe(slow=Slow.GROW)
    news.publish(3)
    assert await late.receive() == 3
    with pytest.raises(WouldBlock):
        late.receive_nowait()


async def test_replay_last_begins_with_the_newest_item() -> None:
    news, _ = published(3, slow=Slow.GROW)
    late = news.subscribe(slow=Slow.DROP_OLDEST, capacity=1, replay_last=True)
    assert await late.receive() == 2


async def test_replay_last_of_nothing_is_nothing() -> None:
    news: Broadcast[int] = Broadcast()
    assert len(news.subscribe(slow=Slow.GROW, replay_last=True)) == 0


async def test_drop_oldest_keeps_the_newest_items_and_counts_the_missed_ones() -> None:
    news, subscriber = published(5, slow=Slow.DROP_OLDEST, capacity=2)
    assert [(await subscriber.receive(), subscriber.missed) for _ in range(2)] == [(3, 3), (4, 0)]
    news.publish(5)
    assert (await subscriber.receive(), subscriber.missed) == (5, 0)


async def test_drop_oldest_also_works_while_the_reader_is_being_woken() -> None:
    news, subscriber = published(0, slow=Slow.DROP_OLDEST, capacity=1)
    waiting = asyncio.create_task(subscriber.receive())
    await asyncio.sleep(0)
    for number in range(3):
        news.publish(number)
    assert (await waiting, subscriber.missed) == (2, 2)


async def test_close_delivers_the_buffer_then_raises_lagged_and_ends() -> None:
    news, subscriber = published(5, slow=Slow.CLOSE, capacity=2)
    assert [await subscriber.receive(), await subscriber.receive()] == [0, 1]
    with pytest.raises(Lagged, match="a subscriber of news was too slow and missed 3 items") as lagged:
        await subscriber.receive()
    assert lagged.value.missed == 3
    assert len(news) == 0
    with pytest.raises(Closed):
        await subscriber.receive()


async def test_lagging_ends_an_iteration_with_an_error_not_silently() -> None:
    _, subscriber = published(3, slow=Slow.CLOSE, capacity=1)
    seen: list[int] = []
    with pytest.raises(Lagged):
        await Stream(subscriber).map(seen.append).to_list()
    assert seen == [0]


async def test_grow_keeps_everything() -> None:
    _, subscriber = published(10_000, slow=Slow.GROW)
    assert len(subscriber) == 10_000


async def test_one_slow_subscriber_does_not_affect_another() -> None:
    news, slow = published(0, slow=Slow.CLOSE, capacity=1)
    quick = news.subscribe(slow=Slow.CLOSE, capacity=1)
    for number in range(5):
        news.publish(number)
        assert await quick.receive() == number
    assert await slow.receive() == 0
    with pytest.raises(Lagged):
        slow.receive_nowait()


async def test_leaving_the_block_empties_and_detaches_the_subscription() -> None:
    news: Broadcast[int] = Broadcast()
    async with news.subscribe(slow=Slow.GROW) as subscriber:
        news.publish(1)
        assert len(news) == 1
    assert (len(news), len(subscriber)) == (0, 0)
    news.publish(2)
    assert [number async for number in subscriber] == []


async def test_a_cancelled_reader_in_its_block_is_detached() -> None:
    news: Broadcast[int] = Broadcast()

    async def read() -> None:
        async with news.subscribe(slow=Slow.GROW) as subscriber:
            await subscriber.receive()

    reader = asyncio.create_task(read())
    await asyncio.sleep(0)
    assert len(news) == 1
    reader.cancel()
    await asyncio.wait([reader])
    assert len(news) == 0


async def test_closing_a_stream_closes_the_subscription_it_reads() -> None:
    news: Broadcast[int] = Broadcast()
    async with Stream(news.subscribe(slow=Slow.GROW)).map(str) as texts:
        news.publish(1)
        assert await anext(texts) == "1"
    assert len(news) == 0


async def test_closing_a_subscription_ends_a_reader_that_waits() -> None:
    _, subscriber = published(0, slow=Slow.GROW)
    waiting = asyncio.create_task(subscriber.receive())
    await asyncio.sleep(0)
    subscriber.close()
    with pytest.raises(Closed):
        await waiting


async def test_a_closed_broadcast_accepts_neither_items_nor_subscribers() -> None:
    news, subscriber = published(1, slow=Slow.GROW)
    news.close()
    assert news.is_closed
    with pytest.raises(Closed, match="news is closed"):
        news.publish(2)
    with pytest.raises(Closed):
        news.subscribe(slow=Slow.GROW)
    assert [number async for number in subscriber] == [0]


@pytest.mark.parametrize(("slow", "capacity"), [(Slow.GROW, 5), (Slow.CLOSE, None), (Slow.DROP_OLDEST, None)])
def test_a_policy_and_a_capacity_that_do_not_fit_are_refused(slow: Slow, capacity: int | None) -> None:
    with pytest.raises(ValueError, match="capacity"):
        Broadcast[int]().subscribe(slow=slow, capacity=capacity)
