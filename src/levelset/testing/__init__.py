"""What tests need: shipped, because whoever builds on levelset writes tests too.

A cluster inside the test (`Cluster`), time that jumps (`VirtualLoop`, `run`, `virtual`), faults as values (`faults`),
contracts for those who write parts of their own, and a guard against changes of what is shared.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from levelset.testing.virtual_time import RealTime, RealWork, Stuck, VirtualLoop, run, virtual

if TYPE_CHECKING:
    from levelset.testing.cluster import Cluster, open_cluster
    from levelset.testing.contracts.storage import STORAGE_CONTRACT, Check, check_storage
    from levelset.testing.contracts.transport import TRANSPORT_CONTRACT, check_transport
    from levelset.testing.embedded_server import START
    from levelset.testing.environment import Process
    from levelset.testing.failure_report import Version
    from levelset.testing.faults import Fault
    from levelset.testing.mutation_guard import Mutated, Mutation, MutationGuard, mutation_guard
    from levelset.testing.timeline import Looked

__all__ = [
    "START",
    "STORAGE_CONTRACT",
    "TRANSPORT_CONTRACT",
    "Check",
    "Cluster",
    "Fault",
    "Looked",
    "Mutated",
    "Mutation",
    "MutationGuard",
    "Process",
    "RealTime",
    "RealWork",
    "Stuck",
    "Version",
    "VirtualLoop",
    "check_storage",
    "check_transport",
    "mutation_guard",
    "open_cluster",
    "run",
    "virtual",
]

# The rest is loaded when it is first asked for: pytest loads our plugin, and with it this room, also for those whose
# tests need no cluster.
_ROOMS: Final = {
    "levelset.testing.cluster": "Cluster open_cluster",
    "levelset.testing.contracts.storage": "STORAGE_CONTRACT Check check_storage",
    "levelset.testing.faults": "Fault",
    "levelset.testing.failure_report": "Version",
    "levelset.testing.embedded_server": "START",
    "levelset.testing.mutation_guard": "Mutated Mutation MutationGuard mutation_guard",
    "levelset.testing.environment": "Process",
    "levelset.testing.timeline": "Looked",
    "levelset.testing.contracts.transport": "TRANSPORT_CONTRACT check_transport",
}
_LATE: Final = {name: room for room, names in _ROOMS.items() for name in names.split()}


def __getattr__(name: str) -> Any:
    room = _LATE.get(name)
    if room is None:
        raise AttributeError(f"module 'levelset.testing' has no attribute {name!r}")
    found = globals()[name] = getattr(import_module(room), name)
    return found


def __dir__() -> list[str]:
    return sorted(set(__all__) | set(globals()))
