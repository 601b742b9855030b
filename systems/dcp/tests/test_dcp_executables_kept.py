"""Programs that outlive a session: found, taken over, started anew, or ended, under their leases."""

from datetime import UTC, datetime
from pathlib import Path

import pytest

from levelset import Ref
from levelset.errors import LevelsetError
from levelset.testing import Cluster
from levelset_dcp.executables import Executables as World
from levelset_dcp.executables import executables_controller
from levelset_dcp.kinds import Executable
from levelset_dcp.records import MemoryRecords, ProcessRecord
from levelset_machine import Command, Identity, LogStore
from levelset_machine import PretendMachine as Pretend
from systems.dcp.tests.programs import exe, pretend_world, running_names, status

ONE = Ref(Executable, "one")


@pytest.fixture
def pretend() -> Pretend:
    made = Pretend()
    made.program("web", stops_in=3.0)
    return made


@pytest.fixture
def records() -> MemoryRecords:
    return MemoryRecords(workload="shop")


@pytest.fixture
def world(pretend: Pretend, tmp_path: Path, records: MemoryRecords) -> World:
    return pretend_world(pretend, tmp_path, records=records)


async def left_behind(pretend: Pretend, records: MemoryRecords, *args: str, key: str = "k") -> Identity:
    """A program that an earlier session has started, and its record."""
    sink = LogStore(None).open("earlier")
    run = pretend.start(Command(argv=("web", *args), env={}), out=sink, persistent=True)
    record = ProcessRecord(name="one", identity=run.identity, key=key, started_at=pretend.now(), log="one")
    await records.write(record)
    return run.identity


async def test_one_that_was_left_behind_is_taken_over(
    cluster: Cluster, pretend: Pretend, world: World, records: MemoryRecords
) -> None:
    earlier = await left_behind(pretend, records)
    async with cluster.running(executables_controller(world)):
        await cluster.create(exe(mode="persistent", lifecycle_key="k"))
        found = await status(cluster)
        assert (found.state, found.pid) == ("Running", earlier.pid)
        assert len(pretend.runs) == 1


async def test_one_with_another_key_is_stopped_in_its_own_time_and_started_anew(
    cluster: Cluster, pretend: Pretend, world: World, records: MemoryRecords
) -> None:
    earlier = await left_behind(pretend, records, key="other")
    async with cluster.running(executables_controller(world)):
        await cluster.create(exe(mode="persistent"))
        found = await status(cluster)
        assert "is being stopped" in found.message
        assert [one.identity for one in pretend.running] == [earlier]
        await cluster.advance(5)
        found = await status(cluster)
        assert (found.state, found.message) == ("Running", "")
        assert found.pid != earlier.pid
        assert running_names(pretend) == ["web"]


async def test_a_record_of_a_dead_program_is_forgotten(
    cluster: Cluster, pretend: Pretend, world: World, records: MemoryRecords
) -> None:
    await records.write(
        ProcessRecord(name="one", identity=Identity(77, 77), key="k", started_at=datetime.now(UTC), log="one")
    )
    async with cluster.running(executables_controller(world)):
        await cluster.create(exe(mode="persistent", lifecycle_key="k"))
        assert (await status(cluster)).state == "Running"
        assert records.processes["one"].identity == pretend.running[0].identity
        assert records.processes["one"].workload == "shop"


async def test_stop_ends_what_was_left_behind_even_if_templates_cannot_be_evaluated(
    cluster: Cluster, pretend: Pretend, world: World, records: MemoryRecords
) -> None:
    await left_behind(pretend, records)
    async with cluster.running(executables_controller(world)):
        await cluster.create(exe(mode="persistent", stop=True, args=('{{ portFor "never" }}',)))
        await cluster.advance(5)
        assert (await status(cluster)).state == "Finished"
        assert pretend.running == []
        assert records.processes == {}
        assert records.leases == set()


