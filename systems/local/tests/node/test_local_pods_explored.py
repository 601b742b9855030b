"""A Pod's life under the explorer: whatever breaks, no container ever runs twice, and nothing is left behind."""

import itertools
from dataclasses import dataclass
from ipaddress import IPv4Network
from pathlib import Path
from typing import Any

import pytest

from levelset import Controller, ObjectMeta, Ref
from levelset.kinds.core_v1 import ConfigMap, Pod
from levelset.testing import Cluster
from levelset.testing.explore import Exploration, State
from levelset_local.node import Images, MemoryRecords, Node, node_controller, pods_controller
from levelset_machine import Addresses, LogStore, PretendMachine
from systems.local.tests.node.playing import condition, container, pod, status

WEB = Ref(Pod, "web")


@dataclass
class Outside:
    """What survives a manager: the machine, its disk, and its addresses."""

    machine: PretendMachine
    records: MemoryRecords
    logs: LogStore
    folder: Path


def controllers(outside: Outside) -> list[Controller[Any]]:
    machine = outside.machine
    node = Node(
        machine,
        machine,
        outside.logs,
        Images(installed=False, find=lambda program: program),
        Addresses(IPv4Network("127.99.128.0/17")),
        outside.folder,
        environment={},
        memory=outside.records,
    )
    return [pods_controller(node), node_controller(node)]


def makes(folder: Path) -> Any:
    numbers = itertools.count()

    def make() -> Outside:
        machine = PretendMachine()
        machine.program("web", ready_after=2.0)
        machine.program("prepare", exits=0, after=1.0)
        machine.program("job", exits=[1, 0], after=1.0)
        return Outside(machine, MemoryRecords(), LogStore(now=machine.now), folder / str(next(numbers)))

    return make


def no_container_runs_twice(state: State) -> None:
    running = [(run.command.env["HOSTNAME"], run.command.argv) for run in state.outside.machine.running]
    assert len(running) == len(set(running)), f"twice at the same time: {running}"


async def life(people: Cluster) -> None:
    """Somebody makes a Pod that waits for a ConfigMap, lives, crashes, and is deleted."""
    served = container(
        readinessProbe={"httpGet": {"port": 80}, "periodSeconds": 1},
        env=[{"name": "COLOUR", "valueFrom": {"configMapKeyRef": {"name": "settings", "key": "colour"}}}],
    )
    await people.create(pod("web", served, initContainers=[container("prepare")]))
    await people.create(ConfigMap(metadata=ObjectMeta(name="settings"), data={"colour": "red"}))
    await people.until(WEB, lambda it: condition(it, "Ready") == "True", within=600)
    await people.delete(WEB)
    await people.until_gone(WEB, within=600)


async def work(people: Cluster) -> None:
    """Somebody has work done that fails the first time."""
    await people.create(pod("job", restartPolicy="OnFailure"))
    await people.until(Ref(Pod, "job"), lambda it: status(it).phase == "Succeeded", within=600)


@pytest.mark.explore(budget=12)
@pytest.mark.parametrize("scenario", [life, work])
def test_a_pod_lives_once_whatever_breaks(scenario: Any, tmp_path: Path) -> Exploration:
    return Exploration(
        scenario,
        controllers,
        invariants=[no_container_runs_twice],
        outside=makes(tmp_path),
        # Nobody learns the exit code of a process that ends while there is no manager: it is run once more.
        ignored=["Pod.status.containerStatuses"] if scenario is work else [],
        name=scenario.__name__,
    )
