"""Random runs with members paused, partitioned, killed and skewed: never two at one key, never one without an owner.

`make test-robustness` makes 500 of them; `LEVELSET_SHARD_RUNS=10000 LEVELSET_SHARD_FIRST=0 pytest -m robustness -k
shard_runs -s` makes that many from that seed on (a run takes about 0.15 s of CPU) and prints what it has seen.
"""

import gc
import os
import time

import pytest

from levelset.aio import timing
from levelset.testing.virtual_time import run
from tests.runtime.manager.sharding.shard_world import KEYS, SETTINGS, World, open_world, run_world

FIRST = int(os.environ.get("LEVELSET_SHARD_FIRST", "0"))
RUNS = int(os.environ.get("LEVELSET_SHARD_RUNS", "500"))
BLOCK = 25
LIMIT = SETTINGS.lease + 2.0
JOIN = 2.0
"""What a process that starts when no member is left needs beyond that: to create its Lease, to list, and to be
acknowledged by others that start as well."""


def check(world: World, seed: int) -> None:
    story = "\n".join([f"seed {seed}", *world.story, *world.wrong])
    assert not world.wrong, story
    gaps = world.gaps
    assert gaps.longest <= LIMIT / world.slowest, f"{story}\n{gaps.longest:.2f} s without an owner: {gaps.worst}"
    is_started = gaps.longest_start <= (LIMIT + JOIN) / world.slowest
    assert is_started, f"{story}\n{gaps.longest_start:.2f} s without a member: {gaps.worst_start}"
    assert world.acts > 20, story


@pytest.mark.parametrize("seed", range(8))
def test_no_two_members_act_on_one_key_and_none_stays_without_an_owner(seed: int) -> None:
    check(run(run_world(seed)), seed)


def test_a_process_that_cannot_release_an_expired_lease_tries_again_once_in_a_second() -> None:
    async def main() -> int:
        async with open_world(0, members=1) as world:
            await timing.sleep(5.0)
            world.members[0].kill()
            waiting = world.add()
            await timing.sleep(5.0)
            waiting.wire.cut("unreachable")
            await timing.sleep(15.0)  # the Lease has run out
            before = waiting.wire.calls
            await timing.sleep(20.0)
            return waiting.wire.calls - before

    assert 5 <= run(main()) <= 40


def test_a_process_whose_unheard_lease_was_released_joins_under_a_new_name() -> None:
    async def main() -> World:
        async with open_world(0, members=1) as world:
            await timing.sleep(5.0)
            second = world.add()
            await timing.sleep(1.0)
            name = second.member.name
            second.wire.cut("loses responses")
            await timing.sleep(25.0)  # its Lease was created, and has run out
            second.heal()
            await timing.sleep(20.0)
            assert second.member.name == f"{name}-2", "acknowledgements of the first Lease say nothing about the second"
            assert all(one.is_serving for one in world.members)
            assert all(sum(one.owns(key) for one in world.members) == 1 for key in KEYS)
        return world

    assert not run(main()).wrong


@pytest.mark.robustness
@pytest.mark.parametrize("block", range(RUNS // BLOCK))
def test_shard_runs_by_the_thousand(block: int) -> None:
    began, longest, acts = time.process_time(), 0.0, 0
    gc.freeze()  # what is there already is not searched again in each run
    for seed in range(FIRST + block * BLOCK, FIRST + (block + 1) * BLOCK):
        world = run(run_world(seed))
        check(world, seed)
        longest, acts = max(longest, world.gaps.longest * world.slowest), acts + world.acts
    seconds = time.process_time() - began
    print(f"\n{BLOCK} runs, {acts} acts, longest {longest:.2f} s without an owner, {seconds:.0f} s of CPU")
