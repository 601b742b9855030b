"""Pieces of long work share the turns of the event loop."""

import asyncio
from collections import Counter

import pytest

from levelset.aio.timing import take_turn


async def test_a_piece_begins_at_once_if_it_is_the_only_one_in_its_turn() -> None:
    for _ in range(3):
        with pytest.raises(StopIteration):
            take_turn().send(None)
        await asyncio.sleep(0)
        await asyncio.sleep(0)


async def test_of_many_pieces_one_begins_in_each_turn_in_the_order_in_which_they_came() -> None:
    turn, begun, stop = 0, list[tuple[int, int]](), asyncio.Event()

    async def clock() -> None:
        nonlocal turn
        while not stop.is_set():
            turn += 1
            await asyncio.sleep(0)

    async def work(number: int) -> None:
        for _ in range(3):
            await take_turn()
            begun.append((turn, number))

    clocked = asyncio.create_task(clock())
    await asyncio.gather(*(work(number) for number in range(100)))
    stop.set()
    await clocked
    each = Counter(at for at, _ in begun)
    assert max(each.values()) == 1
    assert max(each) - min(each) < 303  # no turn is left unused
    # The first begins at once, and has asked for its second turn before the others come.
    assert [number for _, number in begun] == [0, *range(100), *range(100), *range(1, 100)]


async def test_a_cancelled_task_does_not_take_the_turn_of_another() -> None:
    async def work() -> str:
        await take_turn()
        return "done"

    tasks = [asyncio.create_task(work()) for _ in range(5)]
    await asyncio.sleep(0)
    for one in tasks[1:3]:
        one.cancel()
    async with asyncio.timeout(60):
        found = await asyncio.gather(*tasks, return_exceptions=True)
    assert found.count("done") == 3
    assert await work() == "done"


def test_each_event_loop_has_its_own_turns() -> None:
    async def fill() -> None:
        waiting = [asyncio.create_task(take_turn()) for _ in range(3)]
        await asyncio.sleep(0)
        for one in waiting:
            one.cancel()

    async def one() -> None:
        async with asyncio.timeout(60):
            await take_turn()

    asyncio.run(fill())
    asyncio.run(one())
