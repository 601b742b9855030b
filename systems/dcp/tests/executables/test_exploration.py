"""Executables under the explorer: with crashes, delays and faults at every step, nothing is started twice.

`LEVELSET_STORIES_BUDGET` is the number of plans for each scenario; the default keeps the suite quick.
"""

import os
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Any

import pytest

from levelset import Controller, MergePatch, Ref
from levelset.testing import Cluster
from levelset.testing.explore import Exploration, State, explore
from levelset_dcp.executables import executables_controller
from levelset_dcp.kinds import (
    Executable,
    ExecutableReplicaSet,
    ExecutableReplicaSetSpec,
    ExecutableSpec,
    ExecutableTemplate,
    HealthProbe,
    HttpProbe,
    ProbeSchedule,
    Service,
    ServiceSpec,
)
from levelset_dcp.replica_sets import replicasets_controller
from levelset_dcp.services import FakeListeners, services_controller
from levelset_machine import FakeMachine
from systems.dcp.tests.support.executables import exe, fake_executable_host

AN_HOUR = 3600.0
"""How long the undisturbed run is followed: with a probe each second, a day takes long and shows nothing more."""
BUDGET = int(os.environ.get("LEVELSET_STORIES_BUDGET", "8"))
PRODUCER = {"service-producer": '[{"serviceName": "web"}]'}


class FakeLaptop:
    """One machine for each plan, with its programs, ports and records."""

    def __init__(self) -> None:
        self.machine = FakeMachine()
        for name in ("web", "client", "daemon"):
            self.machine.program(name)
        self.machine.program("job", exits=3, after=5.0)
        # Private: it is of the same process, so nothing comes between a call and its response.
        self._host = fake_executable_host(self.machine, Path("unused"))

    def controllers(self) -> Sequence[Controller[Any]]:
        return [
            executables_controller(self._host),
            services_controller(FakeListeners(), random=Random(1)),
            replicasets_controller(random=Random(1)),
        ]


async def two_programs(cluster: Cluster) -> None:
    await cluster.create(exe("client", "two", args=('{{ portFor "web" }}',)))
    await cluster.create(exe("web", annotations=PRODUCER, args=('{{ portForServing "web" }}',)))
    await cluster.create(Service.new("web", ServiceSpec()))
    for name in ("one", "two"):
        await cluster.until(Ref(Executable, name), runs)
    await cluster.patch(Ref(Executable, "two"), MergePatch({"spec": {"stop": True}}))
    await cluster.settled()
    await cluster.delete(Ref(Executable, "one"))
    await cluster.until_gone(Ref(Executable, "one"))


def runs(one: Executable) -> bool:
    return one.status is not None and one.status.state == "Running"


async def a_job(cluster: Cluster) -> None:
    await cluster.create(exe("job"))
    await cluster.advance(10)


async def a_set(cluster: Cluster) -> None:
    template = ExecutableTemplate(spec=ExecutableSpec(executable_path="web"))
    await cluster.create(ExecutableReplicaSet.new("web", ExecutableReplicaSetSpec(template=template, replicas=2)))
    await cluster.advance(5)
    await cluster.patch(Ref(ExecutableReplicaSet, "web"), MergePatch({"spec": {"replicas": 1}}))
    await cluster.advance(5)
    await cluster.delete(Ref(ExecutableReplicaSet, "web"))
    await cluster.until_gone(Ref(ExecutableReplicaSet, "web"))


async def persistent(cluster: Cluster) -> None:
    await cluster.create(exe("daemon", mode="persistent"))
    await cluster.until(Ref(Executable, "one"), runs)
    await cluster.delete(Ref(Executable, "one"))
    await cluster.until_gone(Ref(Executable, "one"))
    await cluster.create(exe("daemon", mode="persistent"))
    await cluster.until(Ref(Executable, "one"), runs)
    await cluster.patch(Ref(Executable, "one"), MergePatch({"spec": {"stop": True}}))
    await cluster.until(Ref(Executable, "one"), is_over)
    await cluster.create(exe("daemon", "two", mode="cleanup"))
    await cluster.advance(5)


def is_over(one: Executable) -> bool:
    return one.status is not None and one.status.finish_timestamp is not None


async def probed(cluster: Cluster) -> None:
    probe = HealthProbe(
        name="p", type="HTTP", schedule=ProbeSchedule(interval="1s"), http_probe=HttpProbe(url="http://localhost:80/")
    )
    await cluster.create(exe("web", health_probes=(probe,)))
    await cluster.until(Ref(Executable, "one"), runs)
    await cluster.advance(5)


def nothing_runs_twice(state: State) -> None:
    commands = [run.command.argv for run in state.outside.machine.runs if run.command.argv[0] != "web"]
    assert len(commands) == len(set(commands)), commands


@pytest.mark.parametrize("scenario", [two_programs, a_job, a_set, persistent, probed], ids=lambda one: one.__name__)
def test_it_converges_under_all_faults(scenario: Any) -> None:
    exploration = Exploration(
        scenario,
        FakeLaptop.controllers,
        invariants=[nothing_runs_twice],
        outside=FakeLaptop,
        name=scenario.__name__,
        # The machine remembers every process that was ever started.
        ignored=["Executable.status.pid", "Executable.status.executionID", "outside.machine"],
        stale_restarts=scenario is not a_set,
        follow=AN_HOUR,
    )
    report = explore(exploration, budget=BUDGET)
    assert not report.failures, report.story()
