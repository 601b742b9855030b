"""The search for crashes that lose something: records a run on the simulated disk, and opens what each crash leaves."""

# ruff: noqa: ASYNC240 - files are made between one storage and the next

import asyncio
import logging
import random
import shutil
import sys
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

from levelset.errors import ConfigError, ServerFailed
from levelset.storage import Durability, SqliteStorage
from tests.robustness.simulated_disk import Crash, DiskImage, FaultPlan, SimulatedDisk, Step, cached_files, flip_bit
from tests.robustness.simulated_storage import another_boot, on_disk, short_log
from tests.robustness.write_journal import Journal, Violation, check_recovered, check_values, write_randomly

__all__ = [
    "CRASHES",
    "Outcome",
    "Recording",
    "check_crash",
    "check_flipped_bits",
    "check_power_cuts",
    "opened",
    "record",
    "record_opening",
]

CRASHES: Sequence[Crash] = ("nothing", "everything", "prefix", "subset")


@dataclass(slots=True)
class Recording:
    """What was done to the disk, and what was acknowledged when."""

    steps: list[Step]
    journal: Journal
    durability: Durability
    began: int = 0
    """The step at which the last process started."""
    opened: int = 0
    """The step from which on it showed what is in the file."""
    floor: int = 0
    """The newest revision that a process before it has made durable."""

    def durable(self, position: int) -> int:
        """The newest revision that no loss of power may take after this step."""
        if self.durability == "normal" or position < self.opened:
            return self.floor
        return self.journal.newest(position)


@dataclass(slots=True)
class Outcome:
    """How many crashes were tried, and what opening said when it refused."""

    images: int = 0
    refusals: list[str] = field(default_factory=list)


async def record(
    folder: Path,
    seed: object,
    durability: Durability,
    *,
    after: Recording | None = None,
    killed_at: int = 0,
    writers: int = 4,
    writes: int = 12,
    faults: FaultPlan | None = None,
    storage_class: type[SqliteStorage] = SqliteStorage,
) -> Recording:
    """A run of random writers in an empty folder, or on what the death of the process at a step left of another."""
    disk = SimulatedDisk(folder / "data.db")
    journal = Journal(lambda: len(disk.steps))
    recording = Recording(disk.steps, journal, durability)
    if after is not None:
        _continue(recording, after, killed_at, folder)
    try:
        with on_disk(disk):
            storage = storage_class(disk.path, durability=durability)
            if after is not None:
                _adopt(storage, journal, len(disk.steps))
            recording.opened = len(disk.steps)
            disk.faults = faults or disk.faults
            async with asyncio.TaskGroup() as group:
                for number in range(writers):
                    dice = random.Random(f"{seed} {killed_at} {number}")
                    group.create_task(write_randomly(storage, journal, f"/registry/{number}", writes, dice))
                group.create_task(_compact(storage, writes))
            disk.faults = lambda _operation, _file: None
            await storage.close()
    finally:
        disk.close()
    return recording


async def record_opening(
    folder: Path, durability: Durability, *, after: Recording, killed_at: int, faults: FaultPlan
) -> tuple[Recording, bool]:
    """Only opens what the death of a process left, with faults meanwhile; whether it was opened."""
    disk = SimulatedDisk(folder / "data.db")
    recording = Recording(disk.steps, Journal(lambda: len(disk.steps)), durability)
    _continue(recording, after, killed_at, folder)
    disk.faults = faults
    try:
        with on_disk(disk):
            storage = SqliteStorage(disk.path, durability=durability)
            recording.opened = len(disk.steps)
            disk.faults = lambda _operation, _file: None
            await storage.close()
    except ConfigError:
        return recording, False
    finally:
        disk.close()
    return recording, True


def _continue(recording: Recording, after: Recording, killed_at: int, folder: Path) -> None:
    """Begins a recording with what the death of a process at a step left of another one."""
    recording.steps.extend(after.steps[:killed_at])
    recording.began, recording.opened = killed_at, sys.maxsize
    recording.floor = after.durable(killed_at)
    for one in after.journal.attempts:
        if one.started < killed_at:
            acknowledged = one.acknowledged if one.is_acknowledged(killed_at) else None
            recording.journal.attempts.append(replace(one, acknowledged=acknowledged))
    _write_files(folder, cached_files(recording.steps))


