"""Random writes of two clients and a delayed watch: no read is older than this client's own writes."""

import asyncio
from random import Random
from typing import Any

import pytest

from levelset.client.object_types import OnlyMetadata
from levelset.client.patches import MergePatch
from levelset.errors import AlreadyExists, NotFound
from levelset.objects import ObjectMeta, Ref
from levelset.runtime.cache.cluster import cluster_sources
from levelset.testing.virtual_time import virtual
from tests.runtime.cache.cluster_bench import Bench, Config, config, open_bench

__all__: list[str] = []

NAMES = ["a", "b", "c"]
TIERS = ["x", "y"]


class Story:
    """Remembers the version of the last own write to each name, or that it was removed."""

    def __init__(self, bench: Bench, random: Random) -> None:
        self.bench = bench
        self.random = random
        self.written: dict[str, int] = {}
        self.removed: dict[str, str] = {}
        self.known: dict[str, str] = {}
        """The tier of what this client was the last to write."""

    async def step(self) -> None:
        roll = self.random.random()
        if roll < 0.55:
            await self.write()
        elif roll < 0.75:
            (self.bench.holding.hold if roll < 0.65 else self.bench.holding.release)()
        elif roll < 0.8:
            self.bench.holding.cut()
        else:
            await asyncio.sleep(self.random.choice([0, 0.1]))
        await self.check()

    async def write(self) -> None:
        name, tier = self.random.choice(NAMES), self.random.choice(TIERS)
        is_own = self.random.random() < 0.7
        client = self.bench.client if is_own else self.bench.other
        ref = Ref(Config, name, "default")
        made: Config
        try:
            match self.random.randrange(3):
                case 0:
                    made = await client.create(config(name, str(self.random.random()), tier=tier))
                case 1:
                    labels = {"metadata": {"labels": {"tier": tier}}, "data": {"value": str(self.random.random())}}
                    made = await client.patch(ref, MergePatch(labels))
                case _:
                    found = await self.bench.other.get(ref)
                    await client.delete(ref)
                    self.known.pop(name, None)
                    if is_own:
                        self.removed[name] = found.metadata.uid
                    return
        except (AlreadyExists, NotFound):
            return
        self.known.pop(name, None)
        if is_own:
            self.written[name] = int(made.metadata.resource_version)
            self.known[name] = tier

    async def check(self) -> None:
        name = self.random.choice(NAMES)
        found = await self.bench.cluster.find(OnlyMetadata(Config), name, within=0.2)
        assert found is not None or name not in self.known, f"{name} was written, and is not shown"
        if found is not None:
            self.check_one(name, found.metadata)
        listed = await self.bench.cluster.list(Config, labels="tier=x", namespace="default", within=0.2)
        for one in listed:
            self.check_one(one.name, one.metadata)
        names = {one.name for one in listed}
        for name, tier in self.known.items():
            assert (name in names) == (tier == "x"), f"{name} is of tier {tier}"

    def check_one(self, name: str, metadata: ObjectMeta) -> None:
        assert metadata.uid != self.removed.get(name), f"{name} was removed, and is shown again"
        assert int(metadata.resource_version) >= self.written.get(name, 0), f"{name} is older than what was written"


@pytest.mark.parametrize("seed", [*range(12), 106])
@pytest.mark.parametrize("declared", [{}, {"labels": "tier=x"}], ids=["all", "selected"])
@virtual
async def test_a_read_is_never_older_than_this_clients_own_writes(seed: int, declared: dict[str, Any]) -> None:
    async with open_bench() as bench:
        bench.cluster.declare(Config, **declared)
        await bench.cluster.wait_ready()
        story = Story(bench, Random(seed))
        for _ in range(60):
            await story.step()
        bench.holding.release()
        await asyncio.sleep(600)  # long enough for a watch that was cut to come back
        await bench.cluster.list(Config, labels="tier=x")
        truth = await bench.other.list(Config, labels="tier=x")
        assert [one.name for one in await bench.cluster.list(Config, labels="tier=x")] == [one.name for one in truth]
        assert [len(source.writes) for source in cluster_sources(bench.cluster)] == [0]
