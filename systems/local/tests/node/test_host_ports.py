"""A host port belongs to one Pod at a time: others are not scheduled, or rejected, until it is free."""

from pathlib import Path
from typing import Any

import pytest

from levelset import MergePatch, Ref
from levelset.kinds.core_v1 import Event, Pod
from levelset.objects import to_tree
from levelset.testing import Cluster
from levelset_local.node.host_ports import HostPort, host_ports, overlap
from levelset_local.statefulsets import statefulsets_controller
from systems.local.tests.cluster_queries import events
from systems.local.tests.node.fake_node import RecordingMachine, condition, container, pod, pod_reconciler, status
from systems.local.tests.samples import stateful_set

FIRST = Ref(Pod, "first")
SECOND = Ref(Pod, "second")
NO_PORTS = "node(s) didn't have free ports for the requested pod ports"


def with_port(name: str, number: int = 8080, *, port: dict[str, Any] | None = None, **spec: Any) -> Pod:
    """A Pod that asks for a port of the node."""
    ports = [{"containerPort": number, "hostPort": number, **(port or {})}]
    return pod(name, container(name, ports=ports), **spec)


def machine_of(cluster: Cluster, **program: Any) -> RecordingMachine:
    machine = RecordingMachine(cluster)
    machine.program("*", **program)
    return machine


@pytest.mark.parametrize(
    ("first", "second", "overlaps"),
    [
        (HostPort(80), HostPort(80), True),
        (HostPort(80), HostPort(81), False),
        (HostPort(80), HostPort(80, "UDP"), False),
        (HostPort(80, "TCP", "127.0.0.1"), HostPort(80), True),
        (HostPort(80, "TCP", "127.0.0.1"), HostPort(80, "TCP", "127.0.0.1"), True),
        (HostPort(80, "TCP", "127.0.0.1"), HostPort(80, "TCP", "127.0.0.2"), False),
    ],
)
def test_ports_overlap_by_number_protocol_and_address(first: HostPort, second: HostPort, overlaps: bool) -> None:
    assert overlap([first], [HostPort(9), second]) is overlaps
    assert overlap([second], [HostPort(9), first]) is overlaps


def test_host_ports_are_those_of_main_containers_and_sidecars() -> None:
    ports = {number: [{"containerPort": number, "hostPort": number}] for number in (1, 2, 3)}
    init = [container("setup", ports=ports[1]), container("proxy", ports=ports[2], restartPolicy="Always")]
    main = container(ports=[*ports[3], {"containerPort": 4}, {"containerPort": 5, "hostPort": 5, "protocol": "UDP"}])
    assert host_ports(pod("web", main, initContainers=init)) == (HostPort(2), HostPort(3), HostPort(5, "UDP"))


async def test_a_bound_pod_is_rejected_while_another_pod_has_its_host_port(cluster: Cluster, tmp_path: Path) -> None:
    machine = machine_of(cluster)
    async with cluster.running(pod_reconciler(machine, tmp_path).controller()):
        await cluster.create(with_port("first"))
        await cluster.until(FIRST, lambda it: condition(it, "Ready") == "True")
        await cluster.create(with_port("second", nodeName="local"))
        rejected = await cluster.until(SECOND, lambda it: status(it).phase == "Failed")
        await cluster.settled()
        found = status(rejected)
        assert (found.reason, found.message) == (
            "NodePorts",
            f"Pod was rejected: Predicate NodePorts failed: {NO_PORTS}",
        )
        assert found.start_time is not None
        assert (found.pod_ip, found.conditions, found.container_statuses) == (None, (), ())
        events = [(one.type, one.message) for one in await cluster.list(Event) if one.reason == "NodePorts"]
        assert events == [("Warning", f"Predicate NodePorts failed: {NO_PORTS}")]
        assert len(machine.runs) == 1


