"""Ten thousand random runs of the protocol on a model: members paused, partitioned, killed, skewed; never two at a key.

`make test-robustness` makes all of them (LEVELSET_MODEL_RUNS=10000 by default there), the default suite a few dozen.
What is promised about owners, and how it is measured, is said in `owner_gaps.py`.
"""

import os

import pytest

from tests.runtime.manager.sharding.model_world import ModelWorld, run_model
from tests.runtime.manager.sharding.protocol_model import TIMES

RUNS = int(os.environ.get("LEVELSET_MODEL_RUNS", "10000"))
BLOCK = 200
LIMIT = TIMES.lease + 2.0
JOIN = 2.0
"""What a process that starts when no member is left needs beyond that: to create its Lease and to list (0.4 s each),
and to be acknowledged by others that start as well (a request that is under way, a renewal, two events: 1.2 s)."""


def check(world: ModelWorld, seed: int) -> None:
    story = "\n".join([f"seed {seed}", *world.story, *world.wrong])
    gaps = world.gaps
    assert not world.wrong, story
    assert gaps.longest <= LIMIT / world.slowest, f"{story}\n{gaps.longest:.2f} s without an owner: {gaps.worst}"
    is_started = gaps.longest_start <= (LIMIT + JOIN) / world.slowest
    assert is_started, f"{story}\n{gaps.longest_start:.2f} s without a member: {gaps.worst_start}"
    assert world.number_of_acts > 20, story


def test_no_two_members_of_the_model_act_on_one_key() -> None:
    for seed in range(15):
        check(run_model(seed), seed)


def run_without_events(seed: int) -> ModelWorld:
    """A member whose watch delivers nothing for 25 seconds, while its requests succeed."""
    world = ModelWorld(seed)
    world.add()
    world.simulation.run(5.0)
    world.add()
    world.simulation.run(15.0)
    world.members[1].cut("no events")
    world.simulation.run(40.0)
    world.wrong += [f"{one.me} has lost its Lease" for one in world.members if not one.may_act()]
    return world


def test_a_member_that_sees_no_events_releases_no_lease_that_was_renewed() -> None:
    for seed in range(4):
        assert not run_without_events(seed).wrong


@pytest.mark.robustness
@pytest.mark.parametrize("block", range(RUNS // BLOCK))
def test_model_runs_by_the_thousand(block: int) -> None:
    longest, acts = 0.0, 0
    for seed in range(block * BLOCK, (block + 1) * BLOCK):
        world = run_model(seed)
        check(world, seed)
        longest, acts = max(longest, world.gaps.longest * world.slowest), acts + world.number_of_acts
    print(f"\n{BLOCK} runs, {acts} acts, longest {longest:.2f} s without an owner")
