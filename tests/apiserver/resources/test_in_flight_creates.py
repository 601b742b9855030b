import asyncio

import pytest

from levelset.apiserver.resources.in_flight_creates import Arrivals


async def test_where_nothing_is_on_its_way_nobody_waits() -> None:
    async with asyncio.timeout(0):
        await Arrivals().wait_landed("a")


async def test_one_waits_until_the_last_of_those_on_their_way_has_landed() -> None:
    arrivals = Arrivals()
    with arrivals.expect("a", "b"):
        waiting = asyncio.ensure_future(arrivals.wait_landed("a"))
        with arrivals.expect("a"):
            await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert not waiting.done()
    await waiting


async def test_what_fails_on_its_way_is_waited_for_no_longer() -> None:
    arrivals = Arrivals()
    with pytest.raises(KeyError), arrivals.expect("a"):
        raise KeyError
    await arrivals.wait_landed("a")


async def test_what_goes_elsewhere_holds_up_nobody() -> None:
    arrivals = Arrivals()
    with arrivals.expect("b"):
        await arrivals.wait_landed("a")
