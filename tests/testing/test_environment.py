"""Processes inside a test: how they begin, how they die, and what is left of them."""

import pytest

from levelset import Context, Controller, Ref
from levelset.client import Answer, Call, Send
from levelset.errors import NotReady, Unreachable
from levelset.testing import open_cluster, virtual
from tests.testing.shop import Order, Parcel, make_packing, order

PARCEL = Ref(Parcel, "one")


@virtual
async def test_what_has_not_been_started_says_so_and_can_be_ended() -> None:
    async with open_cluster() as cluster:
        process = cluster.process(make_packing(), name="late")
        with pytest.raises(NotReady, match="late has not been started"):
            _ = process.controllers
        await process.stop()
        await process.kill()
        await process.wait_ended()
        assert not process.is_alive


@virtual
async def test_a_process_works_until_it_is_stopped() -> None:
    async with open_cluster() as cluster:
        process = cluster.process(make_packing())
        await process.start()
        await cluster.create(order())
        await cluster.until(PARCEL)
        assert process.is_alive
        assert list(process.controllers) == ["packing"]
        await process.stop()
        await process.wait_ended()
        assert (process.is_alive, process.error) == (False, None)
        assert cluster.processes == (process,)


@virtual
async def test_a_look_that_is_under_way_ends_with_its_process() -> None:
    async def write_twice(found: Order, ctx: Context) -> None:
        await ctx.client.create(Parcel.new("first", found.spec, namespace=found.namespace))
        try:
            await process.kill()
        finally:
            with pytest.raises(Unreachable, match="this process is dead"):
                await ctx.client.create(Parcel.new("second", found.spec, namespace=found.namespace))
            refused.append(True)

    refused: list[bool] = []
    async with open_cluster() as cluster:
        await cluster.create(order())
        process = cluster.process(Controller(Order, write_twice))
        await process.start()
        await process.wait_ended()
        assert refused
        assert [one.name for one in await cluster.list(Parcel)] == ["first"]


@virtual
async def test_what_still_runs_at_the_end_of_a_cluster_is_killed() -> None:
    async with open_cluster() as cluster:
        process = cluster.process(make_packing())
        await process.start()
        await cluster.settled()
    assert not process.is_alive
    assert process.wire.is_cut


@virtual
async def test_an_answer_that_comes_after_death_is_not_seen() -> None:
    async def kill_meanwhile(call: Call, send: Send) -> Answer:
        answer = await send(call)
        if call.method == "PATCH":
            process.wire.is_cut = True
        return answer

    async with open_cluster() as cluster:
        await cluster.create(order())
        process = cluster.process(make_packing(), faults=[kill_meanwhile])
        await process.start()
        await cluster.until(PARCEL)
        await cluster.advance(1)
        await process.kill()
        found = await cluster.expect(Ref(Order, "one"))
        assert found.status is None
