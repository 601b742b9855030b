"""Pieces of long work share the turns of the event loop."""

import asyncio
from collections import Counter

from levelset.aio.timing import PIECES, take_turn


async def test_few_pieces_begin_at_once() -> None:
    for _ in range(3):
        steps = [take_turn() for _ in range(PIECES)]
        for step in steps:
            try:
                step.send(None)
            except StopIteration:
                continue
            raise AssertionError("it waits")
        await asyncio.sleep(0)
        await asyncio.sleep(0)


async def test_many_pieces_begin_a_few_in_each_turn_in_the_order_in_which_they_came() -> None:
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
    assert max(each.values()) == PIECES
    assert len(each) <= 300 / PIECES + 3  # no turn is left unused
    firsts = [number for _, number in begun if number >= PIECES][: 100 - PIECES]
    assert firsts == sorted(firsts)


async def test_a_cancelled_task_does_not_take_the_turn_of_another() -> None:
    async def work() -> str:
        await take_turn()
        return "done"

    tasks = [asyncio.create_task(work()) for _ in range(5 * PIECES)]
    await asyncio.sleep(0)
    for one in tasks[PIECES : 3 * PIECES]:
        one.cancel()
    async with asyncio.timeout(60):
        found = await asyncio.gather(*tasks, return_exceptions=True)
    assert found.count("done") == 3 * PIECES
    assert await work() == "done"


def test_each_event_loop_has_its_own_turns() -> None:
    async def fill() -> None:
        waiting = [asyncio.create_task(take_turn()) for _ in range(3 * PIECES)]
        await asyncio.sleep(0)
        for one in waiting:
            one.cancel()

    async def one() -> None:
        async with asyncio.timeout(60):
            await take_turn()

    asyncio.run(fill())
    asyncio.run(one())
