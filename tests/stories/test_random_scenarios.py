"""Random user actions under random faults: the ships converge, and there are never too many."""

import asyncio
from collections import Counter
from collections.abc import Callable, Sequence
from random import Random

import pytest

from levelset import Client, Cluster, Controller
from levelset.runtime.cache import Change
from levelset.testing.faults import WRITES, conflict, delayed_watch
from levelset.testing.virtual_time import virtual
from tests.stories.fleets import Fleet, Fleets, Ship, fleet, named_ships, numbered_ships, ships_of
from tests.stories.operator_process import run_operator, until
from tests.stories.restartable_server import RestartableServer, open_restartable_server

NAMES = [f"fleet-{number}" for number in range(6)]
AN_HOUR = 3600.0


class People:
    """Random users: create, change and delete fleets, and count the ships."""

    def __init__(self, server: RestartableServer, client: Client, random: Random) -> None:
        self.wanted: dict[str, int] = {}
        self.most: Counter[str] = Counter()
        self.at_sea: Counter[str] = Counter()
        self.too_many: list[str] = []
        self._server = server
        self._client = client
        self._random = random

    async def step(self) -> None:
        """A random user action or fault."""
        chance, name = self._random.random(), self._random.choice(NAMES)
        if chance < 0.05:
            await self._server.restart(down=self._random.choice([0.5, 5.0, 40.0]))
        elif chance < 0.3:
            await asyncio.sleep(self._random.choice([0.01, 0.5, 3.0, 20.0]))
        elif name not in self.wanted:
            await self._want(name)
        elif chance < 0.45:
            del self.wanted[name]
            await self._client.delete(fleet(name).ref)
            await asyncio.sleep(60)  # not while a fleet of the same name is still being deleted
        else:
            size = self._want_size(name)
            await self._client.update((await self._client.get(fleet(name).ref)).with_spec(size=size))

    async def _want(self, name: str) -> None:
        await self._client.create(fleet(name, self._want_size(name)))

    def _want_size(self, name: str) -> int:
        size = self.wanted[name] = self._random.randrange(0, 5)
        self.most[name] = max(self.most[name], size)
        return size

    def count(self, changes: Sequence[Change[Ship]]) -> None:
        """Receives every creation and deletion of a ship."""
        for change in changes:
            if change.old is not None and change.new is not None:
                continue
            name = change.cached.head.labels.get("fleet")
            if name is not None:
                self.at_sea[name] += -1 if change.new is None else 1
                if self.at_sea[name] > self.most[name]:
                    self.too_many.append(f"{self.at_sea[name]} of {name}")

    async def are_content(self) -> bool:
        """Whether the desired state is reached."""
        ships = {name: len(found) for name, found in (await ships_of(self._client)).items()}
        statuses = {one.name: one.status and one.status.ships for one in await self._client.list(Fleet)}
        return ships == {name: size for name, size in self.wanted.items() if size} and statuses == self.wanted


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("make", [named_ships, numbered_ships])
@virtual
async def test_random_scenarios_converge(make: Callable[[], tuple[Controller[Fleet], Fleets]], seed: int) -> None:
    async with open_restartable_server(Fleet, seed=seed) as (server, client), Cluster(client) as cluster:
        people = People(server, client, Random(seed))
        handle = cluster.declare(Ship)
        handle.listen(people.count)
        hooks = (conflict(share=0.2, verbs=WRITES, seed=seed).hook(), delayed_watch(2.0).hook())
        async with run_operator(server, make()[0], hooks=hooks):
            for _ in range(80):
                await people.step()
            await until(people.are_content, within=AN_HOUR)
            await asyncio.sleep(AN_HOUR)
            assert await people.are_content()
        assert people.too_many == []
