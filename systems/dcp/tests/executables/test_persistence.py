"""Processes that outlive a session: adopted, replaced or stopped, under leases."""

from datetime import UTC, datetime
from pathlib import Path

import pytest

from levelset import Ref
from levelset.errors import LevelsetError
from levelset.testing import Cluster
from levelset_dcp.executables import ExecutableHost, executables_controller
from levelset_dcp.kinds import Executable
from levelset_dcp.records import MemoryRecords, ProcessRecord
from levelset_machine import Command, FakeMachine, Identity, LogStore
from systems.dcp.tests.support.executables import exe, fake_executable_host, running_programs, status

ONE = Ref(Executable, "one")


@pytest.fixture
def machine() -> FakeMachine:
    made = FakeMachine()
    made.program("web", stops_in=3.0)
    return made


@pytest.fixture
def records() -> MemoryRecords:
    return MemoryRecords(workload="shop")


@pytest.fixture
def host(machine: FakeMachine, tmp_path: Path, records: MemoryRecords) -> ExecutableHost:
    return fake_executable_host(machine, tmp_path, records=records)


async def left_behind(machine: FakeMachine, records: MemoryRecords, *args: str, key: str = "k") -> Identity:
    """A process of an earlier session, and its record."""
    sink = LogStore(None).open("earlier")
    run = machine.start(Command(argv=("web", *args), env={}), out=sink, persistent=True)
    record = ProcessRecord(name="one", identity=run.identity, key=key, started_at=machine.now(), log="one")
    await records.write(record)
    return run.identity


async def test_a_process_of_an_earlier_session_is_adopted(
    cluster: Cluster, machine: FakeMachine, host: ExecutableHost, records: MemoryRecords
) -> None:
    earlier = await left_behind(machine, records)
    async with cluster.running(executables_controller(host)):
        await cluster.create(exe(mode="persistent", lifecycle_key="k"))
        found = await status(cluster)
        assert (found.state, found.pid) == ("Running", earlier.pid)
        assert len(machine.runs) == 1


async def test_a_process_with_another_lifecycle_key_is_replaced(
    cluster: Cluster, machine: FakeMachine, host: ExecutableHost, records: MemoryRecords
) -> None:
    earlier = await left_behind(machine, records, key="other")
    async with cluster.running(executables_controller(host)):
        await cluster.create(exe(mode="persistent"))
        found = await status(cluster)
        assert "is being stopped" in found.message
        assert [one.identity for one in machine.running] == [earlier]
        await cluster.advance(5)
        found = await status(cluster)
        assert (found.state, found.message) == ("Running", "")
        assert found.pid != earlier.pid
        assert running_programs(machine) == ["web"]


async def test_the_record_of_a_dead_process_is_removed(
    cluster: Cluster, machine: FakeMachine, host: ExecutableHost, records: MemoryRecords
) -> None:
    await records.write(
        ProcessRecord(name="one", identity=Identity(77, 77), key="k", started_at=datetime.now(UTC), log="one")
    )
    async with cluster.running(executables_controller(host)):
        await cluster.create(exe(mode="persistent", lifecycle_key="k"))
        assert (await status(cluster)).state == "Running"
        assert records.processes["one"].identity == machine.running[0].identity
        assert records.processes["one"].workload == "shop"


async def test_stop_stops_the_process_of_an_earlier_session_without_evaluating_templates(
    cluster: Cluster, machine: FakeMachine, host: ExecutableHost, records: MemoryRecords
) -> None:
    await left_behind(machine, records)
    async with cluster.running(executables_controller(host)):
        await cluster.create(exe(mode="persistent", stop=True, args=('{{ portFor "never" }}',)))
        await cluster.advance(5)
        assert (await status(cluster)).state == "Finished"
        assert machine.running == []
        assert records.processes == {}
        assert records.leases == set()


