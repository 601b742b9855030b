"""The node: this machine as Pods see it, with everything that it takes to run them."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Final

from levelset import Quantity
from levelset.kinds.core_v1 import Pod
from levelset_local.node.downward_api import PodInfo
from levelset_local.node.images import Images
from levelset_local.node.pod_addresses import PodAddressPool
from levelset_local.node.pod_record import PodRecord
from levelset_local.node.record_store import FileRecordStore, RecordStore
from levelset_local.node.restart_policy import RestartBackoff
from levelset_machine import LogStore, Prober, Runner

__all__ = ["Node", "inherited_environment", "log_key", "machine_size"]

_INHERITED: Final = (
    *("PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "TMPDIR"),
    *("PYTHONPATH", "VIRTUAL_ENV", "SSL_CERT_FILE", "SSL_CERT_DIR", "SYSTEMROOT", "COVERAGE_PROCESS_START"),
)


@dataclass(eq=False)
class Node:
    """The machine that runs Pods as processes: its process runner, prober, logs, addresses and folders.

    Every part can be replaced, so that tests run a Pod without a process. `runner` and the API server must use the same
    clock.
    """

    runner: Runner
    prober: Prober
    logs: LogStore
    images: Images
    addresses: PodAddressPool
    folder: Path
    """The folder below which each Pod has a folder for its volumes."""
    name: str = "local"
    host: str = "127.0.0.1"
    restart_backoff: RestartBackoff = field(default_factory=RestartBackoff)
    environment: Mapping[str, str] = field(default_factory=lambda: inherited_environment(os.environ))
    """The variables that every container inherits."""
    allocatable: Mapping[str, Quantity] = field(default_factory=lambda: dict(machine_size()))
    namespaces: bool = False
    """Whether containers find their volumes at their mount paths, by namespaces of their own."""
    record_store: RecordStore | None = None
    """The store of the Pod records; None for files below `folder`."""

    @cached_property
    def records(self) -> RecordStore:
        """The records of the Pods, which outlive the manager."""
        return FileRecordStore(self.folder / "records") if self.record_store is None else self.record_store

    def pod_folder(self, uid: str) -> Path:
        """The folder with the files of a Pod."""
        return self.folder / "pods" / uid

    def mount_root(self, uid: str, container: str) -> Path:
        """The folder below which a container finds its mount paths."""
        return self.pod_folder(uid) / "containers" / container

    def pod_info(self, pod: Pod, record: PodRecord) -> PodInfo:
        """What the downward API can expose of a Pod."""
        return PodInfo(pod, record.address, host=self.host, node=self.name, allocatable=self.allocatable)


def inherited_environment(given: Mapping[str, str]) -> dict[str, str]:
    """The variables of this process that programs need, such as PATH and HOME; none that may hold a secret."""
    return {name: given[name] for name in _INHERITED if name in given}


def machine_size() -> dict[str, Quantity]:
    """The resources of this machine, as the capacity of a Node."""
    return {
        "cpu": Quantity(str(os.cpu_count() or 1)),
        "memory": Quantity(f"{_memory() // 1024}Ki"),
        "pods": Quantity("1000"),
    }


def _memory() -> int:
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (ValueError, OSError, AttributeError):
        return 8 * 1024**3  # not every platform has these sysconf names


def log_key(uid: str, container: str, restarts: int) -> str:
    """The key of the log of one run of a container."""
    return f"{uid}_{container}_{restarts}"
