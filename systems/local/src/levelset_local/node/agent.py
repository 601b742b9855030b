"""A node: this machine, as Pods see it, with what it takes to run them."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Final, Protocol

from levelset import Quantity
from levelset.kinds.core_v1 import Pod
from levelset_local.node.facts import Facts
from levelset_local.node.images import Images
from levelset_local.node.known import PodKnown
from levelset_local.node.records import FolderRecords, Records
from levelset_local.node.restarting import Restarts
from levelset_machine import LogStore, Prober, Runner

__all__ = ["Node", "Pool", "inherited_environment", "log_key", "machine_size"]

_INHERITED: Final = (
    *("PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "TMPDIR"),
    *("PYTHONPATH", "VIRTUAL_ENV", "SSL_CERT_FILE", "SSL_CERT_DIR", "SYSTEMROOT", "COVERAGE_PROCESS_START"),
)


class Pool(Protocol):
    """Addresses to hand out to Pods."""

    def allocate(self) -> str:
        """An address that nobody has."""
        ...

    def take(self, address: str) -> bool:
        """Takes this very address; False if somebody has it, or if it is not one of these."""
        ...

    def free(self, address: str) -> None:
        """Gives an address back."""
        ...


@dataclass(eq=False)
class Node:
    """The machine that runs Pods as processes: who starts them, who probes them, and where their files are.

    All of it can be exchanged, so that a Pod's life is played in tests without a process. `runner` and the controller's
    server must agree on what time it is.
    """

    runner: Runner
    prober: Prober
    logs: LogStore
    images: Images
    addresses: Pool
    folder: Path
    """Below it each Pod has a folder of its own, for its volumes."""
    name: str = "local"
    host: str = "127.0.0.1"
    restarts: Restarts = field(default_factory=Restarts)
    environment: Mapping[str, str] = field(default_factory=lambda: inherited_environment(os.environ))
    """What every container inherits."""
    allocatable: Mapping[str, Quantity] = field(default_factory=lambda: dict(machine_size()))
    memory: Records | None = None
    """Where it is kept what is known of the Pods, if not in files."""

    @cached_property
    def records(self) -> Records:
        """What is known of the Pods, and survives the manager."""
        return FolderRecords(self.folder / "records") if self.memory is None else self.memory

    def pod_folder(self, uid: str) -> Path:
        """Where the files of a Pod are."""
        return self.folder / "pods" / uid

    def root(self, uid: str, container: str) -> Path:
        """The folder below which a container finds its mount paths."""
        return self.pod_folder(uid) / "containers" / container

    def facts(self, pod: Pod, known: PodKnown) -> Facts:
        """What a container may be told about its Pod."""
        return Facts(pod, known.address, host=self.host, node=self.name, allocatable=self.allocatable)


def inherited_environment(given: Mapping[str, str]) -> dict[str, str]:
    """The variables of this process that programs cannot do without: nothing that may be secret."""
    return {name: given[name] for name in _INHERITED if name in given}


def machine_size() -> dict[str, Quantity]:
    """How much this machine has."""
    return {
        "cpu": Quantity(str(os.cpu_count() or 1)),
        "memory": Quantity(f"{_memory() // 1024}Ki"),
        "pods": Quantity("1000"),
    }


def _memory() -> int:
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (ValueError, OSError, AttributeError):
        return 8 * 1024**3  # a system that does not say


def log_key(uid: str, container: str, restarts: int) -> str:
    """The key of the log of one run of a container."""
    return f"{uid}_{container}_{restarts}"
