"""Stopping a run ends all its processes, and no others."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Iterable

import pytest

from levelset.aio import timing
from levelset_machine import Ended, Identity, LogStore, Machine, StopFailed, identity_of, is_alive
from levelset_machine.process.table import Entry, read_entry
from levelset_machine.process.termination import SharedTable, stop_run
from systems.machine.tests.support import command, first_line, python, read, shell, wait_until

IGNORES_TERM = "trap '' TERM; echo ready; while :; do sleep 0.01; done"

IGNORES_TERM_CHILD = "trap '' TERM; sh -c 'echo $PPID'; while :; do sleep 0.01; done"


@pytest.fixture
async def machine() -> AsyncIterator[Machine]:
    async with Machine(guard=False, grace=0.0) as machine:
        yield machine


@pytest.fixture
def logs() -> LogStore:
    return LogStore(None)


async def child_of(logs: LogStore) -> Identity:
    """The process whose pid is the first line of the log."""
    found = identity_of(int(await first_line(logs, "web")))
    assert found is not None
    return found


async def test_a_process_gets_a_signal_and_may_clean_up(machine: Machine, logs: LogStore) -> None:
    script = "trap 'echo bye; exit 7' TERM; echo ready; while :; do sleep 0.01; done"
    run = machine.start(shell(script), out=logs.open("web"))
    assert await first_line(logs, "web") == b"ready"
    await machine.stop(run)
    assert run.ended is not None
    assert (run.ended.code, await read(logs, "web", follow=True)) == (7, b"ready\nbye\n")


async def test_the_caller_chooses_the_signal(machine: Machine, logs: LogStore) -> None:
    run = machine.start(command("/bin/sleep", "600"), out=logs.open("web"))
    await machine.stop(run, signal=signal.SIGINT)
    assert run.ended is not None
    assert run.ended.code == 130


async def test_a_process_that_ignores_the_signal_is_killed(machine: Machine, logs: LogStore) -> None:
    run = machine.start(shell(IGNORES_TERM), out=logs.open("web"))
    assert await first_line(logs, "web") == b"ready"
    await machine.stop(run, grace=0.01)
    assert run.ended is not None
    assert run.ended.code == 137


async def test_a_stopped_process_is_killed(machine: Machine, logs: LogStore) -> None:
    run = machine.start(shell("trap 'exit 7' TERM; echo ready; while :; do sleep 0.01; done"), out=logs.open("web"))
    assert await first_line(logs, "web") == b"ready"
    os.kill(run.identity.pid, signal.SIGSTOP)
    await machine.stop(run, grace=0.01)
    assert run.ended is not None
    assert run.ended.code == 137


async def test_the_children_of_a_process_end_with_it(machine: Machine, logs: LogStore) -> None:
    run = machine.start(shell("sleep 600 & echo $!; wait"), out=logs.open("web"))
    child = await child_of(logs)
    await machine.stop(run)
    assert not is_alive(child)


async def test_children_that_ignore_the_signal_end_with_it(machine: Machine, logs: LogStore) -> None:
    run = machine.start(shell(f"({IGNORES_TERM_CHILD}) & wait"), out=logs.open("web"))
    child = await child_of(logs)
    assert child != run.identity
    await machine.stop(run)
    assert not is_alive(child)


DAEMON = """
import os, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        print(os.getpid(), flush=True)
        time.sleep(600)
    os._exit(0)
os.wait()
"""


@pytest.mark.parametrize("last", ["", "time.sleep(600)"], ids=["whose parent ended", "whose parent goes on"])
async def test_a_grandchild_in_its_own_session_is_ended(machine: Machine, logs: LogStore, last: str) -> None:
    run = machine.start(python(DAEMON + last), out=logs.open("web"))
    child = await child_of(logs)
    if not last:
        await run.wait()
    await machine.stop(run)
    assert not is_alive(child)


UNMARKED = """
import os, time
if os.fork() == 0:
    os.setsid()
    print(os.getpid(), flush=True)
    os.execve("/bin/sleep", ["sleep", "600"], {})