async def check_power_cuts(
    recording: Recording,
    folder: Path,
    dice: random.Random,
    *,
    first: int = 0,
    every: int = 1,
    samples: int = 2,
) -> Outcome:
    """Cuts the power before steps of a recording, in every way; raises `Violation`.

    Nothing may be refused: a disk that only loses what was not synced damages nothing.
    """
    outcome = Outcome()
    image = DiskImage()
    offset = dice.randrange(every)
    for position, step in enumerate(recording.steps):
        if position >= first and position % every == offset:
            for crash in CRASHES:
                for _ in range(samples if crash in {"prefix", "subset"} else 1):
                    outcome.images += 1
                    await check_crash(recording, position, image.power_cut(crash, dice), folder, crash)
        image.apply(step)
    return outcome


async def check_crash(recording: Recording, position: int, files: dict[str, bytes], folder: Path, crash: str) -> None:
    """Opens what one loss of power left, and checks it; then writes, which gives a revision that is new."""
    try:
        async with opened(files, folder, recording.durability) as storage:
            floor = recording.durable(position)
            check_recovered(storage, recording.journal, position, floor=floor)
            revision = await _write_one(storage)
            if revision <= floor:
                raise Violation(f"revision {revision} is used twice: {floor} was acknowledged")
    except (Violation, ConfigError) as error:
        raise Violation(f"power cut at step {position}, {crash!r}: {error}") from error


async def check_flipped_bits(recording: Recording, folder: Path, dice: random.Random, count: int) -> Outcome:
    """Flips a bit of the files at random steps; nothing wrong may be read, nothing missed silently."""
    outcome = Outcome()
    for _ in range(count):
        position = dice.randrange(len(recording.steps) // 4, len(recording.steps))
        files = cached_files(recording.steps[:position])
        where = flip_bit(files, dice)
        outcome.images += 1
        try:
            async with opened(files, folder, recording.durability, is_power_cut=False) as storage:
                check_values(storage, recording.journal, position)
                if storage.revision < recording.journal.newest(position):
                    raise Violation(f"a flipped bit in {where} took the revision back at step {position}")
                if not storage.damaged:
                    check_recovered(storage, recording.journal, position, floor=recording.journal.newest(position))
        except ConfigError as error:
            outcome.refusals.append(str(error))
    return outcome


@asynccontextmanager
async def opened(
    files: dict[str, bytes], folder: Path, durability: Durability, *, is_power_cut: bool = True
) -> AsyncIterator[SqliteStorage]:
    """The real storage on the real SQLite, on these files."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    _write_files(folder, files)
    log = logging.getLogger("levelset.storage")
    level = log.level
    log.setLevel(logging.CRITICAL + 1)  # losses are reported with every image
    try:
        with short_log(), _boot(is_power_cut=is_power_cut):
            storage = SqliteStorage(folder / "data.db", durability=durability)
            try:
                yield storage
            finally:
                await storage.close()
    finally:
        log.setLevel(level)


@contextmanager
def _boot(*, is_power_cut: bool) -> Iterator[None]:
    if not is_power_cut:
        yield
        return
    with another_boot():
        yield


async def _write_one(storage: SqliteStorage) -> int:
    return (await storage.put("/after", b"the crash", expected=0)).revision


async def _compact(storage: SqliteStorage, times: int) -> None:
    for _ in range(times):
        await asyncio.sleep(0)
        if storage.revision > 20:
            with suppress(ServerFailed):
                await storage.compact(storage.revision - 20)


def _adopt(storage: SqliteStorage, journal: Journal, position: int) -> None:
    """Reads count as acknowledgements: what a new process shows, no later crash may take back."""
    shown = {item.value: item.revision for item in storage.list_nowait("").items}
    for one in journal.attempts:
        if one.acknowledged is None and one.value is not None and one.value in shown:
            one.acknowledged, one.revision = position, shown[one.value]
    # A deletion without a result: it has happened if what it removed is no longer there.
    present = {item.key for item in storage.list_nowait("").items}
    for one in journal.attempts:
        if one.acknowledged is None:
            one.is_refused = one.value is not None or one.key in present
            if not one.is_refused:
                one.acknowledged, one.revision = position, _deleted_at(storage, one.key)
                one.is_refused = one.revision is None


def _deleted_at(storage: SqliteStorage, key: str) -> int | None:
    watch = storage.watch("", after=storage.compacted)
    changes = watch.batch_nowait()
    watch.close_nowait()
    return next((one.revision for one in reversed(changes) if one.key == key and one.after is None), None)


def _write_files(folder: Path, files: dict[str, bytes]) -> None:
    for name, content in files.items():
        (folder / f"data.db{name}").write_bytes(content)
