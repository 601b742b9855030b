"""Sample Pods for tests of the node, and a node on a fake machine."""

from ipaddress import IPv4Network
from pathlib import Path
from typing import Any

from levelset import decode, encode
from levelset.aio import timing
from levelset.kinds.core_v1 import Pod, PodStatus
from levelset.testing import Cluster
from levelset_local.node import Images, MemoryRecordStore, Node, PodReconciler, RestartBackoff
from levelset_machine import AddressPool, Command, FakeMachine, FakeRun, LogStore

__all__ = ["RecordingMachine", "condition", "container", "container_states", "node", "pod", "pod_reconciler", "status"]


class RecordingMachine(FakeMachine):
    """A fake machine that records when each program was started."""

    def __init__(self, cluster: Cluster) -> None:
        super().__init__(now=cluster.now)
        self.start_times: list[float] = []

    def start(self, command: Command, **options: Any) -> FakeRun:
        """Starts a fake process, and records the time."""
        run = super().start(command, **options)
        self.start_times.append(timing.now())
        return run

    @property
    def starts(self) -> list[int]:
        """When the programs were started, in whole seconds after the first one."""
        return [round(one - self.start_times[0]) for one in self.start_times]


def container(name: str = "web", **fields: Any) -> dict[str, Any]:
    """A container as a tree; its program has its name."""
    return {"name": name, "image": f"{name}:1", "command": [name], **fields}


def pod(name: str = "web", *containers: dict[str, Any], metadata: dict[str, Any] | None = None, **spec: Any) -> Pod:
    """A Pod from the JSON fields of its spec."""
    tree = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, **(metadata or {})},
        "spec": {"containers": list(containers) or [container(name)], **spec},
    }
    return decode(Pod, encode(tree))


def node(machine: FakeMachine, folder: Path, **options: Any) -> Node:
    """A node on a fake machine."""
    defaults: dict[str, Any] = {
        "logs": LogStore(now=machine.now),
        "images": Images(installed=False, find=lambda program: program),
        "addresses": AddressPool(IPv4Network("127.99.128.0/17")),
        "record_store": MemoryRecordStore(),
        "environment": {"PATH": "/bin"},
        "restart_backoff": RestartBackoff(),
    }
    return Node(machine, machine, folder=folder, **{**defaults, **options})


def pod_reconciler(machine: FakeMachine, folder: Path, **options: Any) -> PodReconciler:
    """The Pod reconciler of a node on a fake machine."""
    return PodReconciler(node(machine, folder, **options))


def status(it: Pod) -> PodStatus:
    """The status of a Pod; an empty one if there is none."""
    return it.status or PodStatus()


def condition(it: Pod, type_: str) -> str | None:
    """Whether a condition holds; None if it is not there."""
    return next((one.status for one in status(it).conditions if one.type == type_), None)


def container_states(it: Pod) -> dict[str, str]:
    """The state of each container: `running`, or the reason why it is not."""
    found: dict[str, str] = {}
    for one in (*status(it).init_container_statuses, *status(it).container_statuses):
        state = one.state
        if state.running is not None:
            found[one.name] = "running"
        elif state.waiting is not None:
            found[one.name] = state.waiting.reason or ""
        elif state.terminated is not None:
            found[one.name] = state.terminated.reason or ""
    return found
