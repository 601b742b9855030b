"""Many writes: one, two, four at a time, and no more after one that failed."""

import asyncio
from functools import partial

from levelset import Forbidden
from levelset.testing import virtual
from levelset_local.batches import do_in_batches


class Server:
    """Makes numbers, some of which it will not make; remembers when each was asked for."""

    def __init__(self, *refused: int) -> None:
        self.refused = refused
        self.asked: list[tuple[float, int]] = []

    async def make(self, number: int) -> int:
        self.asked.append((asyncio.get_running_loop().time(), number))
        await asyncio.sleep(1)
        if number in self.refused:
            raise Forbidden(f"no {number}")
        return number

    @property
    def batches(self) -> list[int]:
        times = [at for at, _ in self.asked]
        return [times.count(at) for at in dict.fromkeys(times)]


@virtual
async def test_each_batch_is_twice_as_large() -> None:
    server = Server()
    done = await do_in_batches([partial(server.make, number) for number in range(10)])
    assert (done.made, done.error) == (tuple(range(10)), None)
    assert server.batches == [1, 2, 4, 3]


@virtual
async def test_after_a_failure_nothing_more_is_tried() -> None:
    server = Server(2)
    done = await do_in_batches([partial(server.make, number) for number in range(10)])
    assert (done.made, str(done.error)) == ((0, 1), "no 2")
    assert server.batches == [1, 2]


@virtual
async def test_a_first_batch_may_be_larger() -> None:
    server = Server()
    await do_in_batches([partial(server.make, number) for number in range(3)], first=3)
    assert server.batches == [3]


@virtual
async def test_nothing_to_do_is_done() -> None:
    assert (await do_in_batches([])).made == ()
