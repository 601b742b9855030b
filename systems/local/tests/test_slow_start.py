"""Slow-start batches: one, two, four calls at a time, and none after a failure."""

import asyncio
from functools import partial

from levelset.errors import Forbidden
from levelset.testing import virtual
from levelset_local.slow_start import slow_start_batch


class Server:
    """Creates numbers, some of which it refuses; records the time of each request."""

    def __init__(self, *refused: int) -> None:
        self.refused = refused
        self.requests: list[tuple[float, int]] = []

    async def make(self, number: int) -> int:
        self.requests.append((asyncio.get_running_loop().time(), number))
        await asyncio.sleep(1)
        if number in self.refused:
            raise Forbidden(f"no {number}")
        return number

    @property
    def batches(self) -> list[int]:
        times = [at for at, _ in self.requests]
        return [times.count(at) for at in dict.fromkeys(times)]


@virtual
async def test_each_batch_is_twice_as_large_as_the_one_before() -> None:
    server = Server()
    done = await slow_start_batch([partial(server.make, number) for number in range(10)])
    assert (done.succeeded, done.error) == (tuple(range(10)), None)
    assert server.batches == [1, 2, 4, 3]


@virtual
async def test_no_call_is_made_after_a_failed_batch() -> None:
    server = Server(2)
    done = await slow_start_batch([partial(server.make, number) for number in range(10)])
    assert (done.succeeded, str(done.error)) == ((0, 1), "no 2")
    assert server.batches == [1, 2]


@virtual
async def test_the_size_of_the_first_batch_can_be_set() -> None:
    server = Server()
    await slow_start_batch([partial(server.make, number) for number in range(3)], first=3)
    assert server.batches == [3]


@virtual
async def test_no_calls_succeed_at_once() -> None:
    assert (await slow_start_batch([])).succeeded == ()
