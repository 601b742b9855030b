"""A deletion during a disconnected watch is reported as one, and unchanged objects wake no controller."""

import asyncio

from levelset.client import Call, Response, Send
from levelset.runtime.controller import Controller, running
from levelset.testing.virtual_time import virtual
from tests.runtime.cache.cluster_bench import Website, open_bench, website
from tests.runtime.controller.controller_loop import RecordingReconciler

__all__: list[str] = []


@virtual
async def test_a_deletion_that_the_watch_missed_is_reconciled_and_a_relist_wakes_no_other_object() -> None:
    refusing = False

    async def away(call: Call, send: Send) -> Response:
        if refusing and call.verb in {"list", "watch"}:
            return Response(status=410 if call.verb == "watch" else 503, body=b'{"kind":"Status","code":410}')
        return await send(call)

    async with open_bench(wire_hooks=[away]) as env:
        await env.other.create(website("stays"))
        gone = await env.other.create(website("gone"))
        recorded = RecordingReconciler()
        async with running(Controller(Website, recorded), env.cluster) as started:
            await started.wait_idle()
            recorded.clear()
            refusing = True
            env.holding.cut()
            await env.other.delete(gone.ref)
            await asyncio.sleep(5)
            refusing = False
            await asyncio.sleep(120)
            assert recorded.names == []
            assert [(one.ref.name, one.result) for one in started.history][2:] == [("gone", "gone")]