async def test_mode_cleanup_stops_the_process_even_if_it_is_deleted_at_once(
    cluster: Cluster, machine: FakeMachine, host: ExecutableHost, records: MemoryRecords
) -> None:
    await left_behind(machine, records)
    await cluster.create(exe(mode="cleanup", args=('{{ portFor "never" }}',)))
    async with cluster.running(executables_controller(host)):
        await cluster.settled()
        await cluster.delete(ONE)
        await cluster.until_gone(ONE)
        assert machine.running == []
        assert records.processes == {}


async def test_persistent_wins_over_cleanup(cluster: Cluster, machine: FakeMachine, host: ExecutableHost) -> None:
    async with cluster.running(executables_controller(host)):
        await cluster.create(exe(mode="cleanup", persistent=True))
        assert (await status(cluster)).state == "Running"
        await cluster.delete(ONE)
        await cluster.until_gone(ONE)
        assert running_programs(machine) == ["web"]


class Forgetful(MemoryRecords):
    """Records that cannot be written."""

    async def write(self, record: ProcessRecord) -> None:
        raise LevelsetError(f"no space for {record.name}")


async def test_a_persistent_process_that_cannot_be_recorded_is_stopped(
    cluster: Cluster, machine: FakeMachine, tmp_path: Path
) -> None:
    host = fake_executable_host(machine, tmp_path, records=Forgetful())
    async with cluster.running(executables_controller(host)):
        await cluster.create(exe(mode="persistent"))
        await cluster.advance(5)
        found = await status(cluster)
        assert found.state == "FailedToStart"
        assert "no space for one" in found.message
        assert machine.running == []
        await cluster.delete(ONE)
        await cluster.until_gone(ONE)


async def test_an_executable_waits_for_the_lease_of_another_session(
    cluster: Cluster, machine: FakeMachine, tmp_path: Path
) -> None:
    records = MemoryRecords(taken=frozenset({"one"}))
    host = fake_executable_host(machine, tmp_path, records=records)
    async with cluster.running(executables_controller(host)):
        await cluster.create(exe(mode="persistent"))
        assert (await status(cluster)).message == "another session holds the lease"
        before = cluster.storage.revision
        await cluster.advance(60)
        assert cluster.storage.revision == before, "waiting causes no writes"
        records.taken = frozenset()
        await cluster.advance(5)
        found = await status(cluster)
        assert (found.state, found.message) == ("Running", "")


async def test_the_exit_of_a_persistent_process_releases_its_record_and_lease(
    cluster: Cluster, machine: FakeMachine, host: ExecutableHost, records: MemoryRecords
) -> None:
    async with cluster.running(executables_controller(host)):
        await cluster.create(exe(mode="persistent"))
        await cluster.settled()
        assert set(records.processes) == records.leases == {"one"}
        machine.exit(machine.running[0], 4)
        found = await status(cluster)
        assert (found.state, found.exit_code) == ("Finished", 4)
        assert (records.processes, records.leases) == ({}, set())
        await records.write(
            ProcessRecord(name="one", identity=Identity(5, 5), key="", started_at=machine.now(), log="one")
        )
        await cluster.advance(1800)
        assert "one" in records.processes, "the record belongs to a later session"


async def test_a_process_of_an_earlier_session_that_cannot_be_stopped_is_unknown(
    cluster: Cluster, machine: FakeMachine, host: ExecutableHost, records: MemoryRecords
) -> None:
    machine.program("web", unstoppable=True)
    await left_behind(machine, records, key="other")
    async with cluster.running(executables_controller(host)):
        await cluster.create(exe(mode="persistent"))
        await cluster.advance(60)
        found = await status(cluster)
        assert found.state == "Unknown"
        assert len(machine.runs) == 1
        assert set(records.processes) == {"one"}, "the record is needed to stop it later"


async def test_mode_cleanup_waits_as_not_found_and_can_be_stopped(cluster: Cluster, host: ExecutableHost) -> None:
    async with cluster.running(executables_controller(host)):
        await cluster.create(exe(mode="cleanup"))
        assert (await status(cluster)).state == "NotFound"
        before = cluster.storage.revision
        await cluster.advance(60)
        assert cluster.storage.revision == before
        await cluster.update((await cluster.get(ONE)).with_spec(stop=True))
        assert (await status(cluster)).state == "FailedToStart"