time.sleep(600)
"""


async def test_a_child_without_marker_is_collected_before_its_parent_exits(machine: Machine, logs: LogStore) -> None:
    run = machine.start(python(UNMARKED), out=logs.open("web"))
    child = await child_of(logs)
    await machine.stop(run)
    assert not is_alive(child)


async def test_stopping_a_run_that_has_ended_changes_nothing(machine: Machine, logs: LogStore) -> None:
    run = machine.start(command("/bin/true"), out=logs.open("web"))
    ended = await run.wait()
    await machine.stop(run)
    assert run.ended is ended


async def test_other_runs_are_not_affected(machine: Machine, logs: LogStore) -> None:
    one = machine.start(command("/bin/sleep", "600"), out=logs.open("one"))
    other = machine.start(command("/bin/sleep", "600"), out=logs.open("other"))
    await machine.stop(one)
    assert (other.ended, is_alive(other.identity)) == (None, True)


async def test_many_runs_are_stopped_concurrently(machine: Machine, logs: LogStore) -> None:
    runs = [machine.start(shell("sleep 600 & wait"), out=logs.open(str(number))) for number in range(50)]
    await asyncio.gather(*(machine.stop(run) for run in runs))
    assert not any(is_alive(run.identity) for run in runs)


async def test_a_run_can_be_stopped_twice_concurrently(machine: Machine, logs: LogStore) -> None:
    run = machine.start(command("/bin/sleep", "600"), out=logs.open("web"))
    await asyncio.gather(machine.stop(run), machine.stop(run))
    assert run.ended is not None


class ReusedPid:
    """A run whose process has ended, and whose pid the parent of this process has now."""

    def __init__(self) -> None:
        parent = identity_of(os.getppid())
        assert parent is not None
        self.identity = Identity(parent.pid, parent.started - 1)
        self.ended: Ended | None = Ended(0, Machine(guard=False).now())
        self.marker = ""

    async def wait(self) -> Ended:
        assert self.ended is not None
        return self.ended

    def send(self, number: int) -> None:
        raise AssertionError("a signal for a process that has ended")


async def test_a_process_with_a_reused_pid_is_never_signalled(machine: Machine) -> None:
    gone = ReusedPid()
    await machine.stop(gone)
    await stop_run(gone, SharedTable(), grace=0.0, signal=signal.SIGTERM)
    assert os.getppid() == gone.identity.pid


class Ends(ReusedPid):
    """A run that has ended, and whose processes have a marker."""

    def __init__(self) -> None:
        super().__init__()
        self.marker = "run.1"


class GrowingTable(SharedTable):
    """A process table in which the second process appears when the first one was killed, and must then be stopped."""

    def __init__(self, children: list[int]) -> None:
        super().__init__()
        self._children = children
        self.readings = 0

    async def fresh(self) -> list[Entry]:
        self.readings += 1
        if self.readings == 3:
            await wait_until(lambda: state_of(self._children[1]) == "T")
        entries = [read_entry(pid) for pid in self._children[: self.readings]]
        return [one._replace(marker="run.1", parent=1) for one in entries if one is not None]


def state_of(pid: int) -> str:
    entry = read_entry(pid)
    return "" if entry is None else entry.state


async def test_processes_that_appear_while_a_run_is_killed_are_stopped_before_they_are_killed() -> None:
    children = [await asyncio.create_subprocess_exec("/bin/sleep", "600") for _ in range(2)]
    tables = GrowingTable([one.pid for one in children])
    await stop_run(Ends(), tables, grace=0.0, signal=signal.SIGTERM)
    assert [await one.wait() for one in children] == [-signal.SIGKILL, -signal.SIGKILL]
    assert tables.readings > 3


class Clock:
    """A clock that only readings of the table advance, by a second each."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.seconds = 0.0
        monkeypatch.setattr(timing, "now", lambda: self.seconds)


class ScriptedTable(SharedTable):
    """A table whose readings are given: the processes that each shows as alive, and those that have ended before it."""

    def __init__(self, clock: Clock, readings: Iterable[tuple[list[int], list[int]]]) -> None:
        super().__init__()
        self._clock = clock
        self._readings = iter(readings)
        self._started: dict[int, int] = {}

    async def fresh(self) -> list[Entry]:
        shown, ended = next(self._readings)
        await wait_until(lambda: all(state_of(pid) in ("", "Z") for pid in ended))
        self._clock.seconds += 1
        return [Entry(pid, self._started_at(pid), 1, pid, "S", "run.1") for pid in shown]

    def _started_at(self, pid: int) -> int:
        entry = read_entry(pid)
        return self._started.setdefault(pid, 1 if entry is None else entry.started)


async def test_a_run_is_not_given_up_while_more_and_more_of_its_processes_end(monkeypatch: pytest.MonkeyPatch) -> None:
    children = [await asyncio.create_subprocess_exec("/bin/sleep", "600") for _ in range(6)]
    # Each is stopped when it is shown for the first time, killed at the second, and has ended at the third.
    readings = [([one.pid], ended) for one in children for ended in ([], [], [one.pid])]
    readings[1:2] = []  # but for the first, which is killed at once
    tables = ScriptedTable(Clock(monkeypatch), [*readings, ([], [])])
    await stop_run(Ends(), tables, grace=0.0, signal=signal.SIGTERM, kill_timeout=4.0)
    assert [await one.wait() for one in children] == [-signal.SIGKILL] * 6


async def test_a_run_has_ended_only_when_a_reading_shows_none_of_its_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = [(await asyncio.create_subprocess_exec("/bin/sleep", "600")) for _ in range(2)]
    one, other = first.pid, second.pid
    # The second reading saw the first process just before its end, and not the other one, which it has forked.
    readings = [([one], []), ([one], [one]), ([other], []), ([other], []), ([], [other])]
    await stop_run(Ends(), ScriptedTable(Clock(monkeypatch), readings), grace=0.0, signal=signal.SIGTERM)
    assert [await first.wait(), await second.wait()] == [-signal.SIGKILL] * 2


async def test_a_program_that_forks_faster_than_it_is_killed_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock(monkeypatch)
    unused = range(2**22 + 1, 2**22 + 1000)  # beyond the largest pid
    with pytest.raises(StopFailed):
        await stop_run(
            Ends(), ScriptedTable(clock, (([pid], []) for pid in unused)), grace=0, signal=15, kill_timeout=2.0
        )
    assert clock.seconds == 21


class Unstoppable(ReusedPid):
    """A run that ignores all signals."""

    def __init__(self) -> None:
        super().__init__()
        self.ended = None
        self.signals = list[int]()

    async def wait(self) -> Ended:
        await asyncio.Event().wait()
        raise AssertionError("it ended")

    def send(self, number: int) -> None:
        self.signals.append(number)


async def test_a_process_that_survives_sigkill_is_reported() -> None:
    run = Unstoppable()
    with pytest.raises(StopFailed, match=f"{run.identity.pid} was killed, but"):
        await stop_run(run, SharedTable(), grace=0.0, signal=signal.SIGTERM, kill_timeout=0.01)
    assert run.signals == [signal.SIGTERM, signal.SIGKILL]


async def test_a_fresh_table_was_read_after_it_was_requested() -> None:
    tables = SharedTable()
    one, two, three = await asyncio.gather(tables.fresh(), tables.fresh(), tables.fresh())
    # The first was being read when the other two were requested, which share the next one.
    assert one is not two
    assert two is three
    assert await tables.fresh() is not two
