"""The metrics of Pods and the node: what `kubectl top` shows."""

import os
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime

from levelset import replace
from levelset.codegen import crd_of
from levelset.kinds.core_v1 import Container
from levelset.objects import to_tree
from levelset.testing import Cluster
from levelset_local.metrics import ContainerUsage, Measurement, NodeMetrics, PodMetrics, ProcessMeter, pod_metrics
from levelset_machine import MachineUsage, SessionUsage, read_machine_usage
from systems.local.tests import samples

NOW = datetime(2031, 1, 1, 12, tzinfo=UTC)


@dataclass
class Table:
    """A table of processes: the seconds that they have used, and those for which they have been running."""

    used: dict[int, float] = field(default_factory=dict[int, float])
    seconds: float = 10.0
    machine: float = 100.0
    reads: int = 0

    def sessions(self, pids: Collection[int]) -> Mapping[int, SessionUsage]:
        self.reads += 1
        return {pid: SessionUsage(used, 1024 * pid, self.seconds) for pid, used in self.used.items() if pid in pids}

    def meter(self, **processes: int) -> ProcessMeter:
        found = {pid: ("uid", container) for container, pid in processes.items()}
        return ProcessMeter(
            lambda: found, read_sessions=self.sessions, read_machine=lambda: MachineUsage(self.machine, 4096)
        )


async def test_the_first_measurement_is_the_average_since_the_start(cluster: Cluster) -> None:
    meter = Table({7: 5.0}).meter(main=7)
    async with cluster:
        measured = await meter.measure()
        assert measured.containers == {("uid", "main"): ContainerUsage(0.5, 7168, 10.0, is_first=True)}
        assert measured.machine is None
        assert await meter.cores_by_pod() == {}  # an autoscaler waits for the second one: starts are busy


async def test_later_ones_are_those_since_the_measurement_before(cluster: Cluster) -> None:
    table = Table({7: 5.0, 8: 1.0, 9: 3.0})
    meter = table.meter(main=7, side=8)
    async with cluster:
        await meter.measure()
        table.used, table.machine = {7: 7.0, 8: 2.0}, 120.0
        await cluster.advance(10)
        measured = await meter.measure()
        assert measured.containers[("uid", "main")] == ContainerUsage(0.2, 7168, 10.0, is_first=False)
        assert measured.machine is not None
        assert (measured.machine.cores, measured.machine.memory, measured.machine.window) == (2.0, 4096, 10.0)
        assert {uid: round(cores, 6) for uid, cores in (await meter.cores_by_pod()).items()} == {"uid": 0.3}


async def test_a_container_that_has_just_started_is_added_at_once(cluster: Cluster) -> None:
    table, processes = Table({7: 5.0, 8: 1.0}), {7: ("uid", "main")}
    meter = ProcessMeter(lambda: processes, read_sessions=table.sessions, read_machine=lambda: None)
    async with cluster:
        before = (await meter.measure()).containers
        processes[8] = ("new", "main")
        await cluster.advance(1)
        for _ in range(2):
            assert (await meter.measure()).containers == {
                **before,
                ("new", "main"): ContainerUsage(0.1, 8192, 10.0, is_first=True),
            }
        assert table.reads == 2
        await cluster.advance(9)
        table.used = {7: 6.0, 8: 2.0}
        measured = (await meter.measure()).containers
        assert {key: one.is_first for key, one in measured.items()} == {("uid", "main"): False, ("new", "main"): True}


async def test_nothing_is_read_again_within_five_seconds(cluster: Cluster) -> None:
    table = Table({7: 5.0})
    meter = table.meter(main=7)
    async with cluster:
        for wait, reads in ((0.0, 1), (4.9, 1), (0.1, 2)):
            await cluster.advance(wait)
            await meter.measure()
            assert table.reads == reads


async def test_the_processes_of_this_machine_are_measured(cluster: Cluster) -> None:
    session = os.getsid(0)
    meter = ProcessMeter(lambda: {session: ("uid", "main")})
    async with cluster:
        used = (await meter.measure()).containers[("uid", "main")]
        assert (used.cores > 0.0, used.memory > 1_000_000, used.window > 0.0) == (True, True, True)


def test_the_metrics_of_a_pod_have_its_labels_and_rounded_quantities() -> None:
    pod = samples.pod("web", labels={"app": "web"})
    pod = replace(pod, spec=replace(pod.spec, containers=(Container(name="main"), Container(name="idle"))))
    used = {(pod.metadata.uid, "main"): ContainerUsage(0.25001, 1_500_000, 14.6, is_first=False)}
    found = pod_metrics(pod, Measurement(used), NOW)
    assert found is not None
    tree = to_tree(found)
    assert tree["metadata"]["labels"] == {"app": "web"}
    assert (tree["timestamp"], tree["window"]) == ("2031-01-01T12:00:00Z", "15s")
    assert tree["containers"] == [{"name": "main", "usage": {"cpu": "251m", "memory": "1465Ki"}}]


def test_a_pod_without_a_process_has_no_metrics() -> None:
    assert pod_metrics(samples.pod("web"), Measurement(), NOW) is None


def test_the_kinds_are_those_of_metrics_server() -> None:
    definitions = [crd_of(one, is_computed=True) for one in (PodMetrics, NodeMetrics)]
    names = {one["metadata"]["name"]: one["spec"]["scope"] for one in definitions}
    assert names == {"pods.metrics.k8s.io": "Namespaced", "nodes.metrics.k8s.io": "Cluster"}
    assert read_machine_usage() is not None
