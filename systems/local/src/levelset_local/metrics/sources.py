"""The sources of PodMetrics and NodeMetrics: what the API server answers when they are read."""

import math
from collections.abc import Iterable
from datetime import UTC, datetime

from levelset import Client, Object, ObjectMeta, Quantity
from levelset.kinds.core_v1 import Pod
from levelset.objects import Notation
from levelset_local.metrics.kinds import ContainerMetrics, NodeMetrics, PodMetrics
from levelset_local.metrics.process_meter import MachineLoad, Measurement, ProcessMeter

__all__ = ["MetricsSources", "node_metrics", "pod_metrics"]


class MetricsSources:
    """Computes the metrics of a node; `client` reads its Pods, and is set when the manager starts."""

    def __init__(self, meter: ProcessMeter, node: str) -> None:
        self.client: Client | None = None
        self._meter = meter
        self._node = node

    async def open(self, client: Client) -> None:
        """Begins to measure, so that the first request finds a measurement to compare with."""
        self.client = client
        await self._meter.measure()

    async def pods(self, namespace: str | None) -> Iterable[Object]:
        """The metrics of all Pods with a process."""
        if self.client is None:
            return ()
        measured = await self._meter.measure()
        pods, now = await self.client.list(Pod, namespace=namespace), _now()
        return [found for pod in pods if (found := pod_metrics(pod, measured, now)) is not None]

    async def nodes(self, _: str | None) -> Iterable[Object]:
        """The metrics of the node; none until it was measured twice."""
        load = (await self._meter.measure()).machine
        return [] if load is None else [node_metrics(self._node, load, _now())]


def pod_metrics(pod: Pod, measured: Measurement, now: datetime) -> PodMetrics | None:
    """The metrics of a Pod with its labels, as `kubectl top -l` selects them; None if no container has a process."""
    used = {
        container.name: found
        for container in (*pod.spec.init_containers, *pod.spec.containers)
        if (found := measured.containers.get((pod.metadata.uid, container.name))) is not None
    }
    if not used:
        return None
    return PodMetrics(
        metadata=_metadata(pod.name, pod.namespace, now, dict(pod.metadata.labels)),
        timestamp=now,
        window=_seconds(max(one.window for one in used.values())),
        containers=tuple(
            ContainerMetrics(name=name, usage=_usage(one.cores, one.memory)) for name, one in used.items()
        ),
    )


def node_metrics(name: str, load: MachineLoad, now: datetime) -> NodeMetrics:
    """The metrics of a node."""
    usage = _usage(load.cores, load.memory)
    return NodeMetrics(
        metadata=_metadata(name, None, now, {}), timestamp=now, window=_seconds(load.window), usage=usage
    )


def _now() -> datetime:
    return datetime.now(UTC).replace(microsecond=0)


def _metadata(name: str, namespace: str | None, now: datetime, labels: dict[str, str]) -> ObjectMeta:
    return ObjectMeta(name=name, namespace=namespace, labels=labels, creation_timestamp=now)


def _usage(cores: float, memory: int) -> dict[str, Quantity]:
    return {
        "cpu": Quantity.of(math.ceil(cores * 1000) / 1000),  # rounded up to thousandths, as kubectl shows them
        "memory": Quantity.of(math.ceil(memory / 1024) * 1024, Notation.BINARY),
    }


def _seconds(window: float) -> str:
    return f"{max(1, round(window))}s"
