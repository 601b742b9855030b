"""Loss of power at every write: full durability loses nothing, normal leaves the state at one revision."""

import random

import pytest

from tests.robustness.budget import rounds
from tests.robustness.crash_search import check_flipped_bits, check_power_cuts, record

pytestmark = pytest.mark.usefixtures("file_access")


@pytest.mark.parametrize("durability", ["full", "normal"])
async def test_a_loss_of_power_at_some_writes_is_survived(folders, durability):
    recording = await record(folders(), 1, durability)
    outcome = await check_power_cuts(recording, folders(), random.Random(1), every=16, samples=1)
    assert outcome.images > 40


async def test_a_loss_of_power_while_a_file_is_made_is_survived(folders):
    recording = await record(folders(), 0, "full", writers=1, writes=1)
    del recording.steps[16:]
    outcome = await check_power_cuts(recording, folders(), random.Random(0), samples=6)
    assert outcome.images > 100


async def test_a_run_on_the_simulated_disk_is_the_same_each_time(folders):
    one, other = [await record(folders(), 3, "full", writes=4) for _ in range(2)]
    assert [step[:3] for step in one.steps] == [step[:3] for step in other.steps]
    assert {step.kind for step in one.steps} >= {"write", "sync", "truncate", "delete"}


@pytest.mark.parametrize("before", ["full", "normal"])
async def test_a_restarted_server_shows_nothing_that_a_loss_of_power_can_take_back(folders, before):
    # The process dies between writing a commit and syncing it: the next one finds it in the memory of the system.
    recording = await record(folders(), 1, before, writes=6)
    kills = [place for place, step in enumerate(recording.steps) if step[:2] == ("sync", "-wal")][-4:-1]
    if before == "normal":
        kills = [max(one.acknowledged or 0 for one in recording.journal.attempts)]
    for killed_at in kills:
        again = await record(folders(), 1, "full", after=recording, killed_at=killed_at, writers=1, writes=1)
        await check_power_cuts(again, folders(), random.Random(1), first=killed_at + 1, every=4, samples=1)


@pytest.mark.parametrize("durability", ["full", "normal"])
async def test_a_flipped_bit_is_noticed_or_does_no_harm(folders, durability):
    recording = await record(folders(), 2, durability)
    outcome = await check_flipped_bits(recording, folders(), random.Random(2), 25)
    assert outcome.images == 25
    assert outcome.refusals


@pytest.mark.robustness
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("durability", ["full", "normal"])
async def test_a_loss_of_power_at_every_write_is_survived_for_minutes(folders, durability):
    for seed in rounds(share=12):
        dice = random.Random(seed)
        recording = await record(folders(), seed, durability, writers=dice.randint(1, 6), writes=dice.randint(2, 20))
        await check_power_cuts(recording, folders(), dice, every=dice.randint(1, 3))


async def test_the_remains_of_a_commit_of_a_killed_process_do_not_come_back(folders):
    # The next process wrote its first commit over them in the log: one page of it was the same.
    await check_kills_and_power_cuts(folders, 100034)


async def check_kills_and_power_cuts(folders, seed):
    dice = random.Random(seed)
    recording = await record(folders(), seed, dice.choice(["full", "normal"]), writes=dice.randint(2, 12))
    for _ in range(dice.randint(1, 3)):
        killed_at = dice.randrange(recording.began, len(recording.steps))
        durability = dice.choice(["full", "normal"])
        recording = await record(
            folders(), seed, durability, after=recording, killed_at=killed_at, writes=dice.randint(1, 6)
        )
    await check_power_cuts(recording, folders(), dice, first=recording.began, every=3, samples=1)


@pytest.mark.robustness
@pytest.mark.timeout(3600)
async def test_kills_and_then_a_loss_of_power_are_survived_for_minutes(folders):
    for seed in rounds(share=8):
        await check_kills_and_power_cuts(folders, seed)


@pytest.mark.robustness
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("durability", ["full", "normal"])
async def test_flipped_bits_are_noticed_or_do_no_harm_for_minutes(folders, durability):
    for seed in rounds(share=24):
        recording = await record(folders(), seed, durability)
        await check_flipped_bits(recording, folders(), random.Random(seed), 100)
