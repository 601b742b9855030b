"""Operator processes in a test: start, stop and kill."""

import pytest

from levelset import Context, Controller, Ref
from levelset.client import Call, Response, Send
from levelset.errors import NotReady, Unreachable
from levelset.testing import open_cluster, virtual
from tests.testing.shop import Order, Parcel, make_packing, order

PARCEL = Ref(Parcel, "one")


@virtual
async def test_a_process_that_was_not_started_can_be_stopped_and_killed() -> None:
    async with open_cluster() as cluster:
        process = cluster.process(make_packing(), name="late")
        with pytest.raises(NotReady, match="late has not been started"):
            _ = process.controllers
        await process.stop()
        await process.kill()
        await process.wait_ended()
        assert not process.is_alive


@virtual
async def test_a_process_runs_until_it_is_stopped() -> None:
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
async def test_a_running_reconcile_ends_with_its_process() -> None:
    async def write_twice(found: Order, ctx: Context) -> None:
        await ctx.client.create(Parcel.new("first", found.spec, namespace=found.namespace))
        try:
            await process.kill()
        finally:
            with pytest.raises(Unreachable, match="the process was killed"):
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
async def test_processes_are_killed_when_the_cluster_closes() -> None:
    async with open_cluster() as cluster:
        process = cluster.process(make_packing())
        await process.start()
        await cluster.settled()
    assert not process.is_alive
    assert process.wire.is_cut


@virtual
async def test_a_response_after_a_kill_is_not_seen() -> None:
    async def kill_meanwhile(call: Call, send: Send) -> Response:
        response = await send(call)
        if call.method == "PATCH":
            process.wire.is_cut = True
        return response

    async with open_cluster() as cluster:
        await cluster.create(order())
        process = cluster.process(make_packing(), faults=[kill_meanwhile])
        await process.start()
        await cluster.until(PARCEL)
        await cluster.advance(1, allow_errors=Unreachable)
        await process.kill()
        found = await cluster.expect(Ref(Order, "one"))
        assert found.status is None
