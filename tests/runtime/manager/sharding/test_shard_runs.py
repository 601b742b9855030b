"""Random runs with members paused, partitioned, killed and skewed: never two at one key, never one without an owner.

`LEVELSET_SHARD_RUNS=10000 pytest -m robustness -k shard_runs` makes that many; each prints nothing unless it fails.
"""

import os
import time

import pytest

from levelset.testing.virtual_time import run
from tests.runtime.manager.sharding.shard_world import CHECKED, SETTINGS, World, run_world

FIRST = int(os.environ.get("LEVELSET_SHARD_FIRST", "0"))
RUNS = int(os.environ.get("LEVELSET_SHARD_RUNS", "500"))
BLOCK = 50
LIMIT = (SETTINGS.lease + 2) / 0.95 + CHECKED
"""The longest time without an owner: by the slowest of the clocks, and as often as it is checked."""


def check(world: World, seed: int) -> None:
    story = "\n".join([f"seed {seed}", *world.story, *world.wrong])
    assert not world.wrong, story
    assert world.longest_gap <= LIMIT, f"{story}\nwithout an owner for {world.longest_gap:.2f} s"
    assert world.acts > 20, story


@pytest.mark.parametrize("seed", range(8))
def test_no_two_members_act_on_one_key_and_none_stays_without_an_owner(seed: int) -> None:
    check(run(run_world(seed)), seed)


@pytest.mark.robustness
@pytest.mark.parametrize("block", range(RUNS // BLOCK))
def test_shard_runs_by_the_thousand(block: int) -> None:
    began, longest, acts = time.monotonic(), 0.0, 0
    for seed in range(FIRST + block * BLOCK, FIRST + (block + 1) * BLOCK):
        world = run(run_world(seed))
        check(world, seed)
        longest, acts = max(longest, world.longest_gap), acts + world.acts
    seconds = time.monotonic() - began
    print(f"\n{BLOCK} runs, {acts} acts, longest {longest:.2f} s without an owner, {seconds:.0f} s")