async def test_a_rejected_pod_is_deleted_at_once_and_its_successor_gets_the_free_port(
    cluster: Cluster, tmp_path: Path
) -> None:
    machine = machine_of(cluster)
    async with cluster.running(pod_reconciler(machine, tmp_path).controller()):
        await cluster.create(with_port("first"))
        await cluster.until(FIRST, lambda it: condition(it, "Ready") == "True")
        await cluster.create(with_port("second", nodeName="local"))
        await cluster.until(SECOND, lambda it: status(it).phase == "Failed")
        await cluster.delete(SECOND)
        await cluster.until_gone(SECOND, within=1)
        await cluster.delete(FIRST)
        await cluster.until_gone(FIRST)
        await cluster.settled()
        await cluster.create(with_port("second", nodeName="local"))
        await cluster.until(SECOND, lambda it: condition(it, "Ready") == "True")


async def test_a_stateful_set_recreates_a_rejected_pod_about_once_a_second_until_the_port_is_free(
    cluster: Cluster, tmp_path: Path
) -> None:
    machine = machine_of(cluster)
    spec = to_tree(with_port("db", nodeName="local"))["spec"]
    template = {"metadata": {"labels": {"app": "db"}}, "spec": spec}
    async with cluster.running(pod_reconciler(machine, tmp_path).controller(), statefulsets_controller()):
        await cluster.create(with_port("first"))
        await cluster.until(FIRST, lambda it: condition(it, "Ready") == "True")
        await cluster.create(stateful_set(replicas=1, template=template))
        await cluster.advance(10)
        created = await events(cluster, "SuccessfulCreate")
        assert 5 <= created <= 11
        await cluster.delete(FIRST)
        await cluster.until(Ref(Pod, "db-0"), lambda it: condition(it, "Ready") == "True", within=60)


async def test_an_unbound_pod_is_not_scheduled_until_its_host_port_is_free(cluster: Cluster, tmp_path: Path) -> None:
    machine = machine_of(cluster)
    async with cluster.running(pod_reconciler(machine, tmp_path).controller()):
        await cluster.create(with_port("first"))
        await cluster.until(FIRST, lambda it: condition(it, "Ready") == "True")
        await cluster.create(with_port("second"))
        waiting = await cluster.until(SECOND, lambda it: condition(it, "PodScheduled") == "False")
        await cluster.advance(600)
        assert (status(waiting).phase, waiting.spec.node_name, len(machine.runs)) == ("Pending", None, 1)
        [scheduled] = [one for one in status(waiting).conditions if one.type == "PodScheduled"]
        message = f"0/1 nodes are available: 1 {NO_PORTS}."
        assert (scheduled.reason, scheduled.message) == ("Unschedulable", message)
        assert [one.message for one in await cluster.list(Event) if one.reason == "FailedScheduling"] == [message]
        await cluster.delete(FIRST)
        await cluster.until(SECOND, lambda it: condition(it, "Ready") == "True", within=60)


async def test_a_pod_that_has_ended_frees_its_host_port(cluster: Cluster, tmp_path: Path) -> None:
    machine = RecordingMachine(cluster)
    machine.program("first", exits=0, after=30.0)
    machine.program("second")
    async with cluster.running(pod_reconciler(machine, tmp_path).controller()):
        await cluster.create(with_port("first", restartPolicy="Never"))
        await cluster.create(with_port("second"))
        await cluster.until(SECOND, lambda it: condition(it, "PodScheduled") == "False")
        await cluster.until(SECOND, lambda it: condition(it, "Ready") == "True", within=60)
    assert machine.starts == [0, 30]


async def test_a_port_is_not_free_before_the_processes_of_a_force_deleted_pod_have_ended(
    cluster: Cluster, tmp_path: Path
) -> None:
    machine = RecordingMachine(cluster)
    machine.program("first", ignores_term=True)
    machine.program("second")
    async with cluster.running(pod_reconciler(machine, tmp_path).controller()):
        await cluster.create(with_port("first"))
        await cluster.until(FIRST, lambda it: condition(it, "Ready") == "True")
        await cluster.create(with_port("second"))
        await cluster.until(SECOND, lambda it: condition(it, "PodScheduled") == "False")
        await cluster.delete(FIRST, grace=0)
        await cluster.until(SECOND, lambda it: condition(it, "Ready") == "True", within=60)
    assert machine.starts == [0, 1]  # the second is started when the first has been killed


