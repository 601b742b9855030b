"""Stopping a run ends all that belongs to it, and nothing else."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator

import pytest

from levelset_machine import Ended, Identity, LogStore, Machine, StopFailed, identity_of, is_alive
from levelset_machine.stopping import Tables, stop_run
from systems.machine.tests.machines import command, first_line, python, read, shell

DEAF = "trap '' TERM; echo deaf; while :; do sleep 0.01; done"

DEAF_CHILD = "trap '' TERM; sh -c 'echo $PPID'; while :; do sleep 0.01; done"


@pytest.fixture
async def machine() -> AsyncIterator[Machine]:
    async with Machine(guard=False, grace=0.0) as machine:
        yield machine


@pytest.fixture
def logs() -> LogStore:
    return LogStore(None)


async def child_of(logs: LogStore) -> Identity:
    """The process whose number is the first line of the log."""
    found = identity_of(int(await first_line(logs, "web")))
    assert found is not None
    return found


async def test_a_process_is_asked_and_may_tidy_up(machine: Machine, logs: LogStore) -> None:
    script = "trap 'echo bye; exit 7' TERM; echo ready; while :; do sleep 0.01; done"
    run = machine.start(shell(script), out=logs.open("web"))
    assert await first_line(logs, "web") == b"ready"
    await machine.stop(run)
    assert run.ended is not None
    assert (run.ended.code, await read(logs, "web", follow=True)) == (7, b"ready\nbye\n")


async def test_the_signal_is_for_the_caller_to_choose(machine: Machine, logs: LogStore) -> None:
    run = machine.start(command("/bin/sleep", "600"), out=logs.open("web"))
    await machine.stop(run, signal=signal.SIGINT)
    assert run.ended is not None
    assert run.ended.code == 130


async def test_a_process_that_does_not_listen_is_killed(machine: Machine, logs: LogStore) -> None:
    run = machine.start(shell(DEAF), out=logs.open("web"))
    assert await first_line(logs, "web") == b"deaf"
    await machine.stop(run, grace=0.01)
    assert run.ended is not None
    assert run.ended.code == 137


async def test_a_process_that_stands_still_is_killed(machine: Machine, logs: LogStore) -> None:
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


async def test_children_that_do_not_listen_end_with_it(machine: Machine, logs: LogStore) -> None:
    run = machine.start(shell(f"({DEAF_CHILD}) & wait"), out=logs.open("web"))
    child = await child_of(logs)
    assert child != run.identity
    await machine.stop(run)
    assert not is_alive(child)


RUN_AWAY = """
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
async def test_a_grandchild_in_a_session_of_its_own_does_not_get_away(
    machine: Machine, logs: LogStore, last: str
) -> None:
    run = machine.start(python(RUN_AWAY + last), out=logs.open("web"))
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


async def test_a_child_that_nothing_tells_apart_later_was_seen_before(machine: Machine, logs: LogStore) -> None:
    run = machine.start(python(UNMARKED), out=logs.open("web"))
    child = await child_of(logs)
    await machine.stop(run)
    assert not is_alive(child)


async def test_a_run_that_has_ended_is_stopped_already(machine: Machine, logs: LogStore) -> None:
    run = machine.start(command("/bin/true"), out=logs.open("web"))
    ended = await run.wait()
    await machine.stop(run)
    assert run.ended is ended


async def test_other_runs_are_left_alone(machine: Machine, logs: LogStore) -> None:
    one = machine.start(command("/bin/sleep", "600"), out=logs.open("one"))
    other = machine.start(command("/bin/sleep", "600"), out=logs.open("other"))
    await machine.stop(one)
    assert (other.ended, is_alive(other.identity)) == (None, True)


async def test_many_are_stopped_at_once(machine: Machine, logs: LogStore) -> None:
    runs = [machine.start(shell("sleep 600 & wait"), out=logs.open(str(number))) for number in range(50)]
    await asyncio.gather(*(machine.stop(run) for run in runs))
    assert not any(is_alive(run.identity) for run in runs)


async def test_stopping_twice_at_once_is_no_trouble(machine: Machine, logs: LogStore) -> None:
    run = machine.start(command("/bin/sleep", "600"), out=logs.open("web"))
    await asyncio.gather(machine.stop(run), machine.stop(run))
    assert run.ended is not None


class Reused:
    """A run whose process has ended long ago, and whose number our parent has now."""

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


async def test_a_reused_number_is_never_touched(machine: Machine) -> None:
    gone = Reused()
    await machine.stop(gone)
    await stop_run(gone, Tables(), grace=0.0, signal=signal.SIGTERM)
    assert os.getppid() == gone.identity.pid


class Endless(Reused):
    """A run that is told to go on, whatever is sent to its process."""

    def __init__(self) -> None:
        super().__init__()
        self.ended = None
        self.signals = list[int]()

    async def wait(self) -> Ended:
        await asyncio.Event().wait()
        raise AssertionError("it ended")

    def send(self, number: int) -> None:
        self.signals.append(number)


async def test_what_survives_is_told() -> None:
    run = Endless()
    with pytest.raises(StopFailed, match=f"{run.identity.pid} was killed, but"):
        await stop_run(run, Tables(), grace=0.0, signal=signal.SIGTERM, patience=0.01)
    assert run.signals == [signal.SIGTERM, signal.SIGKILL]


async def test_who_asks_for_a_table_gets_one_that_was_read_afterwards() -> None:
    tables = Tables()
    one, two, three = await asyncio.gather(tables.fresh(), tables.fresh(), tables.fresh())
    # The first was being read when the other two were asked for, who share the next one.
    assert one is not two
    assert two is three
    assert await tables.fresh() is not two
