"""Helpers for tests of Executables: a host with a fake machine, and builders of objects."""

from collections.abc import Mapping
from itertools import count
from pathlib import Path
from typing import Any

from levelset import ObjectMeta, Ref
from levelset.testing import Cluster
from levelset_dcp.executables import ExecutableHost
from levelset_dcp.kinds import Executable, ExecutableSpec, ExecutableStatus
from levelset_dcp.records import MemoryRecords
from levelset_machine import FakeMachine, LogStore

__all__ = ["exe", "fake_executable_host", "running_programs", "status"]


def fake_executable_host(machine: FakeMachine, folder: Path, **more: Any) -> ExecutableHost:
    numbers = count(50_001)

    def ports(_address: str, _is_udp: bool) -> int:
        return next(numbers)

    fields: dict[str, Any] = {
        "runner": machine,
        "prober": machine,
        "logs": LogStore(None, now=machine.now),
        "folder": folder,
        "records": MemoryRecords(),
        "ports": ports,
        "ambient": {"PATH": "/bin", "HOME": "/here"},
        **more,
    }
    return ExecutableHost(**fields)


def exe(path: str = "web", name: str = "one", annotations: Mapping[str, str] | None = None, **spec: Any) -> Executable:
    metadata = ObjectMeta(name=name, annotations=dict(annotations or {}))
    return Executable(metadata=metadata, spec=ExecutableSpec(executable_path=path, **spec))


async def status(cluster: Cluster, name: str = "one") -> ExecutableStatus:
    await cluster.settled()
    found = (await cluster.get(Ref(Executable, name))).status
    return found or ExecutableStatus()


def running_programs(machine: FakeMachine) -> list[str]:
    return [run.command.argv[0] for run in machine.running]
