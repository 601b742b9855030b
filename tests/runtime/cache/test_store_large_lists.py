"""Large lists: filling a cache does not block the event loop for long."""

import asyncio
from collections.abc import Callable

import pytest

from levelset.apiserver import ApiServer
from levelset.client.client import Client
from levelset.runtime.cache.shared_informers import Informers
from levelset.storage import MemoryStorage
from tests.runtime.cache.cluster_bench import Config

MANY = 20_000
FEW = 1000


def filled() -> MemoryStorage:
    storage = MemoryStorage()
    for number in range(MANY):
        metadata = f'{{"name":"c{number:05}","namespace":"default","uid":"u{number}","labels":{{"a":"b"}}}}'
        value = f'{{"apiVersion":"v1","kind":"ConfigMap","metadata":{metadata},"data":{{"k":"{"x" * 200}"}}}}'
        storage.put_nowait(f"/registry/core/configmaps/default/c{number:05}", value.encode(), expected=0)
    return storage


class Pulse:
    """Counts the objects written between two iterations of the loop, for which every other task has to wait."""

    def __init__(self, count: Callable[[], int]) -> None:
        self.most = self.turns = 0
        self._count = count
        self._task = asyncio.create_task(self._beat(), name="pulse")

    async def _beat(self) -> None:
        last = 0
        while True:
            await asyncio.sleep(0)
            now = self._count()
            self.most = max(self.most, now - last)
            self.turns += 1
            last = now

    async def stop(self) -> None:
        self._task.cancel()
        await asyncio.wait([self._task])


@pytest.mark.parametrize("streaming", [True, False])
async def test_a_large_list_is_written_in_small_slices_that_let_other_tasks_run(
    streaming: bool,
) -> None:
    server = ApiServer(filled())
    await server.start(listen=False)
    async with await Client.connect(server) as client, Informers(client, streaming=streaming) as informers:
        settings = informers.open(Config)
        table = settings.informer.table
        pulse = Pulse(lambda: len(table.fresh if table.fresh is not None else table.cached))
        await settings.wait_ready(within=15)
        await pulse.stop()
        assert len(settings.store) == MANY
        assert pulse.most <= FEW
        assert pulse.turns >= MANY // FEW
    await server.stop()
