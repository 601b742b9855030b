"""Pods and nodes for tests: a machine that pretends, and Pods in a few words."""

from ipaddress import IPv4Network
from pathlib import Path
from typing import Any

from levelset import decode, encode
from levelset.aio import timing
from levelset.kinds.core_v1 import Pod, PodStatus
from levelset.testing import Cluster
from levelset_local.node import Images, MemoryRecords, Node, PodKeeper, Restarts
from levelset_machine import Addresses, Command, LogStore, PretendMachine, PretendRun

__all__ = ["Played", "condition", "container", "container_states", "keeper", "node", "pod", "status"]


class Played(PretendMachine):
    """A pretended machine that notes when each program was started, in seconds since the first one."""

    def __init__(self, cluster: Cluster) -> None:
        super().__init__(now=cluster.now)
        self.births: list[float] = []

    def start(self, command: Command, **options: Any) -> PretendRun:
        """Pretends to start a program."""
        run = super().start(command, **options)
        self.births.append(timing.now())
        return run

    @property
    def starts(self) -> list[int]:
        """When programs were started, in whole seconds after the first one."""
        return [round(one - self.births[0]) for one in self.births]


def container(name: str = "web", **fields: Any) -> dict[str, Any]:
    """A container as a tree; its program has its name."""
    return {"name": name, "image": f"{name}:1", "command": [name], **fields}


def pod(name: str = "web", *containers: dict[str, Any], metadata: dict[str, Any] | None = None, **spec: Any) -> Pod:
    """A Pod, from a spec in the words of Kubernetes."""
    tree = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, **(metadata or {})},
        "spec": {"containers": list(containers) or [container(name)], **spec},
    }
    return decode(Pod, encode(tree))


def node(pretend: PretendMachine, folder: Path, **options: Any) -> Node:
    """A node whose programs are those of a pretended machine."""
    known: dict[str, Any] = {
        "logs": LogStore(now=pretend.now),
        "images": Images(installed=False, find=lambda program: program),
        "addresses": Addresses(IPv4Network("127.99.128.0/17")),
        "memory": MemoryRecords(),
        "environment": {"PATH": "/bin"},
        "restarts": Restarts(),
    }
    return Node(pretend, pretend, folder=folder, **{**known, **options})


def keeper(pretend: PretendMachine, folder: Path, **options: Any) -> PodKeeper:
    """Who runs the Pods of such a node."""
    return PodKeeper(node(pretend, folder, **options))


def status(it: Pod) -> PodStatus:
    """The status of a Pod; an empty one if there is none."""
    return it.status or PodStatus()


def condition(it: Pod, type_: str) -> str | None:
    """Whether a condition holds; None if it is not there."""
    return next((one.status for one in status(it).conditions if one.type == type_), None)


def container_states(it: Pod) -> dict[str, str]:
    """In a word for each container what it does: `running`, or the reason why not."""
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
