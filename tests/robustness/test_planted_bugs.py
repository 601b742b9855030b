"""Bugs that are planted, one at a time: the suite finds each of them, within seconds."""

import asyncio
import random

import pytest

from levelset.storage import SqliteStorage, memory, mvcc, sqlite_file
from tests.robustness.crash_search import check_power_cuts, record
from tests.robustness.failpoints import FailpointMemory
from tests.robustness.test_random_clients import play_in_memory, play_on_disk
from tests.robustness.write_journal import Violation

pytestmark = pytest.mark.usefixtures("file_access")

SEEDS = range(8)


def expect_violation(play, words):
    """Plays with one seed after the other until a violation is found; it must be the one that was planted."""
    with pytest.raises(Violation, match=words):
        list(map(play, SEEDS))


async def search_crashes(folders, storage_class):
    for seed in SEEDS:
        recording = await record(folders(), seed, "full", storage_class=storage_class)
        await check_power_cuts(recording, folders(), random.Random(seed), every=3, samples=1)


class EagerStorage(SqliteStorage):
    """Acknowledges a write when it was accepted, not when it was committed."""

    async def put(self, key, value, *, expected):
        write = self.start_write(key, value, expected=expected)
        write.add_done_callback(lambda done: done.exception())
        accepted = self._pending[key][0].after if key in self._pending else None
        if accepted is None or accepted.value is not value:  # it is done, or waits for another one
            return (await write).after
        await asyncio.sleep(0)
        return accepted


class FailpointEagerStorage(EagerStorage):
    """The same, below a server, and with commits that take a while."""

    def _launch_soon(self):
        asyncio.get_running_loop().call_later(0.005, self._gather, 0)

    def _launch_now(self):
        self._launch_soon()

    async def put(self, key, value, *, expected):
        await self.failpoints.reach("before a put")
        return await super().put(key, value, expected=expected)


async def test_a_write_that_is_acknowledged_before_its_commit_is_found_by_a_loss_of_power(folders):
    with pytest.raises(Violation, match="the revision went back|not the state at any revision"):
        await search_crashes(folders, EagerStorage)


async def test_a_write_that_is_acknowledged_before_its_sync_is_found_by_a_loss_of_power(folders, monkeypatch):
    configure = sqlite_file._configure
    monkeypatch.setattr(sqlite_file, "_configure", lambda connection, _: configure(connection, "normal"))
    with pytest.raises(Violation, match="the revision went back|not the state at any revision|is used twice"):
        await search_crashes(folders, SqliteStorage)


async def test_a_restart_that_shows_what_was_not_synced_is_found_by_a_loss_of_power(folders, monkeypatch):
    monkeypatch.setattr(sqlite_file, "_empty_log", lambda _: None)
    monkeypatch.setattr(sqlite_file, "_make_log_durable", lambda _: None)
    recording = await record(folders(), 1, "full", writes=6)
    killed_at = [place for place, step in enumerate(recording.steps) if step[:2] == ("sync", "-wal")][-2]
    again = await record(folders(), 1, "full", after=recording, killed_at=killed_at, writers=1, writes=1)
    with pytest.raises(Violation, match="the revision went back"):
        await check_power_cuts(again, folders(), random.Random(1), first=killed_at)


def test_a_lost_notification_is_found(monkeypatch):
    batch_nowait = mvcc.MvccWatch.batch_nowait

    def lossy(watch):
        return [change for change in batch_nowait(watch) if change.revision % 11]

    monkeypatch.setattr(mvcc.MvccWatch, "batch_nowait", lossy)
    expect_violation(play_in_memory, "did not get revision|ends with|the object was|but the events make")


def test_a_watcher_that_is_not_woken_is_found(monkeypatch):
    wake = mvcc.MvccReads._wake

    def sleepy(reads):
        if reads.revision % 2:
            wake(reads)
        else:
            reads._mvcc.history.feeds.take_due()

    monkeypatch.setattr(mvcc.MvccReads, "_wake", sleepy)
    expect_violation(lambda seed: play_in_memory(seed, watchers=0), "ends with")


def test_a_duplicated_event_is_found(monkeypatch):
    batch_nowait = mvcc.MvccWatch.batch_nowait

    def twice(watch):
        return [change for change in batch_nowait(watch) for _ in range(1 if change.revision % 11 else 2)]

    monkeypatch.setattr(mvcc.MvccWatch, "batch_nowait", twice)
    expect_violation(play_in_memory, "an event of revision")


def test_a_reused_revision_is_found(monkeypatch):
    plan_write = mvcc.plan_write

    def forgetful(current, key, value, expected, head):
        return plan_write(current, key, value, expected, head - 1 if head % 10 == 9 else head)

    monkeypatch.setattr(memory, "plan_write", forgetful)
    expect_violation(play_in_memory, "was given to two writes|an event of revision|did not get revision|not linear")


def test_a_watch_that_starts_one_too_late_is_found():
    class LateStorage(FailpointMemory):
        def watch(self, prefix, *, after):
            return super().watch(prefix, after=min(after + 1, self.revision))

    expect_violation(lambda seed: play_in_memory(seed, LateStorage), "did not get revision|ends with|the object was")


def test_a_compare_and_swap_that_does_not_compare_is_found():
    class BlindStorage(FailpointMemory):
        async def put(self, key, value, *, expected):
            return await super().put(key, value, expected=expected if not expected else None)

    expect_violation(lambda seed: play_in_memory(seed, BlindStorage), "not linearizable")


def test_a_stale_read_is_found(folders):
    expect_violation(lambda seed: play_on_disk(seed, folders(), FailpointEagerStorage), "not linearizable|the list at")
