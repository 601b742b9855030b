"""Disks that are full, fail or lie: what was acknowledged is there afterwards, and what was refused is not."""

import random
from contextlib import suppress

import pytest

from levelset.errors import ConfigError
from tests.robustness.budget import rounds
from tests.robustness.crash_search import check_power_cuts, opened, record, record_opening
from tests.robustness.simulated_disk import DiskImage, cached_files
from tests.robustness.write_journal import check_recovered, check_values

pytestmark = pytest.mark.usefixtures("file_access")


class FaultAt:
    """A fault plan: a fault of the nth operation of a kind on the data file or its log, and of some after it."""

    def __init__(self, operation, number, fault, *, times=1):
        self.operation, self.number, self.fault, self.times = operation, number, fault, times
        self.seen = 0
        self.struck = 0

    def __call__(self, operation, file):
        if operation != self.operation:
            return None
        self.seen += 1
        if not self.number <= self.seen < self.number + self.times:
            return None
        self.struck += 1
        return self.fault


async def check_fault(folders, seed, plan, *, durability="full", every=5):
    """Records a run with a fault, and checks what death and a loss of power leave, before and after it."""
    recording = await record(folders(), seed, durability, faults=plan)
    await check_power_cuts(recording, folders(), random.Random(seed), every=every, samples=1)
    for position in range(random.Random(seed).randrange(every), len(recording.steps), every):
        files = cached_files(recording.steps[:position])
        async with opened(files, folders(), durability, is_power_cut=False) as storage:
            check_recovered(storage, recording.journal, position, floor=recording.journal.newest(position))
    return recording


@pytest.mark.parametrize(
    ("operation", "fault"), [("sync", "error"), ("write", "error"), ("write", "short"), ("write", "full")]
)
@pytest.mark.parametrize("number", [2, 9])
async def test_after_a_fault_everything_acknowledged_is_there(folders, operation, fault, number):
    plan = FaultAt(operation, number, fault)
    recording = await check_fault(folders, 1, plan, every=40)
    assert plan.struck
    if operation == "sync" or fault != "full":
        after = [one for one in recording.journal.attempts if not one.acknowledged]
        assert after, "the writes after an I/O error are refused"


async def test_after_a_failed_sync_nothing_is_acknowledged(folders):
    plan = FaultAt("sync", 6, "error")
    recording = await record(folders(), 1, "full", faults=plan, writes=20)
    failed_at = next(place for place, step in enumerate(recording.steps) if step.kind == "failed sync")
    assert failed_at
    assert max(one.acknowledged or 0 for one in recording.journal.attempts) <= failed_at


async def test_a_restart_after_a_failed_sync_does_not_rely_on_the_memory_of_the_system(folders):
    plan = FaultAt("sync", 6, "error")
    recording = await record(folders(), 1, "full", faults=plan, writes=20)
    failed_at = next(place for place, step in enumerate(recording.steps) if step.kind == "failed sync")
    killed_at = failed_at + 1
    again = await record(folders(), 1, "full", after=recording, killed_at=killed_at, writers=1, writes=1)
    await check_power_cuts(again, folders(), random.Random(1), first=killed_at + 1, every=4, samples=1)


@pytest.mark.parametrize(("operation", "number"), [("write", 1), ("write", 4), ("write", 7), ("sync", 1), ("sync", 2)])
async def test_a_fault_while_a_file_is_opened_harms_nothing(folders, operation, number):
    recording = await record(folders(), 8, "normal" if operation == "sync" else "full", writes=6)
    killed_at = max(one.acknowledged or 0 for one in recording.journal.attempts) - 1
    plan = FaultAt(operation, number, "error")
    await check_opening(folders, recording, killed_at, plan)
    assert plan.struck


async def test_a_file_can_be_opened_on_a_full_disk(folders):
    recording = await record(folders(), 1, "full", writes=6)
    killed_at = max(one.acknowledged or 0 for one in recording.journal.attempts)
    plan = FaultAt("write", 1, "full", times=1000)
    assert await check_opening(folders, recording, killed_at, plan)
    assert plan.struck


async def check_opening(folders, recording, killed_at, plan):
    """Opens with a fault, then without: everything durable is there, after a loss of power, too."""
    again, is_open = await record_opening(folders(), "full", after=recording, killed_at=killed_at, faults=plan)
    await check_power_cuts(again, folders(), random.Random(1), first=killed_at, every=3, samples=1)
    files = cached_files(again.steps)
    async with opened(files, folders(), "full", is_power_cut=False) as storage:
        check_recovered(storage, again.journal, len(again.steps), floor=again.journal.newest(killed_at))
    return is_open


async def test_a_disk_that_loses_syncs_never_leads_to_a_wrong_value(folders):
    assert await check_lying_disk(folders, 1, every=25) > 5


async def check_lying_disk(folders, seed, *, every):
    """Syncs do nothing, some of them or all: nothing can be promised but that damage is not served."""
    dice = random.Random(seed)
    plan = FaultAt("sync", dice.randrange(1, 20), "lost", times=dice.choice([1, 3, 1000]))
    recording = await record(folders(), seed, "full", faults=plan)
    images, folder = 0, folders()
    for position, files in crash_images(recording, dice, every):
        images += 1
        with suppress(ConfigError):  # refused, with what is lost: that is what can be done
            async with opened(files, folder, "full") as storage:
                check_values(storage, recording.journal, position)
    return images


def crash_images(recording, dice, every):
    image = DiskImage()
    for position, step in enumerate(recording.steps):
        if position % every == 0:
            yield position, image.power_cut(dice.choice(["nothing", "prefix", "subset"]), dice)
        image.apply(step)


@pytest.mark.robustness
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("durability", ["full", "normal"])
async def test_faults_at_random_operations_are_survived_for_minutes(folders, durability):
    for seed in rounds(share=12):
        dice = random.Random(seed)
        operation = dice.choice(["write", "write", "sync", "truncate"])
        fault = dice.choice(["error", "full", "short"]) if operation == "write" else "error"
        plan = FaultAt(
            operation, dice.randrange(1, 120 if operation == "write" else 25), fault, times=dice.choice([1, 1, 5])
        )
        recording = await check_fault(folders, seed, plan, durability=durability)
        plan = FaultAt(operation, dice.randrange(1, 12), fault, times=dice.choice([1, 1, 5]))
        await check_opening(folders, recording, dice.randrange(len(recording.steps)), plan)
        await check_lying_disk(folders, seed, every=5)
