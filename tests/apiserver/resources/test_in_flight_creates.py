import asyncio

import pytest

from levelset.apiserver.resources.in_flight_creates import InFlightCreates


async def test_waiting_returns_at_once_without_in_flight_creates() -> None:
    async with asyncio.timeout(0):
        await InFlightCreates().wait_until_none("a")


async def test_waiting_ends_with_the_last_in_flight_create() -> None:
    creates = InFlightCreates()
    with creates.track("a", "b"):
        waiting = asyncio.ensure_future(creates.wait_until_none("a"))
        with creates.track("a"):
            await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert not waiting.done()
    await waiting


async def test_a_failed_create_is_no_longer_in_flight() -> None:
    creates = InFlightCreates()
    with pytest.raises(KeyError), creates.track("a"):
        raise KeyError
    await creates.wait_until_none("a")


async def test_creates_of_another_scope_do_not_block() -> None:
    creates = InFlightCreates()
    with creates.track("b"):
        await creates.wait_until_none("a")
