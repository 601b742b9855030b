"""Pods under the explorer: with any fault, no container runs twice and no process is left behind."""

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
from levelset_local.node import Images, MemoryRecordStore, Node, node_controller, pods_controller
from levelset_machine import AddressPool, FakeMachine, LogStore
from systems.local.tests.node.fake_node import condition, container, pod, status

WEB = Ref(Pod, "web")


@dataclass
class Outside:
    """What outlives a manager: the machine, its disk and its addresses."""

    machine: FakeMachine
    records: MemoryRecordStore
    logs: LogStore
    folder: Path


def controllers(outside: Outside) -> list[Controller[Any]]:
    machine = outside.machine
    node = Node(
        machine,
        machine,
        outside.logs,
        Images(installed=False, find=lambda program: program),
        AddressPool(IPv4Network("127.99.128.0/17")),
        outside.folder,
        environment={},
        record_store=outside.records,
    )
    return [pods_controller(node), node_controller(node)]


def makes(folder: Path) -> Any:
    numbers = itertools.count()

    def make() -> Outside:
        machine = FakeMachine()
        machine.program("web", ready_after=2.0)
        machine.program("prepare", exits=0, after=1.0)
        machine.program("job", exits=[1, 0], after=1.0)
        return Outside(machine, MemoryRecordStore(), LogStore(now=machine.now), folder / str(next(numbers)))

    return make


def no_container_runs_twice(state: State) -> None:
    running = [(run.command.env["HOSTNAME"], run.command.argv) for run in state.outside.machine.running]
    assert len(running) == len(set(running)), f"twice at the same time: {running}"


async def life(user: Cluster) -> None:
    """A Pod waits for a ConfigMap, becomes ready, and is deleted."""
    served = container(
        readinessProbe={"httpGet": {"port": 80}, "periodSeconds": 1},
        env=[{"name": "COLOUR", "valueFrom": {"configMapKeyRef": {"name": "settings", "key": "colour"}}}],
    )
    await user.create(pod("web", served, initContainers=[container("prepare")]))
    await user.create(ConfigMap(metadata=ObjectMeta(name="settings"), data={"colour": "red"}))
    await user.until(WEB, lambda it: condition(it, "Ready") == "True", within=600)
    await user.delete(WEB)
    await user.until_gone(WEB, within=600)


async def work(user: Cluster) -> None:
    """A Pod fails the first time and succeeds after a restart."""
    await user.create(pod("job", restartPolicy="OnFailure"))
    await user.until(Ref(Pod, "job"), lambda it: status(it).phase == "Succeeded", within=600)


@pytest.mark.explore(budget=12)
@pytest.mark.parametrize("scenario", [life, work])
def test_no_container_runs_twice_under_all_faults(scenario: Any, tmp_path: Path) -> Exploration:
    return Exploration(
        scenario,
        controllers,
        invariants=[no_container_runs_twice],
        outside=makes(tmp_path),
        outside_errors=(),  # the machine is here: a process that was started has an identity
        # The exit code of a process that ends while no manager runs is lost, so the container runs once more.
        ignored=["outside.machine", "outside.folder", *(["Pod.status.containerStatuses"] if scenario is work else [])],
        name=scenario.__name__,
    )
