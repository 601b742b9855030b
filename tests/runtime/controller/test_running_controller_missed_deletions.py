"""What was deleted while a watch was away is told as a deletion, and what was there all along wakes nobody."""

import asyncio

from levelset.client import Answer, Call, Send
from levelset.runtime.controller import Controller, running
from tests.apiserver.clock import virtual
from tests.runtime.cache.held import Website, open_bench, website
from tests.runtime.controller.loops import Diary

__all__: list[str] = []


@virtual
async def test_a_deletion_that_the_watch_missed_is_looked_at_and_a_new_list_wakes_nobody_else() -> None:
    refusing = False

    async def away(call: Call, send: Send) -> Answer:
        if refusing and call.verb in {"list", "watch"}:
            return Answer(status=410 if call.verb == "watch" else 503, body=b'{"kind":"Status","code":410}')
        return await send(call)

    async with open_bench(wire_hooks=[away]) as bench:
        await bench.other.create(website("kept"))
        gone = await bench.other.create(website("gone"))
        diary = Diary()
        async with running(Controller(Website, diary), bench.cluster) as started:
            await started.wait_idle()
            diary.clear()
            refusing = True
            bench.holding.cut()
            await bench.other.delete(gone.ref)
            await asyncio.sleep(5)
            refusing = False
            await asyncio.sleep(120)
            assert diary.names == []
            assert [(one.ref.name, one.result) for one in started.history][2:] == [("gone", "gone")]
