"""Many watches on one server: each gets every event, none is dropped, and other requests are answered meanwhile.

The long form, with 5,000 on a server in a process of its own, is in `tests/robustness/test_many_watches.py`.
"""

import asyncio
from functools import partial

from levelset.apiserver import ApiServer
from tests.apiserver.support.in_process_server import configmap
from tests.apiserver.support.many_watches import allow_files, open_watches

MAPS = "/api/v1/namespaces/default/configmaps"
WATCHES = 500


async def test_five_hundred_watches_get_every_event_and_the_server_answers_others() -> None:
    assert allow_files(3 * WATCHES)
    async with ApiServer(tls=False) as server, open_watches(server.url, server.token) as watches:
        await watches.open(WATCHES)
        for number in range(5):
            await watches.measure_event(partial(watches.request, "POST", MAPS, configmap(f"c{number}")))
        answers = await asyncio.gather(*(watches.request("GET", f"{MAPS}/c0") for _ in range(10)))
        assert {status for status, _ in answers} == {200}
        assert {one.events for one in watches.watches} == {5}
        assert watches.lost == 0