async def test_cleanup_deleted_before_it_was_found_ends_the_program(
    cluster: Cluster, pretend: Pretend, world: World, records: MemoryRecords
) -> None:
    await left_behind(pretend, records)
    await cluster.create(exe(mode="cleanup", args=('{{ portFor "never" }}',)))
    async with cluster.running(executables_controller(world)):
        await cluster.settled()
        await cluster.delete(ONE)
        await cluster.until_gone(ONE)
        assert pretend.running == []
        assert records.processes == {}


async def test_persistent_wins_over_cleanup(cluster: Cluster, pretend: Pretend, world: World) -> None:
    async with cluster.running(executables_controller(world)):
        await cluster.create(exe(mode="cleanup", persistent=True))
        assert (await status(cluster)).state == "Running"
        await cluster.delete(ONE)
        await cluster.until_gone(ONE)
        assert running_names(pretend) == ["web"]


class Forgetful(MemoryRecords):
    """Cannot write anything down."""

    async def write(self, record: ProcessRecord) -> None:
        raise LevelsetError(f"no room for {record.name}")


async def test_one_that_cannot_be_remembered_is_stopped_again(
    cluster: Cluster, pretend: Pretend, tmp_path: Path
) -> None:
    world = pretend_world(pretend, tmp_path, records=Forgetful())
    async with cluster.running(executables_controller(world)):
        await cluster.create(exe(mode="persistent"))
        await cluster.advance(5)
        found = await status(cluster)
        assert found.state == "FailedToStart"
        assert "no room for one" in found.message
        assert pretend.running == []
        await cluster.delete(ONE)
        await cluster.until_gone(ONE)


async def test_what_another_session_has_is_waited_for(cluster: Cluster, pretend: Pretend, tmp_path: Path) -> None:
    records = MemoryRecords(taken=frozenset({"one"}))
    world = pretend_world(pretend, tmp_path, records=records)
    async with cluster.running(executables_controller(world)):
        await cluster.create(exe(mode="persistent"))
        assert (await status(cluster)).message == "another session has it"
        before = cluster.storage.revision
        await cluster.advance(60)
        assert cluster.storage.revision == before, "to wait needs no writes"
        records.taken = frozenset()
        await cluster.advance(5)
        found = await status(cluster)
        assert (found.state, found.message) == ("Running", "")


async def test_the_end_of_a_persistent_program_frees_its_name(
    cluster: Cluster, pretend: Pretend, world: World, records: MemoryRecords
) -> None:
    async with cluster.running(executables_controller(world)):
        await cluster.create(exe(mode="persistent"))
        await cluster.settled()
        assert set(records.processes) == records.leases == {"one"}
        pretend.exit(pretend.running[0], 4)
        found = await status(cluster)
        assert (found.state, found.exit_code) == ("Finished", 4)
        assert (records.processes, records.leases) == ({}, set())
        await records.write(
            ProcessRecord(name="one", identity=Identity(5, 5), key="", started_at=pretend.now(), log="one")
        )
        await cluster.advance(1800)
        assert "one" in records.processes, "it is that of a later session"


async def test_one_that_cannot_be_ended_is_unknown(
    cluster: Cluster, pretend: Pretend, world: World, records: MemoryRecords
) -> None:
    pretend.program("web", unstoppable=True)
    await left_behind(pretend, records, key="other")
    async with cluster.running(executables_controller(world)):
        await cluster.create(exe(mode="persistent"))
        await cluster.advance(60)
        found = await status(cluster)
        assert found.state == "Unknown"
        assert len(pretend.runs) == 1
        assert set(records.processes) == {"one"}, "somebody has to end it some time"


async def test_cleanup_with_nothing_to_find_waits_and_can_be_stopped(cluster: Cluster, world: World) -> None:
    async with cluster.running(executables_controller(world)):
        await cluster.create(exe(mode="cleanup"))
        assert (await status(cluster)).state == "NotFound"
        before = cluster.storage.revision
        await cluster.advance(60)
        assert cluster.storage.revision == before
        await cluster.update((await cluster.get(ONE)).with_spec(stop=True))
        assert (await status(cluster)).state == "FailedToStart"