async def test_of_pods_that_are_created_together_one_gets_the_host_port(cluster: Cluster, tmp_path: Path) -> None:
    machine = machine_of(cluster)
    for name, node in (("one", "local"), ("two", None), ("three", "local"), ("four", None)):
        await cluster.create(with_port(name, nodeName=node))
    async with cluster.running(pod_reconciler(machine, tmp_path).controller()):
        await cluster.settled()
        phases = [status(one).phase for one in await cluster.list(Pod)]
        assert phases.count("Running") == len(machine.runs) == 1


async def test_other_protocols_and_addresses_of_the_port_stay_free(cluster: Cluster, tmp_path: Path) -> None:
    machine = machine_of(cluster)
    await cluster.create(with_port("tcp", port={"hostIP": "127.0.0.1"}))
    await cluster.create(with_port("udp", port={"protocol": "UDP"}))
    await cluster.create(with_port("other", port={"hostIP": "127.0.0.2"}))
    async with cluster.running(pod_reconciler(machine, tmp_path).controller()):
        await cluster.settled()
        assert {one.name: status(one).phase for one in await cluster.list(Pod)} == dict.fromkeys(
            ("tcp", "udp", "other"), "Running"
        )


async def test_the_container_ports_of_a_pod_in_the_host_network_are_host_ports(
    cluster: Cluster, tmp_path: Path
) -> None:
    machine = machine_of(cluster)
    async with cluster.running(pod_reconciler(machine, tmp_path).controller()):
        ports = [{"containerPort": 8080}]
        await cluster.create(pod("first", container("first", ports=ports), hostNetwork=True))
        await cluster.until(FIRST, lambda it: condition(it, "Ready") == "True")
        await cluster.create(with_port("second"))
        await cluster.until(SECOND, lambda it: condition(it, "PodScheduled") == "False")


async def test_a_started_pod_has_its_port_again_after_the_manager_is_restarted(
    cluster: Cluster, tmp_path: Path
) -> None:
    machine = machine_of(cluster)
    waiting, started = Ref(Pod, "a-waiting"), Ref(Pod, "b-started")
    async with cluster.running(pod_reconciler(machine, tmp_path).controller()):
        await cluster.create(with_port("b-started"))
        await cluster.until(started, lambda it: condition(it, "Ready") == "True")
        await cluster.create(with_port("a-waiting"))
        await cluster.until(waiting, lambda it: condition(it, "PodScheduled") == "False")
    async with cluster.running(pod_reconciler(machine_of(cluster), tmp_path).controller()):  # its records are lost
        await cluster.settled()
        assert (await cluster.get(waiting)).spec.node_name is None
        await cluster.until(started, lambda it: condition(it, "Ready") == "True")
        await cluster.delete(started)
        await cluster.until(waiting, lambda it: condition(it, "Ready") == "True", within=60)


async def test_a_host_port_that_nothing_forwards_is_reported(cluster: Cluster, tmp_path: Path) -> None:
    machine = machine_of(cluster)
    await cluster.create(with_port("first"))
    async with cluster.running(pod_reconciler(machine, tmp_path).controller()):
        await cluster.until(FIRST, lambda it: status(it).phase == "Running")
        await cluster.patch(FIRST, MergePatch({"metadata": {"labels": {"a": "b"}}}))
        await cluster.settled()
        messages = [one.message for one in await cluster.list(Event) if one.reason == "HostPortNotForwarded"]
    assert messages == ["hostPort 8080: reserved, but not forwarded to the Pod; connect to the Pod's own address"]
