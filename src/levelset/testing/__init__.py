"""Tools for testing controllers: an in-process cluster, virtual time, fault injection and conformance checks.

`Cluster` is an API server and client inside the test, `VirtualLoop` an event loop in virtual time, `faults` the faults
that can be injected. The contracts check implementations of storage backends and transports, and `mutation_guard` finds
code that changes objects of a shared cache.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from levelset.testing.virtual_time import HotLoop, RealTime, RealWork, Stuck, VirtualLoop, run, virtual

if TYPE_CHECKING:
    from levelset.testing.cluster import Cluster, ProcessOptions, open_cluster
    from levelset.testing.contracts.storage import STORAGE_CONTRACT, Check, check_storage
    from levelset.testing.contracts.transport import TRANSPORT_CONTRACT, check_transport
    from levelset.testing.embedded_server import START
    from levelset.testing.environment import Process
    from levelset.testing.failure_report import Version
    from levelset.testing.faults import Fault
    from levelset.testing.mutation_guard import Mutated, Mutation, MutationGuard, mutation_guard
    from levelset.testing.timeline import ReconcileRecord

__all__ = [
    "START",
    "STORAGE_CONTRACT",
    "TRANSPORT_CONTRACT",
    "Check",
    "Cluster",
    "Fault",
    "HotLoop",
    "Mutated",
    "Mutation",
    "MutationGuard",
    "Process",
    "ProcessOptions",
    "RealTime",
    "RealWork",
    "ReconcileRecord",
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

# Everything else is imported on first use: pytest imports the plugin, and with it this package, in every project that
# has levelset installed, also for tests that need no cluster.
_MODULES: Final = {
    "levelset.testing.cluster": "Cluster ProcessOptions open_cluster",
    "levelset.testing.contracts.storage": "STORAGE_CONTRACT Check check_storage",
    "levelset.testing.faults": "Fault",
    "levelset.testing.failure_report": "Version",
    "levelset.testing.embedded_server": "START",
    "levelset.testing.mutation_guard": "Mutated Mutation MutationGuard mutation_guard",
    "levelset.testing.environment": "Process",
    "levelset.testing.timeline": "ReconcileRecord",
    "levelset.testing.contracts.transport": "TRANSPORT_CONTRACT check_transport",
}
_LATE: Final = {name: module for module, names in _MODULES.items() for name in names.split()}


def __getattr__(name: str) -> Any:
    module = _LATE.get(name)
    if module is None:
        raise AttributeError(f"module 'levelset.testing' has no attribute {name!r}")
    found = globals()[name] = getattr(import_module(module), name)
    return found


def __dir__() -> list[str]:
    return sorted(set(__all__) | set(globals()))
