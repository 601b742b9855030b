"""`levelset-dcp cleanup`: removes all persistent resources of a workload in order, despite failures."""

import asyncio
import json
import os
from pathlib import Path

import pytest

from levelset import replace
from levelset.testing import virtual
from levelset_dcp.cli import main
from levelset_dcp.engines import EngineNotFound, InMemoryEngine, NewContainer, NewNetwork
from levelset_dcp.records import MemoryRecords, ProcessRecord, ResourceRecord, SqliteRecords
from levelset_dcp.session.workload_cleanup import clean_workload
from levelset_machine import Command, FakeMachine, LogStore, Machine, identity_of, is_alive


async def program(machine: FakeMachine, records: MemoryRecords, name: str, workload: str = "shop") -> ProcessRecord:
    machine.program(name)
    run = machine.start(Command(argv=(name,), env={}), out=LogStore(None).open(name), persistent=True)
    made = ProcessRecord(
        name=name, identity=run.identity, key="", started_at=machine.now(), log=name, workload=workload
    )
    await records.write(made)
    return made


@virtual
async def test_only_programs_of_the_workload_are_stopped_and_removed() -> None:
    machine, records = FakeMachine(), MemoryRecords()
    await program(machine, records, "web")
    await program(machine, records, "db")
    await program(machine, records, "other", "elsewhere")
    machine.exit(machine.runs[1])
    report = await clean_workload(records, "shop", runner=machine)
    assert report.tree == {
        "workloadId": "shop",
        "stopped": {"containers": [], "executables": ["db", "web"], "networks": []},
        "failures": [],
    }
    assert [run.command.argv for run in machine.running] == [("other",)]
    assert set(records.processes) == {"other"}
    assert records.leases == set()


@virtual
async def test_one_failure_does_not_stop_the_others() -> None:
    machine, records = FakeMachine(), MemoryRecords(taken=frozenset({"held"}))
    await program(machine, records, "held")
    await program(machine, records, "web")
    machine.program("stubborn", unstoppable=True)
    run = machine.start(Command(argv=("stubborn",), env={}), out=LogStore(None).open("x"), persistent=True)
    await records.write(
        ProcessRecord(name="stubborn", identity=run.identity, key="", started_at=machine.now(), log="", workload="shop")
    )
    report = await clean_workload(records, "shop", runner=machine, patience=5.0)
    assert report.executables == ["web"]
    assert [one.partition(":")[0] for one in sorted(report.failures)] == ["executable held", "executable stubborn"]
    assert set(records.processes) == {"held", "stubborn"}


@virtual
async def test_cleanup_waits_for_the_lease_of_another_session() -> None:
    machine, records = FakeMachine(), MemoryRecords(taken=frozenset({"web"}))
    await program(machine, records, "web")
    working = asyncio.ensure_future(clean_workload(records, "shop", runner=machine, patience=30.0))
    await asyncio.sleep(10)
    assert not working.done()
    records.taken = frozenset()
    assert (await working).executables == ["web"]


class Changing(MemoryRecords):
    """Another session takes over a program just before the lease is acquired."""

    async def lease(self, key: str) -> bool:
        self.processes[key] = replace(self.processes[key], workload="another")
        return await super().lease(key)


@virtual
async def test_a_record_that_has_moved_to_another_workload_is_not_touched() -> None:
    machine, records = FakeMachine(), Changing()
    await program(machine, records, "web")
    report = await clean_workload(records, "shop", runner=machine)
    assert (report.executables, report.failures) == ([], [])
    assert len(machine.running) == 1


@virtual
async def test_containers_are_removed_before_their_networks() -> None:
    machine, records, engine = FakeMachine(), MemoryRecords(workload="shop"), InMemoryEngine()
    network = await engine.create_network(NewNetwork(name="net"))
    container = await engine.create_container(NewContainer(image="db", name="db"))
    await engine.connect(network.id, container)
    await engine.start_container(container)
    await records.write_resource(ResourceRecord(kind="network", name="net", id=network.id))
    await records.write_resource(ResourceRecord(kind="container", name="db", id=container))
    await records.write_resource(ResourceRecord(kind="container", name="gone", id="no-such-container"))
    report = await clean_workload(records, "shop", runner=machine, engine=engine)
    assert report.tree["stopped"] == {"containers": ["db", "gone"], "executables": [], "networks": ["net"]}
    assert report.failures == []
    assert records.resources == {}
    with pytest.raises(EngineNotFound):
        await engine.inspect_network("net")


@virtual
async def test_without_an_engine_containers_are_reported_as_failures() -> None:
    records = MemoryRecords(workload="shop")
    await records.write_resource(ResourceRecord(kind="container", name="db", id="c"))
    report = await clean_workload(records, "shop", runner=FakeMachine())
    (failure,) = report.failures
    assert failure.startswith("container db: no container engine")


async def _leave_behind(path: Path, logs: Path) -> ProcessRecord:
    async with SqliteRecords(path, workload="shop") as records, Machine() as machine:
        store = await asyncio.to_thread(LogStore, logs)
        env = dict(os.environ)
        run = machine.start(Command(argv=("sleep", "1000"), env=env), out=store.open("one"), persistent=True)
        record = ProcessRecord(name="one", identity=run.identity, key="", started_at=machine.now(), log="one")
        await records.write(record)
        return record


def test_the_command_reports_as_json(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "state" / "state.sqlite3"
    monkeypatch.setenv("LEVELSET_DCP_STATE", str(path))
    record = asyncio.run(_leave_behind(path, tmp_path / "logs"))
    assert identity_of(record.identity.pid) == record.identity
    with pytest.raises(SystemExit) as ended:
        main(["cleanup", "shop", "--output", "json", "--container-runtime", "none"])
    assert ended.value.code == 0
    assert json.loads(capsys.readouterr().out)["stopped"]["executables"] == ["one"]
    assert not is_alive(record.identity)
    assert any((tmp_path / "logs").iterdir()), "logs are not removed"
