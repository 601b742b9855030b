"""A world of Executables in which nothing really runs, and words for tests to talk about it."""

from collections.abc import Mapping
from itertools import count
from pathlib import Path
from typing import Any

from levelset import ObjectMeta, Ref
from levelset.testing import Cluster
from levelset_dcp.executables import Executables
from levelset_dcp.kinds import Executable, ExecutableSpec, ExecutableStatus
from levelset_dcp.records import MemoryRecords
from levelset_machine import LogStore, PretendMachine

__all__ = ["exe", "pretend_world", "running_names", "status"]


def pretend_world(pretend: PretendMachine, folder: Path, **more: Any) -> Executables:
    numbers = count(50_001)

    def ports(_address: str, _is_udp: bool) -> int:
        return next(numbers)

    given: dict[str, Any] = {
        "runner": pretend,
        "prober": pretend,
        "logs": LogStore(None, now=pretend.now),
        "folder": folder,
        "records": MemoryRecords(),
        "ports": ports,
        "ambient": {"PATH": "/bin", "HOME": "/here"},
        **more,
    }
    return Executables(**given)


def exe(path: str = "web", name: str = "one", annotations: Mapping[str, str] | None = None, **spec: Any) -> Executable:
    metadata = ObjectMeta(name=name, annotations=dict(annotations or {}))
    return Executable(metadata=metadata, spec=ExecutableSpec(executable_path=path, **spec))


async def status(cluster: Cluster, name: str = "one") -> ExecutableStatus:
    await cluster.settled()
    found = (await cluster.get(Ref(Executable, name))).status
    return found or ExecutableStatus()


def running_names(pretend: PretendMachine) -> list[str]:
    return [run.command.argv[0] for run in pretend.running]
