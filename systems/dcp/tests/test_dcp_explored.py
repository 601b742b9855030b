"""DCP under the explorer: crashed, delayed and confused at every step, it starts nothing twice and leaves nothing.

`LEVELSET_STORIES_BUDGET` is how many plans are played of each scenario; the default keeps the suite quick.
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
from levelset_dcp.replicasets import replicasets_controller
from levelset_dcp.services import PretendListeners, services_controller
from levelset_machine import PretendMachine
from systems.dcp.tests.programs import exe, pretend_world

BUDGET = int(os.environ.get("LEVELSET_STORIES_BUDGET", "8"))
PRODUCER = {"service-producer": '[{"serviceName": "web"}]'}


class Laptop:
    """One machine for each play, with its programs, its ports and what is remembered of both."""

    def __init__(self) -> None:
        self.pretend = PretendMachine()
        for name in ("web", "client", "keeper"):
            self.pretend.program(name)
        self.pretend.program("job", exits=3, after=5.0)
        self.world = pretend_world(self.pretend, Path("unused"))

    def controllers(self) -> Sequence[Controller[Any]]:
        return [
            executables_controller(self.world),
            services_controller(PretendListeners(), random=Random(1)),
            replicasets_controller(random=Random(1)),
        ]


async def two_programs(people: Cluster) -> None:
    await people.create(exe("client", "two", args=('{{ portFor "web" }}',)))
    await people.create(exe("web", annotations=PRODUCER, args=('{{ portForServing "web" }}',)))
    await people.create(Service.new("web", ServiceSpec()))
    for name in ("one", "two"):
        await people.until(Ref(Executable, name), runs)
    await people.patch(Ref(Executable, "two"), MergePatch({"spec": {"stop": True}}))
    await people.settled()
    await people.delete(Ref(Executable, "one"))
    await people.until_gone(Ref(Executable, "one"))


def runs(one: Executable) -> bool:
    return one.status is not None and one.status.state == "Running"


async def a_job(people: Cluster) -> None:
    await people.create(exe("job"))
    await people.advance(10)


async def a_set(people: Cluster) -> None:
    template = ExecutableTemplate(spec=ExecutableSpec(executable_path="web"))
    await people.create(ExecutableReplicaSet.new("web", ExecutableReplicaSetSpec(template=template, replicas=2)))
    await people.advance(5)
    await people.patch(Ref(ExecutableReplicaSet, "web"), MergePatch({"spec": {"replicas": 1}}))
    await people.advance(5)
    await people.delete(Ref(ExecutableReplicaSet, "web"))
    await people.until_gone(Ref(ExecutableReplicaSet, "web"))


async def kept(people: Cluster) -> None:
    await people.create(exe("keeper", mode="persistent"))
    await people.until(Ref(Executable, "one"), runs)
    await people.delete(Ref(Executable, "one"))
    await people.until_gone(Ref(Executable, "one"))
    await people.create(exe("keeper", mode="persistent"))
    await people.until(Ref(Executable, "one"), runs)
    await people.patch(Ref(Executable, "one"), MergePatch({"spec": {"stop": True}}))
    await people.until(Ref(Executable, "one"), is_over)
    await people.create(exe("keeper", "two", mode="cleanup"))
    await people.advance(5)


def is_over(one: Executable) -> bool:
    return one.status is not None and one.status.finish_timestamp is not None


async def probed(people: Cluster) -> None:
    probe = HealthProbe(
        name="p", type="HTTP", schedule=ProbeSchedule(interval="1s"), http_probe=HttpProbe(url="http://localhost:80/")
    )
    await people.create(exe("web", health_probes=(probe,)))
    await people.until(Ref(Executable, "one"), runs)
    await people.advance(5)


def nothing_runs_twice(state: State) -> None:
    commands = [run.command.argv for run in state.outside.pretend.runs if run.command.argv[0] != "web"]
    assert len(commands) == len(set(commands)), commands


@pytest.mark.parametrize("scenario", [two_programs, a_job, a_set, kept, probed], ids=lambda one: one.__name__)
def test_it_comes_through_whatever_is_done_to_it(scenario: Any) -> None:
    exploration = Exploration(
        scenario,
        Laptop.controllers,
        invariants=[nothing_runs_twice],
        outside=Laptop,
        name=scenario.__name__,
        ignored=["Executable.status.pid", "Executable.status.executionID"],
        older=scenario is not a_set,
    )
    report = explore(exploration, budget=BUDGET)
    assert not report.failures, report.story()
